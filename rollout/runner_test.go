package rollout_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
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
		{
			name:    "files open the box",
			world:   world{turns: []trajectory.Turn{says("hi")}, files: map[string]string{"a": "b"}},
			outcome: trajectory.Answered,
			scored:  true,
			opened:  1,
		},
		{
			name:    "box cannot be made",
			world:   world{turns: talk, open: func(context.Context) error { return errors.New("no") }},
			outcome: trajectory.Sandbox,
			cause:   "box_lost",
		},
		{
			name:    "image missing",
			world:   world{turns: talk, open: func(context.Context) error { return backends.ErrImage }},
			outcome: trajectory.Sandbox,
			cause:   "image",
		},
		{
			name:    "box lost in a call",
			world:   world{turns: talk, call: func(context.Context) (tool.Result, error) { return tool.Result{}, lost }},
			outcome: trajectory.Sandbox,
			cause:   "box_lost",
			opened:  1,
		},
		{
			name:    "box broken by the model",
			world:   world{turns: talk, call: func(context.Context) (tool.Result, error) { return tool.Result{}, backends.ErrBroken }},
			outcome: trajectory.Faulty,
			cause:   "box_broken_by_model",
			scored:  true,
			opened:  2,
		},
		{name: "cut by a content filter", world: world{turns: []trajectory.Turn{{Sampled: says("The answer").Sampled, Finish: trajectory.FinishFilter}}},
			outcome: trajectory.Filtered, cause: "refused", scored: true},
		{
			name:    "model server down",
			world:   world{turns: talk, next: func(context.Context) error { return &policy.Error{Kind: policy.Unavailable, Err: errors.New("503")} }},
			outcome: trajectory.Provider,
			cause:   "unavailable",
		},
		{
			name:    "context full is the model's",
			world:   world{turns: talk, next: func(context.Context) error { return &policy.Error{Kind: policy.Overlong, Err: errors.New("long")} }},
			outcome: trajectory.Truncated,
			cause:   "context_limit",
			scored:  true,
		},
		{
			name:    "panic in a scorer",
			world:   world{turns: talk, score: func(context.Context, int, envs.World, envs.Episode) (trajectory.Score, error) { panic("oops") }},
			outcome: trajectory.Internal,
			cause:   "panic",
			opened:  1,
		},
		{name: "scorer fails twice", world: world{turns: talk, score: func(context.Context, int, envs.World, envs.Episode) (trajectory.Score, error) {
			return trajectory.Score{}, errors.New("judge is ill")
		}}, outcome: trajectory.Environment, cause: "score", opened: 1},
		{name: "scorer fails once", world: world{turns: talk, score: func(_ context.Context, n int, _ envs.World, _ envs.Episode) (trajectory.Score, error) {
			if n == 1 {
				return trajectory.Score{}, errors.New("judge is ill")
			}
			return trajectory.Score{Reward: 1}, nil
		}}, outcome: trajectory.Answered, scored: true, opened: 1},
		{name: "a reward that is no number", world: world{turns: talk, score: func(context.Context, int, envs.World, envs.Episode) (trajectory.Score, error) {
			return trajectory.Score{Reward: math.NaN()}, nil
		}}, outcome: trajectory.Environment, cause: "score", opened: 1},
		{name: "a part without end", world: world{turns: talk, score: func(context.Context, int, envs.World, envs.Episode) (trajectory.Score, error) {
			return trajectory.Score{Reward: 1, Parts: map[string]float64{"x": math.Inf(1)}}, nil
		}}, outcome: trajectory.Environment, cause: "score", opened: 1},
		{
			name: "state lasts over the tries of a scorer",
			world: world{turns: talk, score: func(_ context.Context, n int, w envs.World, _ envs.Episode) (trajectory.Score, error) {
				if first := w.State.Get("first", func() any { return n }); n == 1 || first != 1 {
					return trajectory.Score{}, fmt.Errorf("call %d, state %v", n, first)
				}
				return trajectory.Score{Reward: 1}, nil
			}},
			outcome: trajectory.Answered,
			scored:  true,
			opened:  1,
		},
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
				t.Errorf("outcome %s, cause %q, score %v (%s); want %s, %q, scored %v", rec.Outcome,
					rec.Cause, rec.Score, rec.Reason, tt.outcome, tt.cause, tt.scored)
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
	if o.Env == nil {
		o.Env = w
	}
	o.Policy = w
	if o.Backend == nil {
		o.Backend = boxes{w}
	}
	if o.Plan == nil {
		o.Plan = w.plan
	}
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
		{"user", world{turns: []trajectory.Turn{says("x")}}, trajectory.Environment, "the environment's response took longer than 1m30s"},
		{"scorer", world{turns: []trajectory.Turn{says("x")}, score: func(ctx context.Context, _ int, _ envs.World, _ envs.Episode) (trajectory.Score, error) {
			return trajectory.Score{}, wait(ctx)
		}}, trajectory.Environment, "the scorer took longer than 3m0s"},
	}
	for i := range tests {
		tt := &tests[i]
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := rollout.Options{Deadlines: rollout.Deadlines{Open: time.Minute, Respond: 90 * time.Second, Loop: 2 * time.Minute, Score: 3 * time.Minute}}
				if tt.name == "user" {
					o.Env = &talker{world: &tt.world, respond: func(ctx context.Context, _ int, _ envs.World, _ envs.Episode) ([]trajectory.Message, error) {
						return nil, wait(ctx)
					}}
				}
				rec, err := run(t, &tt.world, o)
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

// talker is a world with a user who speaks.
type talker struct {
	*world
	respond func(ctx context.Context, n int, w envs.World, ep envs.Episode) ([]trajectory.Message, error)
	asked   int
}

func (u *talker) Respond(ctx context.Context, _ envs.Task, w envs.World, ep envs.Episode) ([]trajectory.Message, error) {
	u.asked++
	return u.respond(ctx, u.asked, w, ep)
}

func TestResponder(t *testing.T) {
	user := func(text string) []trajectory.Message {
		return []trajectory.Message{trajectory.Text(trajectory.User, text)}
	}
	turns := []trajectory.Turn{says("which one?"), calls(echo("a")), says("done")}
	box := 0
	draws := map[uint64]bool{}
	polite := func(_ context.Context, n int, w envs.World, ep envs.Episode) ([]trajectory.Message, error) {
		if w.Box != nil {
			box++
		}
		draws[w.Rand.Uint64()] = true
		if n == 1 {
			if ep.Stop.Reason != trajectory.StopAnswer || ep.Trace.Sealed {
				return nil, fmt.Errorf("asked after %s", ep.Stop.Reason)
			}
			return user("the first"), nil
		}
		return nil, nil
	}
	endless := func(_ context.Context, n int, _ envs.World, _ envs.Episode) ([]trajectory.Message, error) {
		return user(fmt.Sprint("go on ", n)), nil
	}
	tests := []struct {
		name    string
		turns   []trajectory.Turn
		respond func(context.Context, int, envs.World, envs.Episode) ([]trajectory.Message, error)
		limits  rollout.Limits
		outcome trajectory.Outcome
		cause   string
		reason  string
		asked   int // responses
		given   string
	}{
		{
			name:    "the conversation goes on, then is over",
			turns:   turns,
			respond: polite,
			outcome: trajectory.Answered,
			asked:   2,
			given:   "task|which one?|the first||ok|done",
		},
		{
			name:    "a turn limit",
			turns:   turns[:1],
			respond: endless,
			limits:  rollout.Limits{Turns: 2},
			outcome: trajectory.Truncated,
			cause:   "turn_limit",
			reason:  "2 turns",
			asked:   2,
			given:   "task|which one?|go on 1|which one?|go on 2",
		},
		{name: "both say the same for ever", turns: turns[:1], respond: func(context.Context, int, envs.World, envs.Episode) ([]trajectory.Message, error) {
			return user("what?"), nil
		}, outcome: trajectory.Malformed, cause: "repetition", reason: "5 identical turns", asked: 5},
		{name: "a user who breaks", turns: turns, respond: func(context.Context, int, envs.World, envs.Episode) ([]trajectory.Message, error) {
			return nil, errors.New("no words")
		}, outcome: trajectory.Environment, cause: "respond", reason: "no words", asked: 1},
		{
			name:  "a user's model with a full context is not the model's fault",
			turns: turns,
			respond: func(context.Context, int, envs.World, envs.Episode) ([]trajectory.Message, error) {
				return nil, &policy.Error{Kind: policy.Overlong, Err: errors.New("long")}
			},
			outcome: trajectory.Provider,
			cause:   "overlong",
			asked:   1,
		},
		{name: "a user who speaks as the model", turns: turns, respond: func(context.Context, int, envs.World, envs.Episode) ([]trajectory.Message, error) {
			return []trajectory.Message{trajectory.Text(trajectory.Assistant, "I am the model")}, nil
		}, outcome: trajectory.Environment, cause: "respond", reason: `the role "assistant"`, asked: 1},
		{name: "a user who panics", turns: turns, respond: func(context.Context, int, envs.World, envs.Episode) ([]trajectory.Message, error) {
			panic("oops")
		}, outcome: trajectory.Internal, cause: "panic", asked: 1},
		{name: "a cut answer is not answered", turns: []trajectory.Turn{cut("half")}, respond: endless, outcome: trajectory.Truncated, cause: "length"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := &world{turns: tt.turns}
			u := &talker{world: w, respond: tt.respond}
			rec, err := run(t, w, rollout.Options{Env: u, Limits: tt.limits})
			if err != nil {
				t.Fatal(err)
			}
			if rec.Outcome != tt.outcome || rec.Cause != tt.cause || !strings.Contains(rec.Reason, tt.reason) || u.asked != tt.asked {
				t.Errorf("outcome %s, cause %q, %d responses (%s); want %s, %q, %d, %q", rec.Outcome,
					rec.Cause, u.asked, rec.Reason, tt.outcome, tt.cause, tt.asked, tt.reason)
			}
			if tt.given == "" {
				return
			}
			var all []string
			for m := range rec.Trace.Prefix().Messages() {
				all = append(all, m.Content())
			}
			for _, m := range rec.Trace.Pending {
				all = append(all, m.Content())
			}
			if got := strings.Join(all, "|"); got != tt.given {
				t.Errorf("the trace says %q, want %q", got, tt.given)
			}
		})
	}
	if box != 1 || len(draws) != 2 {
		t.Errorf("the box was there in %d of 2 responses, want 1; %d different draws, want 2", box, len(draws))
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
