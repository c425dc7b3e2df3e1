//go:build linux

package nomad_test

import (
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"hermes/backends"
	"hermes/backends/nomad"
)

// BenchmarkReal measures slots on real agents: a box of a slot that is there with its first
// command, a warm command, commands in many boxes at once, and the time from no slot to 1,
// 8 and all boxes, with a command run in each.
func BenchmarkReal(b *testing.B) {
	b.Run("raw_exec", func(b *testing.B) { slots(b, realAgents(b, agentOptions{}), nomad.Config{}, 64) })
	b.Run("docker", func(b *testing.B) {
		engine := os.Getenv("HERMES_TEST_DOCKER")
		if engine == "" {
			b.Skip("HERMES_TEST_DOCKER names no engine")
		}
		slots(b, realAgents(b, agentOptions{docker: engine}), nomad.Config{Driver: "docker", Image: "hermes-test:python"}, 64)
	})
}

func slots(b *testing.B, a *agents, c nomad.Config, most int) {
	if c.Driver == "docker" {
		c.Artifact = artifact(b)
	}
	c.Max, c.Idle = most, time.Hour
	back := open(b, a, c)
	first := map[int]time.Duration{}
	var all []backends.Sandbox
	for _, n := range []int{1, 8, most} {
		other := back
		if n != most {
			c.Max = n
			other = open(b, a, c)
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
		all = boxes
		if n != most {
			if err := other.Close(deadline(b)); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.Run("busy", func(b *testing.B) {
		b.ReportMetric(first[1].Seconds(), "s-to-1")
		b.ReportMetric(first[8].Seconds(), "s-to-8")
		b.ReportMetric(first[most].Seconds(), "s-to-all")
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
