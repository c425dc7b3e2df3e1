package journal

import (
	"context"

	"hermes/rollout/policy"
	"hermes/trajectory"
)

// The methods of this file are the journal as the engine sees it.

// Attempts is the number of the last attempt at a key that is recorded; 0: none.
func (j *Journal) Attempts(k trajectory.Key) int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return int(j.keys[k].attempt)
}

// Tape replays what unfinished attempts at a key have bought and keeps what this one buys.
func (j *Journal) Tape(k trajectory.Key, attempt int) (policy.Tape, error) {
	return NewTape(j, k, attempt, true)
}

// Attempt is AppendAttempt without the offset.
func (j *Journal) Attempt(ctx context.Context, r *trajectory.Record) error {
	_, err := j.AppendAttempt(ctx, r)
	return err
}

// Final is Append without the offset. It is carried out even when ctx has ended: what a
// finished sample cost is not thrown away by an interrupt.
func (j *Journal) Final(ctx context.Context, r *trajectory.Record) error {
	_, err := j.Append(context.WithoutCancel(ctx), r)
	return err
}
