package runs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"hermes/rollout/journal"
	"hermes/rollout/rundir"
	"hermes/rollout/sink"
	"hermes/trajectory/stats"
)

// Export makes the projections of a run into the folder out, or, where out is empty, again
// in its own directory. formats nil means those of the run; parquet adds Parquet.
func (r *Run) Export(ctx context.Context, out string, formats []string, parquet bool) (stats.Statistics, error) {
	dir, m := r.Dir, r.Manifest
	if formats != nil {
		m.Books.Formats = formats
	}
	m.Books.Parquet = m.Books.Parquet || parquet
	if out == "" || filepath.Clean(out) == filepath.Clean(dir) {
		lease, err := rundir.Acquire(ctx, dir, rundir.LeaseOptions{})
		if err != nil {
			return stats.Statistics{}, err
		}
		s, err := sink.Rebuild(ctx, r.Journal, dir, m, sink.Options{})
		return s, errors.Join(err, lease.Release())
	}
	if _, err := os.Stat(rundir.Path(out)); err == nil {
		return stats.Statistics{}, fmt.Errorf("export to %s: it holds a run", out)
	}
	if err := (journal.OS{}).MkdirAll(out); err != nil {
		return stats.Statistics{}, fmt.Errorf("export: %w", err)
	}
	return sink.Rebuild(ctx, r.Journal, out, m, sink.Options{})
}
