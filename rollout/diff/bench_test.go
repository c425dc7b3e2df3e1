package diff_test

import (
	"math/rand/v2"
	"strings"
	"testing"

	"hermes/rollout/diff"
)

// BenchmarkUnrelated is the worst case: two large texts that share lines by chance only.
func BenchmarkUnrelated(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 1))
	text := func() string {
		var s strings.Builder
		for s.Len() < 1<<20 {
			s.WriteByte(byte('a' + r.IntN(20)))
			s.WriteByte(byte('a' + r.IntN(20)))
			s.WriteByte('\n')
		}
		return s.String()
	}
	x, y := text(), text()
	b.SetBytes(int64(len(x) + len(y)))
	for b.Loop() {
		if diff.Unified("x", "x", x, y) == "" {
			b.Fatal("no difference")
		}
	}
}
