package sink

import (
	"context"
	"encoding/json"
	"path/filepath"
	"time"

	"hermes/rollout/journal"
	"hermes/rollout/listing"
)

// list keeps view.index, the list of the run's records.
type list struct {
	lines
	created time.Time
}

// Listing is the sink of view.index: a row for every record, whatever its book, so that
// the run can be looked at without its records being read.
func Listing(fsys journal.FS, dir string, created time.Time) Sink {
	return &list{lines: lines{name: "listing", path: filepath.Join(dir, listing.FileName), fs: fsys}, created: created}
}

func (l *list) Resume(ctx context.Context, state json.RawMessage) error {
	if err := l.lines.Resume(ctx, state); err != nil || l.length > 0 {
		return err
	}
	l.buf = append(l.buf, listing.Header(listing.ByRun, l.created)...)
	return l.flush()
}

func (l *list) Write(_ context.Context, it Item) error {
	switch it.Kind {
	case journal.KindReopen:
		l.buf = listing.AppendReopen(l.buf, it.Key, it.At, it.Next)
	case journal.KindAttempt:
		l.buf = listing.AppendRow(l.buf, listing.Of(it.At, it.Record, listing.Retried, it.Record.Reason), it.Next)
	case journal.KindFinal:
		l.buf = listing.AppendRow(l.buf, listing.Of(it.At, it.Record, it.Entered.Name(), it.Why), it.Next)
	}
	if len(l.buf) >= flushBytes {
		return l.flush()
	}
	return nil
}

// Name is how lists call the book: accepted, rejected.truncated, failed.sandbox.
func (e Entered) Name() string {
	if e.Sub == "" {
		return string(e.Book)
	}
	return string(e.Book) + "." + e.Sub
}
