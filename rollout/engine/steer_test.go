package engine_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"hermes/rollout"
	"hermes/rollout/engine"
	"hermes/rollout/event"
	"hermes/trajectory"
)

// reopening is a log that can take failures back, as the journal can.
type reopening struct{ *book }

func (r reopening) Reopen(_ context.Context, keys []trajectory.Key) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, k := range keys {
		delete(r.final, k)
	}
	return nil
}

// minute is a runner whose rollouts take a minute and end early when they are cancelled.
func minute(ctx context.Context, j rollout.Job) (*trajectory.Record, error) {
	select {
	case <-time.After(time.Minute):
		return record(j, trajectory.Answered, ""), nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// steered runs an engine over rows 0 to n-1 in the background while f steers it.
func steered(t *testing.T, r run, l engine.Log, o engine.Options, n int, f func(e *engine.Engine)) engine.Summary {
	t.Helper()
	e, err := engine.New(r, l, o)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan engine.Summary, 1)
	go func() { ended <- e.Run(t.Context(), nil, rows(n)) }()
	synctest.Wait()
	f(e)
	return <-ended
}

func flying(e *engine.Engine) int { return len(e.Steering().Flying) }

func TestPauseResumeAndConcurrency(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBook()
		s := steered(t, minute, b, engine.Options{InFlight: 2}, 20, func(e *engine.Engine) {
			if n := flying(e); n != 2 {
				t.Fatalf("%d in flight, want 2", n)
			}
			e.Pause()
			time.Sleep(2 * time.Minute)
			synctest.Wait()
			if st := e.Steering(); len(st.Flying) != 0 || !st.Paused || st.Ended != 2 {
				t.Errorf("paused: %+v; what was in flight should have ended, and nothing been begun", st)
			}
			if err := e.SetInFlight(0); err == nil {
				t.Error("a concurrency of 0 was taken")
			}
			if err := e.SetInFlight(7); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			if n := flying(e); n != 0 {
				t.Errorf("%d in flight while paused", n)
			}
			e.Resume()
			synctest.Wait()
			if n := flying(e); n != 7 {
				t.Errorf("%d in flight after the raise, want 7", n)
			}
			if err := e.SetInFlight(3); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			if n := flying(e); n != 7 {
				t.Errorf("%d in flight: a smaller number must not end rollouts", n)
			}
			time.Sleep(61 * time.Second)
			synctest.Wait()
			if n := flying(e); n != 3 {
				t.Errorf("%d in flight, want 3", n)
			}
		})
		if s.Stopped != nil || s.Ended != 20 {
			t.Errorf("%+v", s)
		}
	})
}

func TestCancelLeavesPending(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBook()
		var mu sync.Mutex
		var seen []trajectory.Key
		watch := event.Func(func(e event.Event) {
			if c, ok := e.(event.RolloutCancelled); ok {
				mu.Lock()
				seen = append(seen, c.Key)
				mu.Unlock()
			}
		})
		var key trajectory.Key
		s := steered(t, minute, b, engine.Options{InFlight: 2, Observer: watch}, 4, func(e *engine.Engine) {
			if _, err := e.Cancel("3"); !errors.Is(err, engine.ErrUnknown) {
				t.Errorf("a sample that was not begun: %v", err)
			}
			var err error
			key, err = e.Cancel("1/0")
			if err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			if st := e.Steering(); st.Held != 1 || len(st.Flying) != 2 {
				t.Errorf("%+v: the place of a cancelled sample should be another's", st)
			}
		})
		if !errors.Is(s.Stopped, engine.ErrCancelled) || s.Ended != 3 || b.Done(key) {
			t.Errorf("%+v, done %v", s, b.Done(key))
		}
		if len(seen) != 1 || seen[0] != key {
			t.Errorf("observers saw %v", seen)
		}
	})
}

func TestRequeue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := reopening{newBook()}
		var mu sync.Mutex
		begun := map[string]int{}
		r := run(func(ctx context.Context, j rollout.Job) (*trajectory.Record, error) {
			mu.Lock()
			begun[j.Row.ID]++
			n := begun[j.Row.ID]
			mu.Unlock()
			if j.Row.ID == "2" && n == 1 {
				return record(j, trajectory.Sandbox, "image"), nil
			}
			return minute(ctx, j)
		})
		s := steered(t, r, b, engine.Options{InFlight: 3}, 3, func(e *engine.Engine) {
			for _, id := range []string{"0", "2"} { // in flight; failed
				if _, err := e.Requeue(t.Context(), id); err != nil {
					t.Errorf("requeue %s: %v", id, err)
				}
			}
			if _, err := e.Cancel("1"); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			if _, err := e.Requeue(t.Context(), "1"); err != nil { // cancelled
				t.Error(err)
			}
			if _, err := e.Requeue(t.Context(), "9"); !errors.Is(err, engine.ErrUnknown) {
				t.Errorf("an unknown one: %v", err)
			}
		})
		if s.Stopped != nil || len(b.final) != 3 || begun["0"] != 2 || begun["1"] != 2 || begun["2"] != 2 {
			t.Errorf("%+v, %d recorded, begun %v", s, len(b.final), begun)
		}
		for _, rec := range b.final {
			if rec.Outcome != trajectory.Answered {
				t.Errorf("row %s: %s", rec.Row, rec.Outcome)
			}
		}
	})
}

// A run that is paused can be drained, and a drain beats what is queued.
func TestDrainWhilePaused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := start(t, minute, newBook(), engine.Options{InFlight: 1})
		drain, ended := make(chan struct{}), make(chan engine.Summary, 1)
		go func() { ended <- e.Run(t.Context(), drain, rows(5)) }()
		synctest.Wait()
		e.Pause()
		if _, err := e.Requeue(t.Context(), "0"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if st := e.Steering(); st.Queued+len(st.Flying) != 1 {
			t.Errorf("%+v", st)
		}
		close(drain)
		if s := <-ended; !errors.Is(s.Stopped, engine.ErrDrained) || s.Ended != 0 {
			t.Errorf("%+v", s)
		}
	})
}
