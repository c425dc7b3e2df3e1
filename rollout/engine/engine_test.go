package engine_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"hermes/datasets"
	"hermes/rollout"
	"hermes/rollout/engine"
	"hermes/rollout/policy"
	"hermes/trajectory"
)

// book is a log in memory.
type book struct {
	mu       sync.Mutex
	final    map[trajectory.Key]*trajectory.Record
	attempts map[trajectory.Key]int
	full     error
}

func newBook() *book {
	return &book{final: map[trajectory.Key]*trajectory.Record{}, attempts: map[trajectory.Key]int{}}
}

func (b *book) Done(k trajectory.Key) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.final[k] != nil
}

func (b *book) Attempts(k trajectory.Key) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.attempts[k]
}

func (b *book) Tape(trajectory.Key, int) (policy.Tape, error) { return nil, nil }

func (b *book) Attempt(_ context.Context, r *trajectory.Record) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.attempts[r.Key]++
	return b.full
}

func (b *book) Reopen(_ context.Context, keys []trajectory.Key) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, k := range keys {
		delete(b.final, k)
	}
	return nil
}

func (b *book) Final(_ context.Context, r *trajectory.Record) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.full != nil {
		return b.full
	}
	if b.final[r.Key] != nil {
		panic("a sample was recorded twice")
	}
	b.final[r.Key] = r
	return nil
}

// run is a runner made of a function.
type run func(ctx context.Context, j rollout.Job) (*trajectory.Record, error)

func (r run) Run(ctx context.Context, j rollout.Job) (*trajectory.Record, error) { return r(ctx, j) }

func record(j rollout.Job, o trajectory.Outcome, cause string) *trajectory.Record {
	return &trajectory.Record{Key: j.Key, Row: j.Row.ID, Sample: j.Sample, Attempt: j.Attempt, Outcome: o, Cause: cause, Toolsets: j.Toolsets}
}

func rows(n int) iter.Seq2[datasets.Row, error] {
	return func(yield func(datasets.Row, error) bool) {
		for i := range n {
			if !yield(datasets.Row{ID: fmt.Sprint(i), Index: int64(i)}, nil) {
				return
			}
		}
	}
}

func start(t *testing.T, r run, b *book, o engine.Options) *engine.Engine {
	t.Helper()
	e, err := engine.New(r, b, o)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func TestRunsEverySampleOnceAndSkipsDone(t *testing.T) {
	b := newBook()
	var now, most int
	var mu sync.Mutex
	r := run(func(_ context.Context, j rollout.Job) (*trajectory.Record, error) {
		mu.Lock()
		now++
		most = max(most, now)
		mu.Unlock()
		time.Sleep(time.Second)
		mu.Lock()
		now--
		mu.Unlock()
		return record(j, trajectory.Answered, ""), nil
	})
	synctest.Test(t, func(t *testing.T) {
		s := start(t, r, b, engine.Options{InFlight: 5, Rollouts: 3}).Run(t.Context(), nil, rows(10))
		if s.Stopped != nil || s.Planned != 30 || s.Ended != 30 || len(b.final) != 30 || most != 5 {
			t.Errorf("%+v, %d recorded, %d in flight", s, len(b.final), most)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		s := start(t, r, b, engine.Options{Rollouts: 3}).Run(t.Context(), nil, rows(11))
		if s.Skipped != 30 || s.Ended != 3 {
			t.Errorf("a second run: %+v", s)
		}
	})
}

func TestFailuresAreTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBook()
		r := run(func(_ context.Context, j rollout.Job) (*trajectory.Record, error) {
			switch {
			case j.Row.ID == "0" && j.Attempt < 3:
				return record(j, trajectory.Sandbox, "box_lost"), nil
			case j.Row.ID == "1":
				return record(j, trajectory.Provider, string(policy.Unavailable)), nil
			case j.Row.ID == "2":
				return record(j, trajectory.Sandbox, "image"), nil
			}
			return record(j, trajectory.Answered, ""), nil
		})
		start(t, r, b, engine.Options{Tries: 3}).Run(t.Context(), nil, rows(4))
		want := map[string]struct {
			o       trajectory.Outcome
			attempt int
		}{"0": {trajectory.Answered, 3}, "1": {trajectory.Provider, 3}, "2": {trajectory.Sandbox, 1}, "3": {trajectory.Answered, 1}}
		for _, rec := range b.final {
			if w := want[rec.Row]; rec.Outcome != w.o || rec.Attempt != w.attempt {
				t.Errorf("row %s: %s after %d attempts, want %s after %d", rec.Row, rec.Outcome, rec.Attempt, w.o, w.attempt)
			}
		}
		if len(b.final) != 4 {
			t.Errorf("%d samples recorded", len(b.final))
		}
	})
}

func TestStops(t *testing.T) {
	answer := func(o trajectory.Outcome, cause string) run {
		return func(_ context.Context, j rollout.Job) (*trajectory.Record, error) { return record(j, o, cause), nil }
	}
	tests := []struct {
		name     string
		run      run
		o        engine.Options
		full     error
		rows     iter.Seq2[datasets.Row, error]
		want     error
		recorded int
	}{
		{name: "wrong key: nothing is recorded", run: answer(trajectory.Provider, "auth"), want: engine.ErrRefused},
		{name: "unknown model", run: answer(trajectory.Provider, "no_model"), want: engine.ErrRefused},
		{name: "budget: the sample stays pending", run: answer(trajectory.Provider, "budget"), want: engine.ErrBudget},
		{
			name:     "failures in a row",
			run:      answer(trajectory.Sandbox, "image"),
			o:        engine.Options{StopAfter: 3, InFlight: 1},
			want:     engine.ErrFailures,
			recorded: 3,
		},
		{
			name: "a provider that is down",
			run:  answer(trajectory.Provider, "unavailable"),
			o:    engine.Options{StopAfter: 3, InFlight: 1, Tries: 1},
			want: engine.ErrFailures,
		},
		{
			name: "many at once while it is down",
			run:  answer(trajectory.Provider, "unavailable"),
			o:    engine.Options{StopAfter: 3, InFlight: 30},
			want: engine.ErrFailures,
		},
		{
			name:     "a provider that went down later",
			run:      downAfter(5),
			o:        engine.Options{StopAfter: 3, InFlight: 1, Tries: 1},
			want:     engine.ErrFailures,
			recorded: 5,
		},
		{name: "the log is full", run: answer(trajectory.Answered, ""), full: errors.New("disk full"), want: engine.ErrLog},
		{name: "a bad row", run: answer(trajectory.Answered, ""), want: errBadRow, rows: func(yield func(datasets.Row, error) bool) {
			_ = yield(datasets.Row{ID: "a"}, nil) && yield(datasets.Row{}, errBadRow)
		}, recorded: 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBook()
				b.full = tt.full
				if tt.rows == nil {
					tt.rows = rows(100)
				}
				s := start(t, tt.run, b, tt.o).Run(t.Context(), nil, tt.rows)
				if !errors.Is(s.Stopped, tt.want) || len(b.final) != tt.recorded {
					t.Errorf("stopped by %v with %d records, want %v with %d", s.Stopped, len(b.final), tt.want, tt.recorded)
				}
			})
		})
	}
}

// downAfter is a provider that answers n requests.
func downAfter(n int64) run {
	var asked atomic.Int64
	return func(_ context.Context, j rollout.Job) (*trajectory.Record, error) {
		if asked.Add(1) > n {
			return record(j, trajectory.Provider, "unavailable"), nil
		}
		return record(j, trajectory.Answered, ""), nil
	}
}

var errBadRow = errors.New("bad row")

func TestDrain(t *testing.T) {
	for _, tt := range []struct {
		name     string
		takes    time.Duration
		recorded int
	}{{"rollouts may finish", 10 * time.Second, 4}, {"but not for ever", time.Hour, 0}} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBook()
				drain := make(chan struct{})
				begun := make(chan struct{}, 4)
				r := run(func(ctx context.Context, j rollout.Job) (*trajectory.Record, error) {
					begun <- struct{}{}
					select {
					case <-time.After(tt.takes):
						return record(j, trajectory.Answered, ""), nil
					case <-ctx.Done():
						return nil, context.Cause(ctx)
					}
				})
				go func() {
					for range 4 {
						<-begun
					}
					close(drain)
				}()
				s := start(t, r, b, engine.Options{InFlight: 4, Drain: time.Minute}).Run(t.Context(), drain, rows(100))
				if !errors.Is(s.Stopped, engine.ErrDrained) || len(b.final) != tt.recorded || len(begun) != 0 {
					t.Errorf("%+v, %d recorded, %d more begun", s, len(b.final), len(begun))
				}
			})
		})
	}
}

// A group shares its toolsets, whatever else runs, wherever it is in the dataset.
func TestToolsetsFollowTheRowAlone(t *testing.T) {
	draw := func(r *rand.Rand) []string { return []string{fmt.Sprint(r.IntN(1000))} }
	drawn := func(list ...int) map[string][]string {
		b := newBook()
		r := run(func(_ context.Context, j rollout.Job) (*trajectory.Record, error) {
			return record(j, trajectory.Answered, ""), nil
		})
		start(t, r, b, engine.Options{Rollouts: 3, Seed: 7, Toolsets: draw}).Run(t.Context(), nil, func(yield func(datasets.Row, error) bool) {
			for _, i := range list {
				if !yield(datasets.Row{ID: fmt.Sprint(i)}, nil) {
					return
				}
			}
		})
		out := map[string][]string{}
		for _, rec := range b.final {
			if old, ok := out[rec.Row]; ok && !slices.Equal(old, rec.Toolsets) {
				t.Errorf("row %s drew %v and %v", rec.Row, old, rec.Toolsets)
			}
			out[rec.Row] = rec.Toolsets
		}
		return out
	}
	a, b := drawn(1, 2, 3), drawn(3, 9, 1)
	for _, row := range []string{"1", "3"} {
		if !slices.Equal(a[row], b[row]) {
			t.Errorf("row %s drew %v, then %v", row, a[row], b[row])
		}
	}
}
