package ledger_test

import (
	"testing"
	"time"

	"hermes/internal/atropos/ledger"
)

// BenchmarkForm forms all batches of 320 sequences of a queue of a million in 125,000
// groups. The longest times that the state is held by what knows of the whole queue: while
// batches are asked for, when they are there, and while an image is made. The forming itself
// holds nothing.
func BenchmarkForm(b *testing.B) {
	shortest := map[string]time.Duration{}
	timed := func(what string, f func()) {
		begin := time.Now()
		f()
		if d := time.Since(begin); shortest[what] == 0 || d < shortest[what] {
			shortest[what] = d
		}
	}
	for b.Loop() {
		b.StopTimer()
		s := started(b, ledger.Options{}, 320)
		for range 125_000 {
			s.Post(group(8, -1), at(0))
		}
		s.Take()
		b.StartTimer()
		var f *ledger.Forming
		timed("ask", func() { _, f, _ = s.Next("", at(1), nil) })
		timed("form", func() { f.Work() })
		timed("adopt", func() {
			if batch, _, err := s.Next("", at(1), f); err != nil || batch == nil {
				b.Fatal(batch, err)
			}
			s.Take()
		})
		timed("image", func() { s.Image() })
	}
	for what, d := range shortest {
		b.ReportMetric(float64(d.Microseconds()), "us/"+what)
	}
}
