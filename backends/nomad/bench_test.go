package nomad_test

import (
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"hermes/backends"
	"hermes/backends/nomad"
)

// BenchmarkReal measures slots of raw_exec on real agents: a box of a slot that is there
// with its first command, a warm command, commands in 64 boxes at once, and the time from
// no slot to 1, 8 and 64 boxes.
func BenchmarkReal(b *testing.B) {
	const most = 64
	a := realAgents(b, agentOptions{})
	back := open(b, a, nomad.Config{Max: most, Idle: time.Hour})
	first := map[int]time.Duration{}
	var all []backends.Sandbox
	for _, n := range []int{1, 8, most} {
		other := back
		if n != most {
			other = open(b, a, nomad.Config{Max: n})
		}
		began := time.Now()
		boxes := make([]backends.Sandbox, n)
		var made sync.WaitGroup
		for i := range boxes {
			made.Go(func() { boxes[i] = box(b, other, backends.Spec{}) })
		}
		made.Wait()
		first[n] = time.Since(began)
		if b.Failed() {
			return
		}
		if all = boxes; n != most {
			if err := other.Close(deadline(b)); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.Run("busy", func(b *testing.B) {
		b.ReportMetric(first[1].Seconds(), "s-to-1")
		b.ReportMetric(first[8].Seconds(), "s-to-8")
		b.ReportMetric(first[most].Seconds(), "s-to-64")
		var left atomic.Int64
		left.Store(int64(b.N))
		var busy sync.WaitGroup
		for _, x := range all {
			busy.Go(func() {
				for left.Add(-1) >= 0 {
					if r, err := x.Exec(b.Context(), backends.Cmd{Argv: []string{"/bin/true"}}); err != nil || r.Code != 0 {
						b.Error(r, err)
						return
					}
				}
			})
		}
		busy.Wait()
		b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "commands/s")
	})
	b.Run("warm", func(b *testing.B) {
		var took []time.Duration
		for b.Loop() {
			began := time.Now()
			if r, err := all[0].Exec(b.Context(), backends.Cmd{Argv: []string{"/bin/true"}}); err != nil || r.Code != 0 {
				b.Fatal(r, err)
			}
			took = append(took, time.Since(began))
		}
		percentiles(b, took)
	})
	for _, x := range all {
		shut(b, x)
	}
	b.Run("lease", func(b *testing.B) {
		var took []time.Duration
		for b.Loop() {
			began := time.Now()
			x := box(b, back, backends.Spec{})
			took = append(took, time.Since(began))
			shut(b, x)
		}
		percentiles(b, took)
	})
}

func percentiles(b *testing.B, took []time.Duration) {
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "p50-ms")
	b.ReportMetric(float64(took[len(took)*95/100].Microseconds())/1000, "p95-ms")
}
