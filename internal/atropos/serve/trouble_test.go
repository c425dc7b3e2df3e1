package serve_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"hermes/datasets"
	"hermes/internal/atropos/serve"
	"hermes/internal/atropos/servetest"
	"hermes/rollout"
	"hermes/rollout/engine"
	"hermes/trajectory"
)

// posts answers the n-th post with the status that answers gives, and all else as usual.
func posts(answers func(n int32) int) func(*http.Request) int {
	var n atomic.Int32
	return func(r *http.Request) int {
		if r.URL.Path != "/scored_data" {
			return 0
		}
		return answers(n.Add(1))
	}
}

// rowsOf counts the groups of each row.
func rowsOf(list []servetest.Group) map[int]int {
	n := map[int]int{}
	for _, g := range list {
		n[g.Tokens[0][0]]++
	}
	return n
}

// TestPostsThatFail: whatever happens to a post, no group arrives twice.
func TestPostsThatFail(t *testing.T) {
	for _, tt := range []struct {
		name    string
		keys    bool
		answer  func(n int32) int
		unknown int64
		dropped string
	}{
		{name: "cut off after it was carried out", answer: func(n int32) int {
			if n == 2 {
				return -1
			}
			return 0
		}, unknown: 1},
		{name: "cut off by a server that knows keys", keys: true, answer: func(n int32) int {
			if n == 2 || n == 3 || n == 6 {
				return -1
			}
			return 0
		}},
		{name: "full", answer: func(n int32) int {
			if n >= 2 && n < 5 {
				return 503
			}
			return 0
		}},
		{name: "another error, twice", answer: func(n int32) int {
			if n == 2 || n == 3 {
				return 500
			}
			return 0
		}},
		{name: "refused", answer: func(n int32) int {
			if n == 2 {
				return 422
			}
			return 0
		}, dropped: "rejected"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t)
			b.api.Answer, b.api.Keys = posts(tt.answer), tt.keys
			b.api.Register(2, 0, 0, -1)
			b.api.Batch()
			o := b.options(2)
			o.TotalSteps = -1
			stop, _ := b.start(t, o, one("e", halves, 100_000))
			b.train(6)
			r := stop()
			e := r.totals.Envs["e"]
			delete(e.Dropped, "unfinished") // the one that was being begun when it was stopped
			if r.err != nil || !errors.Is(r.sum.Stopped, engine.ErrDrained) || e.Unknown != tt.unknown || tt.dropped != "" && e.Dropped[tt.dropped] != 1 ||
				tt.dropped == "" && len(e.Dropped) > 0 {
				t.Fatalf("%v %v %+v", r.err, r.sum.Stopped, e)
			}
			most := 0
			for row, n := range rowsOf(b.api.Received()) {
				if n != 1 {
					t.Errorf("row %d arrived %d times", row, n)
				}
				most = max(most, row)
			}
			if n := len(b.api.Received()); tt.dropped == "" && n != most+1 {
				t.Errorf("%d groups, and the last row is %d", n, most)
			}
		})
	}
}

func TestRefusedAgainAndAgainStops(t *testing.T) {
	b := newBench(t)
	b.api.Answer = posts(func(int32) int { return 422 })
	b.api.Register(2, 0, 0, -1)
	b.api.Batch()
	_, ended := b.start(t, b.options(2), one("e", halves, 100))
	r := <-ended
	if r.err != nil || r.sum.Stopped == nil || !strings.Contains(r.sum.Stopped.Error(), "refused") || !strings.Contains(r.sum.Stopped.Error(), "422") ||
		len(b.api.Received()) != 0 {
		t.Errorf("%v, stopped: %v", r.err, r.sum.Stopped)
	}
}

func TestNoTraining(t *testing.T) {
	third := 3
	for _, tt := range []struct {
		name       string
		batch      int
		registered bool
		size       int
		want       []string
	}{
		{"no trainer", 0, false, 2, []string{"no trainer has asked for a batch", "GET /batch", "--wait"}},
		{"a group larger than a batch", 4, true, 8, []string{"--group-size 8 is more than the trainer's batch of 4"}},
		{"a batch is no multiple", 16, true, third, []string{"--group-size 3 does not divide", "16 sequences", "2 and 4 would do"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t)
			if tt.registered {
				b.api.Register(tt.batch, 0, 0, -1)
				b.api.Batch()
			}
			o := b.options(tt.size)
			o.Wait = 20 * time.Millisecond
			if tt.registered {
				o.Wait = time.Hour
			}
			_, ended := b.start(t, o, one("e", func(context.Context, rollout.Job) (*trajectory.Record, error) {
				t.Error("a rollout was begun")
				return nil, errors.New("begun")
			}, 3))
			r := <-ended
			if !errors.Is(r.err, serve.ErrTrainer) {
				t.Fatalf("%v", r.err)
			}
			for _, w := range tt.want {
				if !strings.Contains(r.err.Error(), w) {
					t.Errorf("%v lacks %q", r.err, w)
				}
			}
		})
	}
}

// TestServerStaysAway: what is finished is not sent to anybody else; the next start serves
// its row again.
func TestServerStaysAway(t *testing.T) {
	b := newBench(t)
	b.api.Register(2, 0, 0, -1)
	b.api.Batch()
	var away atomic.Bool
	b.api.Answer = func(*http.Request) int {
		if away.Load() {
			return 503
		}
		return 0
	}
	o := b.options(2)
	o.TotalSteps, o.Engine.Drain = -1, 50*time.Millisecond
	stop, _ := b.start(t, o, one("e", halves, 100_000))
	b.train(3)
	away.Store(true)
	if r := stop(); r.err != nil || r.totals.Envs["e"].Unknown > 0 {
		t.Fatalf("%v %+v", r.err, r.totals)
	}
	away.Store(false)
	o.Before = b.book.kept()
	stop, _ = b.start(t, o, serve.Env{Name: "e", Weight: 1, Runner: play(halves), Rows: numbered(100_000)})
	b.train(3)
	if r := stop(); r.err != nil {
		t.Fatal(r.err)
	}
	n := rowsOf(b.api.Received())
	for row := range 6 {
		if n[row] != 1 {
			t.Errorf("row %d arrived %d times", row, n[row])
		}
	}
}

// TestTrainerGoesBackWhileServing: the trainer dies and begins again from its checkpoint.
func TestTrainerGoesBackWhileServing(t *testing.T) {
	b := newBench(t)
	b.api.Register(2, 0, 10, -1)
	b.api.Batch()
	o := b.options(2)
	o.TotalSteps, o.OffPolicy = -1, 1
	var said atomic.Int32
	o.Say = func(text string) {
		if strings.Contains(text, "went back from step") {
			said.Add(1)
		}
	}
	stop, _ := b.start(t, o, one("e", halves, 100_000))
	b.train(5)
	b.api.Register(2, 0, 10, -1) // from its checkpoint: step 10
	b.train(5)
	r := stop()
	n := rowsOf(b.api.Received())
	if r.err != nil || said.Load() != 1 || n[0] != 2 || n[1] != 2 || n[4] != 2 {
		t.Errorf("%v: went back %d times, rows %v", r.err, said.Load(), n)
	}
}

func TestEvaluationAtEachCrossing(t *testing.T) {
	b := newBench(t)
	b.api.Register(2, 0, 0, -1)
	b.api.Batch()
	o := b.options(2)
	o.TotalSteps, o.StepsPerEval = -1, 3
	var training atomic.Int32
	evals := make(chan struct{}, 100)
	e := one("e", func(ctx context.Context, j rollout.Job) (*trajectory.Record, error) {
		training.Add(1)
		return halves(ctx, j)
	}, 100_000)
	e.Evaluate = func(context.Context) (map[string]float64, error) {
		evals <- struct{}{}
		if len(evals) == 2 {
			return nil, errors.New("no figures today")
		}
		return map[string]float64{"reward": 0.25}, nil
	}
	stop, _ := b.start(t, o, e)
	for range 8 {
		b.train(1)
		for step := b.api.Step(); !kept(b.book, step); {
			if _, err := b.c.Status(t.Context(), 0); err != nil {
				t.Fatal(err)
			}
		}
	}
	r := stop()
	if n := len(evals); r.err != nil || n < 1 || n > 2 { // at steps 3 and 6; the second may find the first under way
		t.Errorf("%v: %d evaluations in 8 steps", r.err, n)
	}
	raw, err := os.ReadFile(filepath.Join(b.dir, "metrics.jsonl"))
	if err != nil || !strings.Contains(string(raw), `"step":3,"metrics":{"e_0_eval/reward":0.25`) {
		t.Errorf("%s %v", raw, err)
	}
}

// TestAnnotations: what the environment says beside the reward arrives, aligned; what is
// not aligned is not sent.
func TestAnnotations(t *testing.T) {
	b := newBench(t)
	b.api.Register(2, 0, 0, -1)
	b.api.Batch()
	o := b.options(2)
	o.TotalSteps, o.Rules.Advantages, o.Rules.Truncated, o.Messages = -1, "grpo", "mask", true
	o.Generation = map[string]any{"temperature": 0.7}
	e := one("e", func(_ context.Context, j rollout.Job) (*trajectory.Record, error) {
		r := answered(j, float64(1-j.Sample%2))
		if j.Sample == 1 {
			r.Outcome = trajectory.Truncated
		}
		return r, nil
	}, 100_000)
	e.Finish = func(_ context.Context, row datasets.Row, recs []*trajectory.Record) (f serve.Finished, err error) {
		switch row.Index % 4 {
		case 1:
			return f, errors.New("no opinion")
		case 2:
			panic("no opinion at all")
		}
		f.Group = map[string]any{"task": row.ID}
		for _, r := range recs {
			a := serve.Annotation{
				Overrides:       map[string]any{"temperature": 0.5},
				RefLogProbs:     []float64{0, 0, -1, -2},
				DistillTokens:   [][]int{{}, {}, {1, 2}, {3}},
				DistillLogProbs: [][]float64{{}, {}, {-1, -2}, {-3}},
			}
			if row.Index%4 == 3 {
				a.RefLogProbs = a.RefLogProbs[:3]
			}
			f.Scores, f.Notes = append(f.Scores, *r.Score), append(f.Notes, a)
		}
		return f, nil
	}
	stop, _ := b.start(t, o, e)
	for _, batch := range b.train(4) {
		g := batch[0]
		if g.Tokens[0][0]%4 != 0 {
			t.Fatalf("row %d was sent", g.Tokens[0][0])
		}
		for _, x := range [][2]any{
			{g.GroupOverrides,
				map[string]any{"group_size": 2.0, "row": fmt.Sprint("r", g.Tokens[0][0]), "epoch": 0.0, "task": fmt.Sprint("r", g.Tokens[0][0])}},
			{g.GenerationParams, map[string]any{"temperature": 0.7}},
			{g.RefLogprobs, [][]float64{{0, 0, -1, -2}, {0, 0, -1, -2}}},
			{g.DistillTokenIDs[1], [][]int{{}, {}, {1, 2}, {3}}},
			{g.DistillLogprobs[1], [][]float64{{}, {}, {-1, -2}, {-3}}},
			{g.Advantages, [][]float64{{0, 0, 1, 1}, {0, 0, 0, 0}}}, {g.Masks, [][]int{{-100, -100, 7, 8}, {-100, -100, -100, -100}}},
			{g.InferenceLogprobs, [][]float64{{1, 1, -0.5, -0.25}, {1, 1, 1, 1}}},
			{g.Overrides[0], map[string]any{"temperature": 0.5, "raw_score": 1.0}},
			{g.Overrides[1], map[string]any{"temperature": 0.5, "raw_score": 0.0, "set_advantage_to_zero": true}},
		} {
			if fmt.Sprint(x[0]) != fmt.Sprint(x[1]) {
				t.Errorf("got %v, want %v", x[0], x[1])
			}
		}
		if len(g.Messages) != 2 || len(g.Messages[0]) != 2 {
			t.Errorf("messages %v", g.Messages)
		}
	}
	r := stop()
	if d := r.totals.Envs["e"].Dropped; r.err != nil || d["unscored"] < 6 || d["invalid"] < 3 {
		t.Errorf("%v %v", r.err, d)
	}
}

// TestTarget: Atropos' arithmetic of workers (§6.3, §6.4 of its protocol).
func TestTarget(t *testing.T) {
	half := 0.5
	for _, tt := range []struct {
		size, batch, off  int
		min               *float64
		queue, own, large int
		free              float64
		want              int
	}{
		{4, 16, 3, nil, 0, 0, 1, 1, 12},
		{4, 16, 3, nil, 11, 11, 4, 1, 1},
		{4, 16, 3, nil, 12, 12, 4, 1, 0},
		{4, 16, 3, nil, 20, 0, 8, 1, 0},
		{4, 16, 2, nil, 0, 0, 1, 0.5, 4},
		{8, 8, 1, nil, 0, 0, 1, 0.1, 1}, // one at least, or nothing would ever come
		{4, 0, 3, nil, 0, 0, 1, 1, 0},
		{4, 16, 1, &half, 0, 0, 4, 0.5, 4},
		{4, 16, 1, &half, 4, 0, 4, 0.5, 3}, // the queue is full of others' groups, the minimum is missing
		{4, 16, 1, &half, 4, 2, 4, 0.5, 0},
	} {
		if got := serve.Target(tt.size, tt.batch, tt.off, tt.min, tt.queue, tt.own, tt.large, tt.free); got != tt.want {
			t.Errorf("%+v: %d", tt, got)
		}
	}
}

func TestFirsts(t *testing.T) {
	var all []serve.Cursor
	for i, step := range []int64{0, 0, 1, 3, 3, 2, 2, 4, 4} {
		all = append(all, serve.Cursor{Step: step, Generation: i, Trained: true}, serve.Cursor{Step: step, Generation: -1})
	}
	var got []string
	for _, c := range serve.Firsts(all) {
		got = append(got, fmt.Sprint(c.Step, "/", c.Generation))
	}
	if want := "0/0 1/2 2/5 4/7"; strings.Join(got, " ") != want {
		t.Errorf("%v, want %s", got, want)
	}
}

// TestBarrenEnvironment: an environment of which nothing can be sent does not hold up the
// other one.
func TestBarrenEnvironment(t *testing.T) {
	b := newBench(t)
	b.api.Register(4, 3, 0, -1) // no sequence is as short
	b.api.Batch()
	o := b.options(2)
	o.TotalSteps = -1
	barren := one("barren", halves, 1000)
	fruitful := one("fruitful", func(_ context.Context, j rollout.Job) (*trajectory.Record, error) {
		r := answered(j, float64(j.Sample%2))
		tr := trajectory.New(trajectory.ModeExact, nil)
		d := r.Trace.Nodes[len(r.Trace.Nodes)-1].Delta
		d.Tokens, d.LogProbs = d.Tokens[:1], d.LogProbs[:1]
		if _, err := tr.Commit(trajectory.Turn{Sampled: d, Finish: trajectory.FinishStop}); err != nil {
			return nil, err
		}
		tr.Finish(nil)
		r.Trace = tr
		return r, nil
	}, 1000)
	stop, _ := b.start(t, o, barren, fruitful)
	b.train(10)
	r := stop()
	if e := r.totals.Envs; r.err != nil || e["barren"].Sent != 0 || e["barren"].Samples["too_long"] < 10 || e["fruitful"].Sent < 20 {
		t.Errorf("%v %+v", r.err, e)
	}
}
