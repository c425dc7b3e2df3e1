package app

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"hermes/internal/atropos/serve"
	"hermes/internal/control"
	"hermes/rollout/engine"
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

// servedRun is a run of `env serve` as its control socket sees it.
type servedRun struct {
	*steered
	srv *serve.Server
}

// steerServe opens the control socket of a run that serves. The function that it returns
// closes it.
func (b *batch) steerServe(ctx context.Context, srv *serve.Server, e *engine.Engine, meter *control.Meter, books *servedBooks) func() {
	return b.listen(ctx, &servedRun{&steered{Engine: e, meter: meter, books: books, name: b.dir.Path, begun: time.Now().UTC(), drain: b.host.Drain, raise: b.raise, loads: b.loads}, srv})
}

// SetConcurrency implements control.Run: admission by groups follows.
func (s *servedRun) SetConcurrency(n int) error {
	if err := s.srv.SetConcurrency(n); err != nil {
		return err
	}
	return s.steered.SetConcurrency(n)
}

// errGroups is why single samples are left alone.
var errGroups = errors.New("env serve posts whole groups, and a group would wait for its sample for ever; pause, resume and set concurrency=N are what it understands")

// Cancel implements control.Run.
func (s *servedRun) Cancel(id string) (trajectory.Key, error) {
	return trajectory.Key{}, fmt.Errorf("cancel %q: %w", id, errGroups)
}

// Requeue implements control.Run.
func (s *servedRun) Requeue(_ context.Context, id string) (trajectory.Key, error) {
	return trajectory.Key{}, fmt.Errorf("requeue %q: %w", id, errGroups)
}
