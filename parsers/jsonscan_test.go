package parsers

import (
	"math/rand/v2"
	"strings"
	"testing"
)

// TestPlainRun compares with the same search byte by byte, on texts of bytes that lie
// next to those that it looks for.
func TestPlainRun(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	const near = "\x00\x1f\x20\x21\"#[\\]\x7f\x80\x9f\xa0\xa2\xdc\xfe\xff"
	for range 20_000 {
		text := []byte(strings.Repeat("a", r.IntN(30)))
		for range r.IntN(4) {
			if len(text) > 0 {
				text[r.IntN(len(text))] = near[r.IntN(len(near))]
			}
		}
		from := r.IntN(len(text) + 1)
		want := len(text)
		if i := strings.IndexFunc(string(text[from:]), func(c rune) bool { return c == '"' || c == '\\' || c < 0x20 }); i >= 0 {
			want = from + i
		}
		if got := plainRun(string(text), from); got != want {
			t.Fatalf("%q from %d: %d, want %d", text, from, got, want)
		}
	}
}
