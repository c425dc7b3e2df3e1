package runs

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"

	"hermes/rollout/journal"
	"hermes/rollout/rundir"
	"hermes/rollout/sink"
	"hermes/trajectory"
	"hermes/trajectory/stats"
)

// Export makes the projections of a run into the folder out, or, where out is empty, anew
// in its own directory. formats nil means those of the run; parquet adds Parquet.
func Export(ctx context.Context, dir, out string, formats []string, parquet bool) (stats.Statistics, error) {
	r, err := Open(dir)
	if err != nil {
		return stats.Statistics{}, err
	}
	defer r.Close()
	m := r.Manifest
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
	if _, err := rundir.Read(journal.OS{}, out); !errors.Is(err, rundir.ErrNoRun) {
		return stats.Statistics{}, fmt.Errorf("export to %s: it holds a run of its own", out)
	}
	if err := (journal.OS{}).MkdirAll(out); err != nil {
		return stats.Statistics{}, fmt.Errorf("export: %w", err)
	}
	return sink.Rebuild(ctx, r.Journal, out, m, sink.Options{})
}

// Merge joins runs of the same identity (shards, usually) into a new run directory: of
// each sample the record in force, one that did not fail before one that did. The
// samples of different datasets or shards add up; the same extent twice counts once.
func Merge(ctx context.Context, out string, dirs []string) (s stats.Statistics, err error) {
	if len(dirs) == 0 {
		return s, errors.New("merge: no runs given")
	}
	var all []*Run
	defer func() {
		for _, r := range all {
			r.Close()
		}
	}()
	for _, dir := range dirs {
		r, err := Open(dir)
		if err != nil {
			return s, fmt.Errorf("merge: %w", err)
		}
		all = append(all, r)
	}
	m, err := mergedManifest(all)
	if err != nil {
		return s, err
	}
	d, err := rundir.Open(ctx, out, m, rundir.Options{Amend: true})
	if err != nil {
		return s, fmt.Errorf("merge: %w", err)
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	if err := copyRecords(ctx, d.Journal, all); err != nil {
		return s, fmt.Errorf("merge: %w", err)
	}
	if err := copyBlobs(out, all); err != nil {
		return s, fmt.Errorf("merge: %w", err)
	}
	d.Manifest.Extent.Planned = max(d.Manifest.Extent.Planned, int64(d.Journal.Stats().Done))
	if err := rundir.Write(journal.OS{}, out, d.Manifest); err != nil {
		return s, err
	}
	p, err := sink.New(d.Journal, out, d.Manifest, sink.Options{})
	if err != nil {
		return s, err
	}
	return p.Finish(ctx)
}

// mergedManifest compares the identities, and adds up what was planned.
func mergedManifest(all []*Run) (rundir.Manifest, error) {
	m := all[0].Manifest
	seen := map[string]int64{}
	names := map[string]bool{}
	for _, r := range all {
		if err := rundir.SameIdentity(all[0].Dir, m, r.Manifest); err != nil {
			return m, fmt.Errorf("merge %s: %w", r.Dir, err)
		}
		shard := ""
		for i := 0; i+1 < len(r.Manifest.Config.Content); i += 2 {
			if r.Manifest.Config.Content[i].Value == "shard" {
				shard = r.Manifest.Config.Content[i+1].Value
			}
		}
		part := r.Manifest.Extent.Dataset + "\x00" + shard
		seen[part] = max(seen[part], r.Manifest.Extent.Planned)
		for _, t := range r.Manifest.Tools {
			names[t] = true
		}
	}
	m.Extent.Planned = 0
	for _, n := range seen {
		m.Extent.Planned += n
	}
	m.Tools = slices.Sorted(maps.Keys(names))
	return m, nil
}

// copyRecords appends the records in force, runs one after the other; failures last, so
// that none hides a success.
func copyRecords(ctx context.Context, j *journal.Journal, all []*Run) error {
	for _, failures := range []bool{false, true} {
		for _, r := range all {
			for e, err := range r.Journal.Records(ctx, 0) {
				if err != nil {
					return err
				}
				if e.Kind != journal.KindFinal || !e.Current || e.Outcome.Failure() != failures {
					continue
				}
				if j.Done(e.Key) {
					if err := reopenFailure(ctx, j, e, failures); err != nil {
						return err
					}
				}
				rec, err := e.Record()
				if err != nil {
					return err
				}
				if _, err := j.Append(ctx, rec); err != nil && !errors.Is(err, journal.ErrDone) {
					return err
				}
			}
		}
	}
	return nil
}

// reopenFailure makes room for a success where an earlier merge left a failure.
func reopenFailure(ctx context.Context, j *journal.Journal, e journal.Entry, failure bool) error {
	if h, ok := j.Last(e.Key); failure || !ok || !h.Outcome.Failure() {
		return nil
	}
	return j.Reopen(ctx, []trajectory.Key{e.Key})
}
