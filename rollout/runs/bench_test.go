package runs_test

import (
	"fmt"
	"path/filepath"
	"testing"

	"hermes/rollout/journal"
	"hermes/rollout/rundir"
	"hermes/rollout/runs"
)

// BenchmarkMerge joins two runs of 500 records each.
func BenchmarkMerge(b *testing.B) {
	parent := b.TempDir()
	for shard := range 2 {
		m := rundir.Manifest{Version: "1", Identity: rundir.Fields{{Name: "model", Value: "m"}},
			Extent: rundir.Extent{Planned: 500, Shard: fmt.Sprint(shard, "/2")}, Books: rundir.Books{Mode: "batch"}}
		d, err := rundir.Open(b.Context(), filepath.Join(parent, fmt.Sprint(shard)), m, rundir.Options{})
		if err != nil {
			b.Fatal(err)
		}
		for i := range 500 {
			if err := d.Journal.Put(b.Context(), journal.KindFinal, sample(2*i+shard)); err != nil {
				b.Fatal(err)
			}
		}
		if err := d.Close(); err != nil {
			b.Fatal(err)
		}
	}
	n := 0
	for b.Loop() {
		n++
		s, err := runs.Merge(b.Context(), filepath.Join(parent, fmt.Sprint("out", n)), []string{filepath.Join(parent, "0"), filepath.Join(parent, "1")})
		if err != nil || s.Accepted != 1000 {
			b.Fatalf("%d accepted, %v", s.Accepted, err)
		}
	}
}
