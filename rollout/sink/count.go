package sink

import (
	"context"

	"hermes/rollout/journal"
	"hermes/rollout/rundir"
	"hermes/trajectory/stats"
)

// Count reads the books out of the log alone; it writes nothing.
func Count(ctx context.Context, j *journal.Journal, m rundir.Manifest) (stats.Statistics, error) {
	last := stats.New(m.Tools)
	err := count(ctx, j, m, func(t *stats.Totals) bool { last = t; return true })
	if err != nil {
		return stats.Statistics{}, err
	}
	return last.Statistics(m.Extent.Planned), nil
}

// count shows the totals before the first entry and behind each; false ends it.
func count(ctx context.Context, j *journal.Journal, m rundir.Manifest, behind func(*stats.Totals) bool) error {
	sorter, err := NewSorter(j, m)
	if err != nil {
		return err
	}
	t := stats.New(m.Tools)
	if !behind(t) {
		return nil
	}
	for e, err := range j.Records(ctx, 0) {
		if err == nil {
			err = add(t, sorter, e)
		}
		if err != nil {
			return err
		}
		if !behind(t) {
			return nil
		}
	}
	return nil
}

// add counts one entry.
func add(t *stats.Totals, sorter *Sorter, e journal.Entry) error {
	if e.Kind == journal.KindReopen {
		t.Reopen(e.Key)
	}
	if e.Kind != journal.KindFinal && e.Kind != journal.KindAttempt {
		return nil
	}
	rec, err := e.Record()
	if err != nil {
		return err
	}
	if e.Kind == journal.KindAttempt {
		t.Attempt(rec)
		return nil
	}
	in, err := sorter.Enter(e.At, rec)
	if err != nil {
		return err
	}
	t.Final(rec, in.Book, in.Sub)
	return nil
}
