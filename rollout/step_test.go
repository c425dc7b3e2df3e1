package rollout_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"hermes/backends"
	"hermes/datasets"
	"hermes/envs"
	"hermes/rollout"
	"hermes/trajectory"
)

// watcher is a world that looks at the box after each turn.
type watcher struct {
	*world
	step  func(ctx context.Context, n int, w envs.World, ep envs.Episode) error
	asked int
}

func (u *watcher) Step(ctx context.Context, _ envs.Task, w envs.World, ep envs.Episode) error {
	u.asked++
	return u.step(ctx, u.asked, w, ep)
}

func TestStepper(t *testing.T) {
	turns := []trajectory.Turn{calls(echo("a")), calls(echo("b"), echo("c")), says("done")}
	for _, tt := range []struct {
		name    string
		step    func(ctx context.Context, n int, w envs.World, ep envs.Episode) error
		limits  rollout.Limits
		outcome trajectory.Outcome
		cause   string
		reason  string
		asked   int
	}{
		{name: "after each turn with calls", asked: 2, outcome: trajectory.Answered, step: func(_ context.Context, n int, w envs.World, ep envs.Episode) error {
			if w.Box == nil || ep.Trace.Turns() != n || ep.Trace.Sealed {
				return fmt.Errorf("look %d after %d turns, box %v", n, ep.Trace.Turns(), w.Box)
			}
			return nil
		}},
		{name: "also after the last turn that a limit allows", asked: 1, limits: rollout.Limits{Turns: 1}, outcome: trajectory.Truncated, cause: "turn_limit",
			step: func(context.Context, int, envs.World, envs.Episode) error { return nil }},
		{name: "an error voids", asked: 1, outcome: trajectory.Environment, cause: "step", reason: "no eyes",
			step: func(context.Context, int, envs.World, envs.Episode) error { return errors.New("no eyes") }},
		{name: "a lost box is no one's fault", asked: 1, outcome: trajectory.Sandbox, reason: "sandbox lost",
			step: func(context.Context, int, envs.World, envs.Episode) error { return backends.ErrLost }},
		{name: "a look that takes too long", asked: 1, outcome: trajectory.Environment, cause: "step", reason: "look after a turn took longer than 1m30s",
			step: func(ctx context.Context, _ int, _ envs.World, _ envs.Episode) error { <-ctx.Done(); return ctx.Err() }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := &world{turns: turns}
				u := &watcher{world: w, step: tt.step}
				rec, err := run(t, w, rollout.Options{Env: u, Limits: tt.limits, Deadlines: rollout.Deadlines{Respond: 90 * time.Second}})
				if err != nil {
					t.Fatal(err)
				}
				if rec.Outcome != tt.outcome || tt.cause != "" && rec.Cause != tt.cause || !strings.Contains(rec.Reason, tt.reason) || u.asked != tt.asked {
					t.Errorf("outcome %s, cause %q, %d looks (%s); want %s, %q, %d, %q", rec.Outcome,
						rec.Cause, u.asked, rec.Reason, tt.outcome, tt.cause, tt.asked, tt.reason)
				}
			})
		})
	}
}

// hasty is a world whose tasks bound their own time.
type hasty struct {
	*world
	loop, score time.Duration
}

func (h *hasty) Task(row datasets.Row) (envs.Task, error) {
	t, err := h.world.Task(row)
	t.Time, t.ScoreTime = h.loop, h.score
	return t, err
}

func TestTaskTimes(t *testing.T) {
	wait := func(ctx context.Context) error { <-ctx.Done(); return context.Cause(ctx) }
	for _, tt := range []struct {
		name      string
		loop, run time.Duration
		score     time.Duration
		hangs     string
		outcome   trajectory.Outcome
		reason    string
	}{
		{"the task's own limit", time.Minute, 0, 0, "loop", trajectory.Truncated, "1m0s"},
		{"the smaller of both", time.Hour, 2 * time.Minute, 0, "loop", trajectory.Truncated, "2m0s"},
		{"the smaller of both, the task's", time.Minute, 2 * time.Minute, 0, "loop", trajectory.Truncated, "1m0s"},
		{"a scorer that needs long", 0, 0, time.Hour, "scorer", trajectory.Environment, "the scorer took longer than 1h0m0s"},
		{"a scorer that needs less than it gets", 0, 0, time.Minute, "scorer", trajectory.Environment, "the scorer took longer than 5m0s"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := &world{turns: []trajectory.Turn{says("x")}}
				if tt.hangs == "loop" {
					w.next = wait
				} else {
					w.score = func(ctx context.Context, _ int, _ envs.World, _ envs.Episode) (trajectory.Score, error) {
						return trajectory.Score{}, wait(ctx)
					}
				}
				rec, err := run(t, w, rollout.Options{Env: &hasty{w, tt.loop, tt.score}, Deadlines: rollout.Deadlines{Loop: tt.run}})
				if err != nil {
					t.Fatal(err)
				}
				if rec.Outcome != tt.outcome || !strings.Contains(rec.Reason, tt.reason) {
					t.Errorf("outcome %s, %q; want %s, %q", rec.Outcome, rec.Reason, tt.outcome, tt.reason)
				}
			})
		})
	}
}

func TestTurnRewards(t *testing.T) {
	for _, list := range [][]float64{{0.5, -0.25}, {0, math.NaN()}, {math.Inf(1)}} {
		w := &world{turns: []trajectory.Turn{says("x")}, score: func(context.Context, int, envs.World, envs.Episode) (trajectory.Score, error) {
			return trajectory.Score{Turns: list}, nil
		}}
		rec, err := run(t, w, rollout.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if good := len(list) == 2 && list[1] == -0.25; good != (rec.Score != nil) ||
			!good && (rec.Outcome != trajectory.Environment || !strings.Contains(rec.Reason, "gave turn")) {
			t.Errorf("%v: %s, %s, %+v", list, rec.Outcome, rec.Reason, rec.Score)
		}
	}
}
