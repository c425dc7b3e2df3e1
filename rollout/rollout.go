// Package rollout holds the one loop that asks a model, runs tools and asks again
// ([HermesAgentLoop]), and the [Runner] that takes one task from its row to its record.
//
// Batch, environment, evaluation, chat and sub-agents differ in the values that they
// hand to the loop, never in the loop. A loop and a runner's job belong to one
// goroutine; a Runner itself is safe for concurrent use.
package rollout

import (
	"context"
	"time"

	"hermes/rollout/tool"
	"hermes/trajectory"
)

// Limits bound one run of the loop. Zero means no limit.
type Limits struct {
	Turns  int           // model answers
	Tokens int64         // tokens that the model writes, over all turns
	Time   time.Duration // tools and decoding; waiting for a place or a permit does not count
}

// FaultRule says what happens to an answer that cannot be used.
type FaultRule string

// Show keeps it: it is answered with an error that the model sees, and is scored.
// Resample drops it: the turn stays in the tree as an abandoned leaf and the model is
// asked again, at most [Resamples] times in a row.
const (
	Show     FaultRule = "show"
	Resample FaultRule = "resample"
)

// Resamples is how often in a row Resample asks again before the loop ends as malformed.
const Resamples = 2

// unreadableTurns is how many turns in a row may hold nothing but unreadable calls.
const unreadableTurns = 3

// sameTurns is how many identical turns in a row are an endless loop.
const sameTurns = 5

// Hooks let a caller take part. All may be nil.
type Hooks struct {
	// Steer returns messages to add before the next question.
	Steer func() []trajectory.Message
	// Compact may return new opening messages when the context is full; the trace forks.
	Compact func(ctx context.Context, p trajectory.Prefix, pending []trajectory.Message) ([]trajectory.Message, error)
	// Respond is asked when the model answers without calls, before the rollout ends with
	// stop: what it returns goes to the model, and nothing ends the rollout. Its error
	// voids the rollout. It must not change t.
	Respond func(ctx context.Context, t *trajectory.Trace, stop trajectory.Stop) ([]trajectory.Message, error)
	// Stepped is asked after each turn whose calls have run. Its error voids the rollout. It
	// must not change t.
	Stepped func(ctx context.Context, t *trajectory.Trace) error
	// Committed is called after each turn.
	Committed func(id trajectory.NodeID, turn trajectory.Turn)
}

// tools is what the loop needs of a tool set.
type tools interface {
	CallAll(ctx context.Context, calls []trajectory.Call) ([]tool.Result, error)
}
