package runs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"hermes/datasets"
	"hermes/rollout/artifact"
	"hermes/rollout/journal"
	"hermes/rollout/rundir"
	"hermes/rollout/sink"
	"hermes/trajectory"
	"hermes/trajectory/stats"
)

// Merge joins runs of the same identity (shards, usually) into a new run directory. Of each
// sample it takes the record in force, one that did not fail before one that did, with the
// attempts that came before it and with its artifacts. Of an unfinished sample it takes the
// stored model answers of the run that got furthest. The result can be resumed.
//
// The samples of different datasets add up, and so do those of different shards of one
// dataset; the same extent twice counts once.
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
	for _, step := range []func(context.Context, *rundir.Dir, []*Run) error{copyAttempts, copyFinals, copyAnswers, copyBlobs} {
		if err := step(ctx, d, all); err != nil {
			return s, fmt.Errorf("merge: %w", err)
		}
	}
	// Once for all: a merge that dies is begun again, and its inputs are still there.
	if err := d.Journal.Flush(); err != nil {
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
	parts := map[string]map[string]int64{} // by dataset and shard: what was planned
	names := map[string]bool{}
	for _, r := range all {
		if err := rundir.SameIdentity(all[0].Dir, m, r.Manifest); err != nil {
			return m, fmt.Errorf("merge %s: %w", r.Dir, err)
		}
		e := r.Manifest.Extent
		if parts[e.Dataset] == nil {
			parts[e.Dataset] = map[string]int64{}
		}
		parts[e.Dataset][e.Shard] = max(parts[e.Dataset][e.Shard], e.Planned)
		m.Extent.Matched = m.Extent.Matched || e.Matched
		m.Extent.Rollouts = max(m.Extent.Rollouts, e.Rollouts)
		for _, t := range r.Manifest.Tools {
			names[t] = true
		}
	}
	m.Extent.Dataset = strings.Join(slices.Sorted(maps.Keys(parts)), "+")
	m.Extent.Planned, m.Extent.Shard = 0, ""
	for _, shards := range parts {
		planned, shard := joined(shards)
		m.Extent.Planned += planned
		if shard != "" {
			m.Extent.Shard = shard
		}
	}
	m.Tools = slices.Sorted(maps.Keys(names))
	return m, nil
}

// joined is what shards of one dataset come to: their number of samples, and the shard
// that they are together, empty for the whole. Shards that were cut differently overlap;
// then those of the cut that holds most count.
func joined(shards map[string]int64) (planned int64, shard string) {
	if n, ok := shards[""]; ok {
		return n, ""
	}
	cuts := map[int]map[string]bool{} // by the number of parts: those that are there
	sums := map[int]int64{}
	// What is a part of another one, of an earlier merge, follows it.
	longest := func(a, b string) int { return cmp.Or(len(b)-len(a), strings.Compare(a, b)) }
	for _, text := range slices.SortedFunc(maps.Keys(shards), longest) {
		parts := strings.Split(text, "+")
		cut := 0
		if s, err := datasets.ParseShard(parts[0]); err == nil {
			cut = s.N
		}
		if cuts[cut] == nil {
			cuts[cut] = map[string]bool{}
		}
		if !slices.ContainsFunc(parts, func(p string) bool { return !cuts[cut][p] }) {
			continue
		}
		sums[cut] += shards[text]
		for _, p := range parts {
			cuts[cut][p] = true
		}
	}
	best := 0
	for _, cut := range slices.Sorted(maps.Keys(cuts)) {
		if len(cuts[cut]) == cut {
			return sums[cut], ""
		}
		if sums[cut] >= sums[best] {
			best = cut
		}
	}
	return sums[best], strings.Join(slices.Sorted(maps.Keys(cuts[best])), "+")
}

// copyAttempts appends the attempts of samples of which the merged run holds nothing yet.
func copyAttempts(ctx context.Context, d *rundir.Dir, all []*Run) error {
	known := map[trajectory.Key]bool{}
	for _, r := range all {
		for e, err := range r.Journal.Records(ctx, 0) {
			if err != nil {
				return err
			}
			if e.Kind != journal.KindAttempt {
				continue
			}
			was, asked := known[e.Key]
			if !asked {
				_, was = d.Journal.Last(e.Key)
				known[e.Key] = was
			}
			if was {
				continue
			}
			rec, err := e.Record()
			if err != nil {
				return err
			}
			if err := d.Journal.Put(ctx, journal.KindAttempt, rec); err != nil {
				return err
			}
		}
	}
	return nil
}

// copyFinals appends the records in force, runs one after the other; failures last, so
// that none hides a success.
func copyFinals(ctx context.Context, d *rundir.Dir, all []*Run) error {
	for _, failures := range []bool{false, true} {
		for _, r := range all {
			for e, err := range r.Journal.Records(ctx, 0) {
				if err != nil {
					return err
				}
				if e.Kind != journal.KindFinal || !e.Current || e.Outcome.Failure() != failures {
					continue
				}
				if d.Journal.Done(e.Key) {
					if err := reopenFailure(ctx, d.Journal, e, failures); err != nil {
						return err
					}
				}
				if err := copyFinal(ctx, d, r, e); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// copyFinal appends one record, unless the merged run has one, and its artifacts first.
func copyFinal(ctx context.Context, d *rundir.Dir, r *Run, e journal.Entry) error {
	if d.Journal.Done(e.Key) {
		return nil
	}
	rec, err := e.Record()
	if err != nil {
		return err
	}
	from := artifact.Dir(filepath.Join(r.Dir, "artifacts"), rec.Row, rec.Sample)
	to := artifact.Dir(filepath.Join(d.Path, "artifacts"), rec.Row, rec.Sample)
	if err := os.RemoveAll(to); err != nil {
		return err
	}
	if _, err := os.Stat(from); err == nil {
		if err := os.CopyFS(to, os.DirFS(from)); err != nil {
			return fmt.Errorf("artifacts of %s/%d: %w", rec.Row, rec.Sample, err)
		}
	}
	return d.Journal.Put(ctx, journal.KindFinal, rec)
}

// reopenFailure makes room for a success where an earlier merge left a failure.
func reopenFailure(ctx context.Context, j *journal.Journal, e journal.Entry, failure bool) error {
	if h, ok := j.Last(e.Key); failure || !ok || !h.Outcome.Failure() {
		return nil
	}
	return j.Reopen(ctx, []trajectory.Key{e.Key})
}

// copyAnswers stores the model answers of samples that are not finished, of each sample
// those of the run that holds most.
func copyAnswers(_ context.Context, d *rundir.Dir, all []*Run) error {
	most := d.Journal.Unfinished()
	from := map[trajectory.Key]*Run{}
	for _, r := range all {
		for k, n := range r.Journal.Unfinished() {
			if n > most[k] && !d.Journal.Done(k) {
				most[k], from[k] = n, r
			}
		}
	}
	for _, k := range slices.SortedFunc(maps.Keys(from), func(a, b trajectory.Key) int { return strings.Compare(string(a[:]), string(b[:])) }) {
		var tape *journal.Tape
		for t, err := range from[k].Journal.Turns(k) {
			if err != nil {
				return err
			}
			if tape == nil { // what the merged run held of this sample is replaced
				tape, err = journal.NewTape(d.Journal, k, t.Attempt, false)
				if err != nil {
					return err
				}
			}
			if err := tape.Store(t.Digest, t.Answer); err != nil {
				return err
			}
		}
	}
	return nil
}
