package namespace_test

import (
	"slices"
	"testing"
	"time"

	"hermes/backends"
	"hermes/backends/namespace"
)

// median reports the p50 and p95 of durations beside the mean.
func median(b *testing.B, took []time.Duration) {
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "p50-ms")
	b.ReportMetric(float64(took[len(took)*95/100].Microseconds())/1000, "p95-ms")
	b.ReportMetric(float64(took[0].Microseconds())/1000, "min-ms")
}

// BenchmarkCreate is a new box and its first command; closing is not counted in p50.
func BenchmarkCreate(b *testing.B) {
	for _, groups := range []string{"auto", "off"} {
		b.Run("cgroup="+groups, func(b *testing.B) { benchmarkCreate(b, namespace.Config{Cgroup: groups}) })
	}
}

func benchmarkCreate(b *testing.B, c namespace.Config) {
	back := open(b, c)
	var took []time.Duration
	for b.Loop() {
		began := time.Now()
		x := boxOf(b, back, backends.Spec{})
		if r, err := x.Exec(b.Context(), backends.Cmd{Argv: []string{"/bin/true"}}); err != nil || r.Code != 0 {
			b.Fatal(r, err)
		}
		took = append(took, time.Since(began))
		if err := x.Close(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
	median(b, took)
}

// BenchmarkExec is one command in a box that is there.
func BenchmarkExec(b *testing.B) {
	x := box(b, namespace.Config{}, backends.Spec{})
	var took []time.Duration
	for b.Loop() {
		began := time.Now()
		if r, err := x.Exec(b.Context(), backends.Cmd{Argv: []string{"/bin/true"}}); err != nil || r.Code != 0 {
			b.Fatal(r, err)
		}
		took = append(took, time.Since(began))
	}
	median(b, took)
}
