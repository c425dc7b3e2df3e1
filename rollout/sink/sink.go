// Package sink makes the files of a run directory that people and trainers read out of its
// journal: trajectories.jsonl, messages.jsonl, failed_trajectories.jsonl, Parquet parts,
// statistics.json and report.md.
//
// Each file is a projection: a function of the log and of run.yaml, written in log order.
// A [Projector] follows the journal and keeps, in one file that is replaced by rename after
// the data is synced, how far each [Sink] has come; after a crash the outputs are cut back
// to that. Deleting them and projecting again gives the same bytes.
package sink

import (
	"context"
	"encoding/json"
	"errors"

	"hermes/rollout/journal"
	"hermes/trajectory"
)

// Item is one entry of the log with the book that it enters.
type Item struct {
	journal.Entry
	Record  *trajectory.Record // attempts and finals
	Entered                    // finals
}

// Sink is one projection. Its methods are called by one goroutine.
type Sink interface {
	// Name is the sink's entry in the file of positions.
	Name() string
	// Resume cuts the output back to what was committed; nil means from nothing.
	// ErrStale says that the output is not what was committed; Resume(nil) follows.
	Resume(ctx context.Context, state json.RawMessage) error
	// Write takes the next entry.
	Write(ctx context.Context, it Item) error
	// Commit makes what was written durable and returns the offset from which the sink
	// wants to go on after a crash (upTo or earlier) and its state.
	Commit(ctx context.Context, upTo journal.Offset) (journal.Offset, json.RawMessage, error)
	// Finish writes what is only at the end of a run. More entries may follow later.
	Finish(ctx context.Context) error
	Close() error
}

// ErrStale says that an output was changed or deleted by someone else.
var ErrStale = errors.New("the output is not what was committed")
