package serve

import (
	"context"
	"errors"
	"fmt"
	"sync"

	loop "hermes/internal/atropos/serve"
	"hermes/internal/runs/rollouts"
	"hermes/rollout/event"
	"hermes/trajectory"
	"hermes/trajectory/stats"
)

// servedBooks are the books of this start: projections are written when it ends, so that
// they cost nothing while a trainer waits.
type servedBooks struct {
	mu     sync.Mutex
	totals *stats.Totals
	begun  int64
}

func (b *servedBooks) Observe(e event.Event) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch e := e.(type) {
	case event.RolloutStarted:
		if e.Attempt <= 1 {
			b.begun++
		}
	case event.RolloutEnded:
		if r := e.Record; r != nil && r.Outcome.Failure() {
			b.totals.Final(r, stats.Failed, string(r.Outcome))
		} else if r != nil {
			b.totals.Final(r, stats.Accepted, "")
		}
	}
}

// Books implements control's side of it.
func (b *servedBooks) Books() stats.Statistics {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.totals.Statistics(b.begun)
}

// steered is a run of `env serve` as its control socket sees it.
type steered struct {
	*rollouts.Steered
	srv *loop.Server
}

// SetConcurrency implements control.Run: admission by groups follows.
func (s *steered) SetConcurrency(n int) error {
	if err := s.srv.SetConcurrency(n); err != nil {
		return err
	}
	return s.Steered.SetConcurrency(n)
}

// errGroups is why single samples are left alone.
var errGroups = errors.New("env serve posts whole groups, and a group would wait for its sample for ever; pause, resume and set concurrency=N are what it understands")

// Cancel implements control.Run.
func (s *steered) Cancel(id string) (trajectory.Key, error) {
	return trajectory.Key{}, fmt.Errorf("cancel %q: %w", id, errGroups)
}

// Requeue implements control.Run.
func (s *steered) Requeue(_ context.Context, id string) (trajectory.Key, error) {
	return trajectory.Key{}, fmt.Errorf("requeue %q: %w", id, errGroups)
}
