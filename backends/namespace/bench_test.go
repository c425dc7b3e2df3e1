//go:build linux

package namespace_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
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

// small builds the slotd program, once, as `make build` does: boxes are measured as hermes ships
// them. Of the file there is only its descriptor.
var small = sync.OnceValues(func() (*os.File, error) {
	dir, err := os.MkdirTemp("", "hermes-bench-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "slotd")
	build := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", path, "hermes/cmd/slotd")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if text, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("build slotd: %w: %s", err, text)
	}
	return os.Open(path)
})

// shipped returns a back-end whose boxes are what hermes ships.
func shipped(b *testing.B, c namespace.Config) *namespace.Backend {
	program, err := small()
	if err != nil {
		b.Fatal(err)
	}
	return open(b, c.WithProgram(fmt.Sprintf("/proc/self/fd/%d", program.Fd())))
}

// BenchmarkCreate is a new box and its first command; closing is not counted in p50.
func BenchmarkCreate(b *testing.B) {
	for _, groups := range []string{"auto", "off"} {
		b.Run("cgroup="+groups, func(b *testing.B) { benchmarkCreate(b, namespace.Config{Cgroup: groups}) })
	}
}

func benchmarkCreate(b *testing.B, c namespace.Config) {
	back := shipped(b, c)
	var took []time.Duration
	used := processorTime(b)
	defer func() {
		b.ReportMetric(float64((processorTime(b)-used).Microseconds())/1000/float64(len(took)), "cpu-ms/box")
	}()
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

// processorTime is what this process and its children that have ended used: the servers of closed
// boxes and what ran in them. The kernel's own threads, which take namespaces down, are not in it.
func processorTime(b *testing.B) (all time.Duration) {
	for _, who := range []int{syscall.RUSAGE_SELF, syscall.RUSAGE_CHILDREN} {
		var u syscall.Rusage
		if err := syscall.Getrusage(who, &u); err != nil {
			b.Fatal(err)
		}
		all += time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	return all
}

// BenchmarkServed is what a rollout with files needs at least: a new box, a file written, a command,
// a file read.
func BenchmarkServed(b *testing.B) {
	back := shipped(b, namespace.Config{})
	used := processorTime(b)
	var took []time.Duration
	for b.Loop() {
		began := time.Now()
		x := boxOf(b, back, backends.Spec{})
		if err := x.WriteFile(b.Context(), "a", []byte("text"), 0); err != nil {
			b.Fatal(err)
		}
		if r, err := x.Exec(b.Context(), backends.Cmd{Argv: []string{"/bin/true"}}); err != nil || r.Code != 0 {
			b.Fatal(r, err)
		}
		if _, err := x.ReadFile(b.Context(), "a", 0); err != nil {
			b.Fatal(err)
		}
		took = append(took, time.Since(began))
		if err := x.Close(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64((processorTime(b)-used).Microseconds())/1000/float64(len(took)), "cpu-ms/box")
	median(b, took)
}

// BenchmarkExec is one command in a box that is there.
func BenchmarkExec(b *testing.B) {
	x := boxOf(b, shipped(b, namespace.Config{}), backends.Spec{})
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

// BenchmarkRate is boxes in a second, each with one command, eight at once.
func BenchmarkRate(b *testing.B) {
	back := shipped(b, namespace.Config{})
	b.SetParallelism(4)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			x, err := back.Open(b.Context(), backends.Spec{})
			if err != nil {
				b.Error(err)
				return
			}
			if r, err := x.Exec(b.Context(), backends.Cmd{Argv: []string{"/bin/true"}}); err != nil || r.Code != 0 {
				b.Error(r, err)
			}
			if err := x.Close(b.Context()); err != nil {
				b.Error(err)
			}
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "boxes/s")
}

// BenchmarkAlive is a thousand boxes at once, after one command each, and what they take
// of the machine's memory.
func BenchmarkAlive(b *testing.B) {
	back := shipped(b, namespace.Config{})
	for b.Loop() {
		before := memoryFree(b)
		boxes := make([]backends.Sandbox, 1000)
		next := make(chan int)
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				for i := range next {
					x, err := back.Open(b.Context(), backends.Spec{})
					if err != nil {
						b.Error(err)
						continue
					}
					boxes[i] = x
					if r, err := x.Exec(b.Context(), backends.Cmd{Argv: []string{"/bin/true"}}); err != nil || r.Code != 0 {
						b.Error(r, err)
					}
				}
			})
		}
		for i := range boxes {
			next <- i
		}
		close(next)
		all.Wait()
		b.ReportMetric(float64(before-memoryFree(b))/(1<<20), "MiB")
		b.ReportMetric(float64(back.Memory())/(1<<20), "servers-MiB")
		for _, x := range boxes {
			if x == nil {
				continue
			}
			if err := x.Close(b.Context()); err != nil {
				b.Error(err)
			}
		}
	}
}

// memoryFree is what the machine has left, in bytes.
func memoryFree(b *testing.B) int64 {
	raw, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		b.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(raw), "MemAvailable:")
	var kib int64
	if _, err := fmt.Sscan(rest, &kib); err != nil {
		b.Fatal(err)
	}
	return kib << 10
}

// BenchmarkTwoWays is a box with one command, eight at once: run by its first process, or by slotd,
// which then is there before the box is handed out. docs/decisions/pid1.md has figures.
func BenchmarkTwoWays(b *testing.B) {
	one := func(b *testing.B, back *namespace.Backend, served bool) error {
		box, err := back.Open(b.Context(), backends.Spec{})
		if err != nil {
			return err
		}
		runs := box
		if served {
			back.Need(box.ID())
			runs = box.(backends.Unwrapper).Unwrap() // the client, which calls slotd
		}
		r, err := runs.Exec(b.Context(), backends.Cmd{Argv: []string{"/bin/true"}})
		if err == nil && r.Code != 0 {
			err = fmt.Errorf("exit code %d", r.Code)
		}
		return errors.Join(err, box.Close(b.Context()))
	}
	for name, served := range map[string]bool{"first-process": false, "slotd": true} {
		b.Run(name, func(b *testing.B) {
			back := shipped(b, namespace.Config{})
			used := processorTime(b)
			b.SetParallelism(4)
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					if err := one(b, back, served); err != nil {
						b.Error(err)
						return
					}
				}
			})
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "boxes/s")
			b.ReportMetric(float64((processorTime(b)-used).Microseconds())/1000/float64(b.N), "cpu-ms/box")
		})
	}
}
