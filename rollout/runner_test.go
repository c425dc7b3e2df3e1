package rollout_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"hermes/backends"
	"hermes/datasets"
	"hermes/envs"
	"hermes/rollout"
	"hermes/rollout/policy"
	"hermes/rollout/tool"
	"hermes/trajectory"
)

// world is everything that a runner can be given, made of functions; nil ones do what
// is usual. It is policy, back-end, environment and tool at once.
type world struct {
	mu       sync.Mutex
	turns    []trajectory.Turn
	next     func(ctx context.Context) error // before each answer
	open     func(ctx context.Context) error
	call     func(ctx context.Context) (tool.Result, error)
	score    func(ctx context.Context, n int, w envs.World, ep envs.Episode) (trajectory.Score, error)
	files    map[string]string
	opened   int
	closed   int
	samplers int
	scored   int
	written  map[string]string
}

func (w *world) Info() policy.Info { return policy.Info{Model: "m", Mode: trajectory.ModeText} }

func (w *world) Open(_ []trajectory.ToolSpec, o policy.Options) (policy.Sampler, error) {
	w.samplers++
	return &player{w: w, script: &script{turns: w.turns}}, nil
}

type player struct {
	*script
	w *world
}

func (p *player) Next(ctx context.Context, pre trajectory.Prefix, pending []trajectory.Message, on func(policy.Chunk)) (trajectory.Turn, error) {
	if p.w.next != nil {
		if err := p.w.next(ctx); err != nil {
			return trajectory.Turn{}, err
		}
	}
	return p.script.Next(ctx, pre, pending, on)
}

func (p *player) Close() error { p.w.samplers--; return nil }

// boxes is the back-end of a world.
type boxes struct{ *world }

func (b boxes) Open(ctx context.Context, _ backends.Spec) (backends.Sandbox, error) {
	if b.open != nil {
		if err := b.open(ctx); err != nil {
			return nil, err
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.opened++
	return &crate{b.world}, nil
}
func (b boxes) Traits() backends.Traits     { return backends.Traits{Name: "test", Isolated: true} }
func (b boxes) Close(context.Context) error { return nil }

type crate struct{ w *world }

func (c *crate) ID() string { return "crate" }
func (c *crate) Exec(context.Context, backends.Cmd) (backends.Result, error) {
	return backends.Result{}, nil
}
func (c *crate) ReadFile(context.Context, string, int64) ([]byte, error) { return nil, fs.ErrNotExist }
func (c *crate) WriteFile(_ context.Context, path string, data []byte, _ fs.FileMode) error {
	if c.w.written == nil {
		c.w.written = map[string]string{}
	}
	c.w.written[path] = string(data)
	return nil
}
func (c *crate) Close(context.Context) error {
	c.w.mu.Lock()
	defer c.w.mu.Unlock()
	c.w.closed++
	return nil
}

func (w *world) Task(row datasets.Row) (envs.Task, error) {
	return envs.Task{Row: row, Messages: row.Prompt, Files: w.files}, nil
}

func (w *world) Score(ctx context.Context, _ envs.Task, x envs.World, ep envs.Episode) (trajectory.Score, error) {
	w.scored++
	if w.score != nil {
		return w.score(ctx, w.scored, x, ep)
	}
	return trajectory.Score{Reward: 1}, nil
}

// plan offers one tool that opens the box.
func (w *world) plan(context.Context, []string, func(context.Context) (backends.Sandbox, error)) ([]tool.Def, []string, error) {
	return []tool.Def{{
		Spec: trajectory.ToolSpec{Name: "echo", Description: "d", Parameters: json.RawMessage(`{"type":"object","properties":{"id":{"type":"string"}}}`)},
		Open: func(s *tool.Scope) (tool.Handler, error) {
			return func(ctx context.Context, _ json.RawMessage) (tool.Result, error) {
				if _, err := s.Box(ctx); err != nil {
					return tool.Result{}, err
				}
				if w.call != nil {
					return w.call(ctx)
				}
				return tool.Result{Text: "ok"}, nil
			}, nil
		}}}, nil, nil
}

func TestRunner(t *testing.T) {
	talk := []trajectory.Turn{calls(echo("a")), says("done")}
	lost := fmt.Errorf("%w: gone", backends.ErrLost)
	tests := []struct {
		name    string
		world   world
		outcome trajectory.Outcome
		cause   string
		scored  bool // the record has a score
		opened  int
	}{
		{name: "answered", world: world{turns: talk}, outcome: trajectory.Answered, scored: true, opened: 1},
		{name: "no tool used: no box", world: world{turns: []trajectory.Turn{says("hi")}}, outcome: trajectory.Answered, scored: true},
		{name: "files open the box", world: world{turns: []trajectory.Turn{says("hi")}, files: map[string]string{"a": "b"}}, outcome: trajectory.Answered, scored: true, opened: 1},
		{name: "box cannot be made", world: world{turns: talk, open: func(context.Context) error { return errors.New("no") }}, outcome: trajectory.Sandbox, cause: "box_lost"},
		{name: "image missing", world: world{turns: talk, open: func(context.Context) error { return backends.ErrImage }}, outcome: trajectory.Sandbox, cause: "image"},
		{name: "box lost in a call", world: world{turns: talk, call: func(context.Context) (tool.Result, error) { return tool.Result{}, lost }}, outcome: trajectory.Sandbox, cause: "box_lost", opened: 1},
		{name: "box broken by the model", world: world{turns: talk, call: func(context.Context) (tool.Result, error) { return tool.Result{}, backends.ErrBroken }}, outcome: trajectory.Faulty, cause: "box_broken_by_model", scored: true, opened: 1},
		{name: "model server down", world: world{turns: talk, next: func(context.Context) error { return &policy.Error{Kind: policy.Unavailable, Err: errors.New("503")} }}, outcome: trajectory.Provider, cause: "unavailable"},
		{name: "context full is the model's", world: world{turns: talk, next: func(context.Context) error { return &policy.Error{Kind: policy.Overlong, Err: errors.New("long")} }}, outcome: trajectory.Truncated, cause: "context_limit", scored: true},
		{name: "panic in a scorer", world: world{turns: talk, score: func(context.Context, int, envs.World, envs.Episode) (trajectory.Score, error) { panic("oops") }}, outcome: trajectory.Internal, cause: "panic", opened: 1},
		{name: "scorer fails twice", world: world{turns: talk, score: func(context.Context, int, envs.World, envs.Episode) (trajectory.Score, error) {
			return trajectory.Score{}, errors.New("judge is ill")
		}}, outcome: trajectory.Environment, cause: "score", opened: 1},
		{name: "scorer fails once", world: world{turns: talk, score: func(_ context.Context, n int, _ envs.World, _ envs.Episode) (trajectory.Score, error) {
			if n == 1 {
				return trajectory.Score{}, errors.New("judge is ill")
			}
			return trajectory.Score{Reward: 1}, nil
		}}, outcome: trajectory.Answered, scored: true, opened: 1},
		{name: "nothing to score", world: world{turns: talk, score: func(context.Context, int, envs.World, envs.Episode) (trajectory.Score, error) {
			return trajectory.Score{}, envs.ErrUnscored
		}}, outcome: trajectory.Answered, opened: 1},
		{name: "box lost while scoring", world: world{turns: talk, score: func(context.Context, int, envs.World, envs.Episode) (trajectory.Score, error) {
			return trajectory.Score{}, lost
		}}, outcome: trajectory.Sandbox, cause: "box_lost", opened: 1},
	}
	for i := range tests {
		tt := &tests[i]
		t.Run(tt.name, func(t *testing.T) {
			w := &tt.world
			rec, err := run(t, w, rollout.Options{})
			if err != nil {
				t.Fatal(err)
			}
			if rec.Outcome != tt.outcome || rec.Cause != tt.cause || (rec.Score != nil) != tt.scored {
				t.Errorf("outcome %s, cause %q, score %v (%s); want %s, %q, scored %v", rec.Outcome, rec.Cause, rec.Score, rec.Reason, tt.outcome, tt.cause, tt.scored)
			}
			if rec.Outcome.Failure() && rec.Score != nil {
				t.Error("a failure of ours has a score")
			}
			if w.opened != tt.opened || w.closed != w.opened || w.samplers != 0 {
				t.Errorf("%d boxes opened, %d closed, %d samplers left; want %d opened", w.opened, w.closed, w.samplers, tt.opened)
			}
		})
	}
}

func run(t *testing.T, w *world, o rollout.Options) (*trajectory.Record, error) {
	t.Helper()
	o.Env, o.Policy, o.Backend, o.Plan = w, w, boxes{w}, w.plan
	r, err := rollout.NewRunner(o)
	if err != nil {
		t.Fatal(err)
	}
	row := datasets.Row{ID: "row", Prompt: []trajectory.Message{trajectory.Text(trajectory.User, "task")}}
	return r.Run(t.Context(), rollout.Job{Row: row, Key: trajectory.NewKey("row", 0, 0, 0), Attempt: 1})
}

func TestDeadlines(t *testing.T) {
	wait := func(ctx context.Context) error { <-ctx.Done(); return context.Cause(ctx) }
	tests := []struct {
		name    string
		world   world
		outcome trajectory.Outcome
		reason  string
	}{
		{"box", world{turns: []trajectory.Turn{calls(echo("a"))}, open: wait}, trajectory.Sandbox, "opening a box took longer than 1m0s"},
		{"loop", world{turns: []trajectory.Turn{says("x")}, next: wait}, trajectory.Truncated, "2m0s"},
		{"scorer", world{turns: []trajectory.Turn{says("x")}, score: func(ctx context.Context, _ int, _ envs.World, _ envs.Episode) (trajectory.Score, error) {
			return trajectory.Score{}, wait(ctx)
		}}, trajectory.Environment, "the scorer took longer than 3m0s"},
	}
	for i := range tests {
		tt := &tests[i]
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rec, err := run(t, &tt.world, rollout.Options{Deadlines: rollout.Deadlines{Open: time.Minute, Loop: 2 * time.Minute, Score: 3 * time.Minute}})
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

func TestInterruptedRunLeavesNoRecordAndNoBox(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	stop := errors.New("second signal")
	w := &world{turns: []trajectory.Turn{calls(echo("a"))}, call: func(context.Context) (tool.Result, error) {
		cancel(stop)
		return tool.Result{Text: "ok"}, nil
	}}
	r, err := rollout.NewRunner(rollout.Options{Env: w, Policy: w, Backend: boxes{w}, Plan: w.plan})
	if err != nil {
		t.Fatal(err)
	}
	w.next = func(ctx context.Context) error { return context.Cause(ctx) }
	rec, err := r.Run(ctx, rollout.Job{Row: datasets.Row{ID: "row", Prompt: []trajectory.Message{trajectory.Text(trajectory.User, "x")}}})
	if rec != nil || !errors.Is(err, stop) || w.opened != 1 || w.closed != 1 {
		t.Errorf("record %v, error %v, %d opened, %d closed", rec, err, w.opened, w.closed)
	}
}
