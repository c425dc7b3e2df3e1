package sink

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"

	"hermes/rollout/journal"
	"hermes/trajectory"
	"hermes/trajectory/sharegpt"
	"hermes/trajectory/stats"
)

// books keeps the statistics, and at the end writes what is not accepted, statistics.json
// and report.md, each replaced by rename.
type books struct {
	dir     string
	fs      journal.FS
	log     *journal.Journal
	tools   []string
	planned int64
	layout  sharegpt.Options
	head    reportHead
	sorter  *Sorter

	totals *stats.Totals
	others []journal.Offset // of rejected and failed records, reopened ones too
}

type booksState struct {
	Totals *stats.Totals    `json:"totals"`
	Others []journal.Offset `json:"others"`
}

func (b *books) Name() string { return "books" }

func (b *books) Resume(_ context.Context, state json.RawMessage) error {
	s := booksState{Totals: stats.New(b.tools)}
	if state != nil {
		if err := json.Unmarshal(state, &s); err != nil {
			return ErrStale
		}
	}
	b.totals, b.others = s.Totals, s.Others
	return nil
}

func (b *books) Write(_ context.Context, it Item) error {
	switch it.Kind {
	case journal.KindAttempt:
		b.totals.Attempt(it.Record)
	case journal.KindReopen:
		b.totals.Reopen(it.Key)
	case journal.KindFinal:
		b.totals.Final(it.Record, it.Book, it.Sub)
		if it.Book != stats.Accepted {
			b.others = append(b.others, it.At)
		}
	}
	return nil
}

func (b *books) Commit(_ context.Context, upTo journal.Offset) (journal.Offset, json.RawMessage, error) {
	state, err := json.Marshal(booksState{Totals: b.totals, Others: b.others})
	return upTo, state, err
}

func (b *books) Finish(ctx context.Context) error {
	failures, err := b.writeOthers(ctx)
	if err != nil {
		return err
	}
	s := b.totals.Statistics(b.planned)
	data, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return fmt.Errorf("statistics: %w", err)
	}
	if err := journal.WriteFile(b.fs, filepath.Join(b.dir, "statistics.json"), append(data, '\n')); err != nil {
		return fmt.Errorf("write statistics.json: %w", err)
	}
	if b.head.mode == "eval" {
		return nil // an evaluation has its own report
	}
	if err := journal.WriteFile(b.fs, filepath.Join(b.dir, "report.md"), report(b.head, s, failures)); err != nil {
		return fmt.Errorf("write report.md: %w", err)
	}
	return nil
}

func (b *books) Close() error { return nil }

// writeOthers writes failed_trajectories.jsonl out of the log and returns the first few
// for the report.
func (b *books) writeOthers(ctx context.Context) (first []failure, err error) {
	name := filepath.Join(b.dir, "failed_trajectories.jsonl")
	out := &lines{path: name + ".tmp", fs: b.fs, render: func(buf []byte, r *trajectory.Record) ([]byte, error) {
		return sharegpt.NewLine(r, b.tools, true, b.layout).Append(buf)
	}}
	out.file, err = b.fs.Create(out.path)
	if err != nil {
		return nil, fmt.Errorf("write %s: %w", name, err)
	}
	for _, at := range b.others {
		e, err := entryAt(ctx, b.log, at)
		if err != nil {
			out.Close()
			return nil, err
		}
		if !e.Current {
			continue // tried again since
		}
		r, err := e.Record()
		if err == nil {
			it := Item{Entry: e, Record: r}
			it.Entered, err = b.sorter.Enter(at, r)
			if err == nil {
				r.Reason = it.Why
				if len(first) < reportFailures {
					first = append(first, failure{r.Row, r.Sample, it.Book, it.Sub, it.Why})
				}
				it.Book = stats.Accepted // into this file
				err = out.Write(ctx, it)
			}
		}
		if err != nil {
			out.Close()
			return nil, err
		}
	}
	if _, _, err := out.Commit(ctx, 0); err != nil {
		out.Close()
		return nil, err
	}
	if err := out.Close(); err != nil {
		return nil, err
	}
	if err := b.fs.Rename(out.path, name); err != nil {
		return nil, fmt.Errorf("write %s: %w", name, err)
	}
	return first, b.fs.SyncDir(b.dir)
}

// entryAt reads one entry of the log. Its record is read before the iteration ends.
func entryAt(ctx context.Context, j *journal.Journal, at journal.Offset) (journal.Entry, error) {
	e, err := j.At(at)
	if err != nil {
		return e, fmt.Errorf("record at offset %d: %w", at, err)
	}
	return e, context.Cause(ctx)
}
