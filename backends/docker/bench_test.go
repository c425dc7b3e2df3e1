//go:build linux

package docker_test

import (
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/client"

	"hermes/backends"
	"hermes/backends/docker"
)

// median reports the p50 and p95 of durations beside the mean.
func median(b *testing.B, took []time.Duration) {
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "p50-ms")
	b.ReportMetric(float64(took[len(took)*95/100].Microseconds())/1000, "p95-ms")
}

// BenchmarkExec is one command in a box that is there: through slotd mounted or copied,
// and through the engine's own exec.
func BenchmarkExec(b *testing.B) {
	for _, inject := range []string{"bind", "copy"} {
		b.Run("slotd="+inject, func(b *testing.B) {
			x := boxOf(b, open(b, docker.Config{Inject: inject}), backends.Spec{})
			var took []time.Duration
			for b.Loop() {
				began := time.Now()
				if r, err := x.Exec(b.Context(), backends.Cmd{Argv: []string{"/bin/true"}}); err != nil || r.Code != 0 {
					b.Fatal(r, err)
				}
				took = append(took, time.Since(began))
			}
			median(b, took)
		})
	}
	b.Run("engine", func(b *testing.B) {
		x := boxOf(b, open(b, docker.Config{}), backends.Spec{})
		c, err := client.NewClientWithOpts(client.WithHost(engineHost(b)), client.WithAPIVersionNegotiation())
		if err != nil {
			b.Fatal(err)
		}
		defer c.Close()
		var took []time.Duration
		for b.Loop() {
			began := time.Now()
			e, err := c.ContainerExecCreate(b.Context(), x.ID(), container.ExecOptions{Cmd: []string{"/bin/true"}, AttachStdout: true, AttachStderr: true})
			if err != nil {
				b.Fatal(err)
			}
			h, err := c.ContainerExecAttach(b.Context(), e.ID, container.ExecAttachOptions{})
			if err != nil {
				b.Fatal(err)
			}
			io.Copy(io.Discard, h.Reader)
			h.Close()
			if i, err := c.ContainerExecInspect(b.Context(), e.ID); err != nil || i.ExitCode != 0 {
				b.Fatal(i, err)
			}
			took = append(took, time.Since(began))
		}
		median(b, took)
	})
}

// BenchmarkBusy is commands in 64 boxes at the same time.
func BenchmarkBusy(b *testing.B) {
	const boxes = 64
	back := open(b, docker.Config{})
	all := make([]backends.Sandbox, boxes)
	var made sync.WaitGroup
	began := time.Now()
	for i := range all {
		made.Go(func() {
			x, err := back.Open(b.Context(), backends.Spec{})
			if err != nil {
				b.Error(err)
			}
			all[i] = x
		})
	}
	made.Wait()
	if b.Failed() {
		return
	}
	rate := boxes / time.Since(began).Seconds()
	var left atomic.Int64
	var mu sync.Mutex
	var took []time.Duration
	b.ResetTimer()
	left.Store(int64(b.N))
	var busy sync.WaitGroup
	for _, x := range all {
		busy.Go(func() {
			for left.Add(-1) >= 0 {
				began := time.Now()
				if r, err := x.Exec(b.Context(), backends.Cmd{Argv: []string{"/bin/true"}}); err != nil || r.Code != 0 {
					b.Error(r, err)
					return
				}
				mu.Lock()
				took = append(took, time.Since(began))
				mu.Unlock()
			}
		})
	}
	busy.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "commands/s")
	b.ReportMetric(rate, "boxes-made/s")
	median(b, took)
}

// BenchmarkCreate is a new box and its first command; closing is not counted in p50.
func BenchmarkCreate(b *testing.B) {
	back := open(b, docker.Config{})
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
