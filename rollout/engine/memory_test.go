package engine_test

import (
	"bytes"
	"context"
	"errors"
	"iter"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"hermes/datasets"
	"hermes/rollout"
	"hermes/rollout/engine"
	"hermes/trajectory"
)

// settled are rows that come one by one, when all that runs has come to rest.
func settled(n int) iter.Seq2[datasets.Row, error] {
	return func(yield func(datasets.Row, error) bool) {
		for row, err := range rows(n) {
			synctest.Wait()
			if !yield(row, err) {
				return
			}
		}
	}
}

// heavy is a record whose conversation is n bytes long.
func heavy(j rollout.Job, n int) *trajectory.Record {
	r := record(j, trajectory.Answered, "")
	r.Trace = trajectory.New(trajectory.ModeText, nil)
	r.Trace.Nodes = []trajectory.Node{{Delta: trajectory.Delta{Message: trajectory.Text(trajectory.User, strings.Repeat("x", n))}}}
	return r
}

// While memory is short nothing is admitted; what runs goes on, nothing is lost, and one
// rollout may always run.
func TestMemoryHoldsAdmissionBack(t *testing.T) {
	const mb = 1 << 20
	tests := []struct {
		name   string
		limit  int64
		size   int   // of a conversation
		grows  int64 // live bytes of a rollout that runs
		always int64 // live bytes all the time
		most   int64 // rollouts at once
		after  int64 // at once when the first ten have ended; 0: not looked at
	}{
		{name: "no budget", size: mb, grows: mb, most: 20},
		{name: "room for all", limit: 1000 * mb, grows: mb, most: 20},
		{name: "what runs takes the room", limit: 10 * mb, grows: mb, most: 7},
		{name: "what runs will grow", limit: 1 * mb, size: 28_000, most: 7},
		{name: "sizes are learned", limit: 20 * mb, size: 1 * mb, most: 20, after: 9},
		{name: "no room at all", limit: mb, always: 5 * mb, most: 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var flying, most, late, ended atomic.Int64
				r := run(func(ctx context.Context, j rollout.Job) (*trajectory.Record, error) {
					n := flying.Add(1)
					most.Store(max(most.Load(), n))
					if ended.Load() > 30 {
						late.Store(max(late.Load(), n))
					}
					select {
					case <-time.After(time.Duration(1+j.Row.Index%7) * 10 * time.Second):
					case <-ctx.Done():
						t.Error("a rollout was cancelled")
					}
					flying.Add(-1)
					ended.Add(1)
					return heavy(j, tt.size), nil
				})
				b := newBook()
				base := true // New looks first
				used := func() int64 {
					if base {
						base = false
						return 0
					}
					return tt.always + flying.Load()*tt.grows
				}
				s := start(t, r, b, engine.Options{InFlight: 20, Memory: tt.limit, Used: used}).Run(t.Context(), nil, settled(100))
				if s.Stopped != nil || s.Ended != 100 {
					t.Errorf("%+v", s)
				}
				if most.Load() > tt.most || tt.after > 0 && late.Load() > tt.after {
					t.Errorf("%d at once, later %d; want at most %d, later %d", most.Load(), late.Load(), tt.most, tt.after)
				}
				if tt.most > 1 && most.Load() < tt.most/2 {
					t.Errorf("%d at once, although there is room for %d", most.Load(), tt.most)
				}
			})
		})
	}
}

// Memory that others give back is noticed before a rollout ends. A shortage is logged, and a
// drain does not wait for memory.
func TestMemoryIsLookedAtAgain(t *testing.T) {
	for name, frees := range map[string]bool{"given back": true, "drained": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var used atomic.Int64
				drain, began := make(chan struct{}), time.Now()
				r := run(func(_ context.Context, j rollout.Job) (*trajectory.Record, error) {
					used.Store(1 << 30)
					if j.Row.Index == 0 {
						time.Sleep(10 * time.Second)
						if frees {
							used.Store(0)
						} else {
							close(drain)
						}
						time.Sleep(time.Minute)
					}
					return heavy(j, 10), nil
				})
				var logged bytes.Buffer
				b := newBook()
				s := start(t, r, b, engine.Options{Memory: 64 << 20, Used: used.Load, Log: slog.New(slog.NewTextHandler(&logged, nil)), Drain: time.Hour}).
					Run(t.Context(), drain, settled(2))
				if took := time.Since(began); took != 70*time.Second {
					t.Errorf("it took %v, want 1m10s", took)
				}
				if want := map[bool]int{true: 2, false: 1}[frees]; len(b.final) != want || errors.Is(s.Stopped, engine.ErrDrained) == frees {
					t.Errorf("%+v, %d recorded, want %d", s, len(b.final), want)
				}
				if !strings.Contains(logged.String(), "memory is short") {
					t.Errorf("the log says %q", logged.String())
				}
			})
		})
	}
}

func TestNegativeMemory(t *testing.T) {
	if _, err := engine.New(run(nil), newBook(), engine.Options{Memory: -1}); err == nil {
		t.Error("it was taken")
	}
}
