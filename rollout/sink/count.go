package sink

import (
	"context"

	"hermes/rollout/journal"
	"hermes/rollout/rundir"
	"hermes/trajectory/stats"
)

// Count reads the books out of the log alone; it writes nothing.
func Count(ctx context.Context, j *journal.Journal, m rundir.Manifest) (stats.Statistics, error) {
	clerk, err := NewClerk(j, m)
	if err != nil {
		return stats.Statistics{}, err
	}
	t := stats.New(m.Tools)
	for e, err := range j.Records(ctx, 0) {
		if err != nil {
			return stats.Statistics{}, err
		}
		if e.Kind == journal.KindReopen {
			t.Reopen(e.Key)
		}
		if e.Kind != journal.KindFinal && e.Kind != journal.KindAttempt {
			continue
		}
		rec, err := e.Record()
		if err != nil {
			return stats.Statistics{}, err
		}
		if e.Kind == journal.KindAttempt {
			t.Attempt(rec)
			continue
		}
		in, err := clerk.Enter(e.At, rec)
		if err != nil {
			return stats.Statistics{}, err
		}
		t.Final(rec, in.Book, in.Sub)
	}
	return t.Statistics(m.Extent.Planned), nil
}
