package journal_test

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"hermes/rollout/journal"
	"hermes/trajectory"
)

// unsynced is the real file system without waiting for the disk: for building benchmarks.
type unsynced struct{ journal.OS }

type unsyncedFile struct{ journal.File }

func (unsyncedFile) Sync() error { return nil }

func (u unsynced) Create(name string) (journal.File, error) {
	f, err := u.OS.Create(name)
	return unsyncedFile{f}, err
}

// BenchmarkOpenMillion opens a journal of 1,000,000 records.
func BenchmarkOpenMillion(b *testing.B) {
	dir := filepath.Join(b.TempDir(), "journal")
	j := open(b, dir, journal.Options{FS: unsynced{}})
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			for i := w; i < 1_000_000; i += 4 {
				r := &trajectory.Record{Key: key(i), Row: fmt.Sprint(i), Group: fmt.Sprint("g", i/8), Outcome: trajectory.Answered}
				if _, err := j.Append(context.Background(), r); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	if err := j.Close(); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		j := open(b, dir, journal.Options{})
		if s := j.Stats(); s.Done != 1_000_000 {
			b.Fatalf("%+v", s)
		}
		j.Close()
	}
}

// tenTurns is a record of ten turns with 12 kB of text in each.
func tenTurns(i int) *trajectory.Record {
	r := record(i, 10, trajectory.Answered)
	t := trajectory.New(trajectory.ModeText, r.Tools)
	for n := range 10 {
		var text []byte
		for len(text) < 6000 {
			text = fmt.Appendf(text, "line %d of turn %d: %x\n", len(text), n, len(text)*7919)
		}
		_, err := t.Commit(trajectory.Turn{
			Given:   []trajectory.Delta{{Message: trajectory.Text(trajectory.Tool, string(text))}},
			Sampled: trajectory.Delta{Message: trajectory.Text(trajectory.Assistant, string(text))}, Finish: trajectory.FinishStop,
		})
		if err != nil {
			panic(err)
		}
	}
	r.Trace = t
	return r
}

// BenchmarkAppendTenTurns writes and syncs trajectories of ten turns, their stored
// answers included, by 64 writers.
func BenchmarkAppendTenTurns(b *testing.B) {
	j := open(b, filepath.Join(b.TempDir(), "journal"), journal.Options{})
	r := tenTurns(1)
	answer := []byte(r.Trace.Nodes[1].Delta.Message.Content())
	b.SetBytes(120_000)
	b.SetParallelism(32)
	b.ReportAllocs()
	var n int
	var mu sync.Mutex
	before := cpu(b)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			mu.Lock()
			n++
			c := *r
			c.Key = key(n)
			mu.Unlock()
			for turn := range 10 {
				if err := j.Turn(c.Key, 1, digest(turn), answer); err != nil {
					b.Error(err)
				}
			}
			mustAppend(b, j, &c)
		}
	})
	b.ReportMetric(float64(cpu(b)-before)/float64(n), "cpu-ns/trajectory")
}

// cpu is the processor time that this process has used.
func cpu(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
