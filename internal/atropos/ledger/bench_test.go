package ledger_test

import (
	"testing"
	"time"

	"hermes/internal/atropos/ledger"
)

// BenchmarkForm forms all batches of 320 sequences of a queue of a million in 125,000
// groups: the longest that the state is held, once for some four hundred batches.
func BenchmarkForm(b *testing.B) {
	var longest, image time.Duration
	for b.Loop() {
		b.StopTimer()
		s := started(b, ledger.Options{}, 320)
		for range 125_000 {
			s.Post(group(8, -1), at(0))
		}
		s.Take()
		b.StartTimer()
		begin := time.Now()
		if batch, err := s.Next("", at(1)); err != nil || batch == nil {
			b.Fatal(batch, err)
		}
		s.Take()
		longest = max(longest, time.Since(begin))
		begin = time.Now()
		s.Image()
		image = max(image, time.Since(begin))
	}
	b.ReportMetric(float64(longest.Microseconds())/1000, "max-ms/form")
	b.ReportMetric(float64(image.Microseconds())/1000, "max-ms/image")
}
