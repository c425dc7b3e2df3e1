package serve_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"math"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"hermes/datasets"
	"hermes/internal/atropos/client"
	"hermes/internal/atropos/serve"
	"hermes/internal/atropos/servetest"
	"hermes/internal/atropos/shape"
	"hermes/rollout"
	"hermes/rollout/engine"
	"hermes/rollout/policy"
	"hermes/trajectory"
)

// book is a journal in memory.
type book struct {
	mu       sync.Mutex
	final    map[trajectory.Key]*trajectory.Record
	attempts map[trajectory.Key]int
	cursors  []serve.Cursor
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
	return nil
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
	if b.final[r.Key] != nil {
		return fmt.Errorf("key %s is recorded twice", r.Key)
	}
	b.final[r.Key] = r
	return nil
}

func (b *book) Cursor(_ context.Context, raw []byte) error {
	var c serve.Cursor
	if err := json.Unmarshal(raw, &c); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.cursors = append(b.cursors, c)
	return nil
}

func (b *book) kept() []serve.Cursor {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]serve.Cursor(nil), b.cursors...)
}

// play is a rollout made of a function of row number and sample.
type play func(ctx context.Context, j rollout.Job) (*trajectory.Record, error)

func (p play) Run(ctx context.Context, j rollout.Job) (*trajectory.Record, error) { return p(ctx, j) }

// answered is a finished sample: two given tokens that name row and sample, then two
// sampled ones.
func answered(j rollout.Job, reward float64) *trajectory.Record {
	tr := trajectory.New(trajectory.ModeExact, nil)
	d := func(role trajectory.Role, given int, tokens []trajectory.Token, p ...float32) trajectory.Delta {
		return trajectory.Delta{Message: trajectory.Text(role, "x"), Tokens: tokens, Given: given, LogProbs: p}
	}
	if _, err := tr.Commit(trajectory.Turn{
		Given:   []trajectory.Delta{d(trajectory.User, 2, []trajectory.Token{trajectory.Token(j.Row.Index), trajectory.Token(j.Sample)})},
		Sampled: d(trajectory.Assistant, 0, []trajectory.Token{7, 8}, -0.5, -0.25),
		Finish:  trajectory.FinishStop,
	}); err != nil {
		panic(err)
	}
	tr.Finish(nil)
	return &trajectory.Record{Key: j.Key, Group: j.Group, Row: j.Row.ID, Sample: j.Sample, Attempt: j.Attempt, Outcome: trajectory.Answered, Trace: tr,
		Score: &trajectory.Score{Reward: reward}}
}

// halves earns 1 for even samples and 0 for odd ones.
func halves(_ context.Context, j rollout.Job) (*trajectory.Record, error) {
	return answered(j, float64(1-j.Sample%2)), nil
}

// numbered yields rows 0 to n-1 in each epoch.
func numbered(n int) func(context.Context, int) iter.Seq2[datasets.Row, error] {
	return func(context.Context, int) iter.Seq2[datasets.Row, error] {
		return func(yield func(datasets.Row, error) bool) {
			for i := range n {
				if !yield(datasets.Row{ID: fmt.Sprint("r", i), Index: int64(i)}, nil) {
					return
				}
			}
		}
	}
}

// bench is a served environment with its trainer.
type bench struct {
	api  *servetest.Server
	url  string
	c    *client.Client
	book *book
	dir  string
}

func newBench(t *testing.T) *bench {
	t.Helper()
	api := servetest.New()
	h := httptest.NewServer(api)
	t.Cleanup(h.Close)
	c, err := client.New(h.URL, client.Options{Pause: time.Millisecond, Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	return &bench{api: api, url: h.URL, c: c, book: newBook(), dir: t.TempDir()}
}

func (b *bench) options(size int) serve.Options {
	rules := shape.Rules{}
	if err := rules.Check(); err != nil {
		panic(err)
	}
	return serve.Options{GroupSize: size, Rules: rules, Poll: time.Millisecond, Dir: b.dir, Before: b.book.kept(),
		Engine: engine.Options{InFlight: 16, Pause: time.Millisecond, Tries: 1}}
}

type result struct {
	sum    engine.Summary
	err    error
	totals serve.Totals
}

// start serves until stop is called or it ends by itself.
func (b *bench) start(t *testing.T, o serve.Options, envs ...serve.Env) (stop func() result, ended <-chan result) {
	t.Helper()
	s, err := serve.New(b.c, b.book, envs, o)
	if err != nil {
		t.Fatal(err)
	}
	drain, out := make(chan struct{}), make(chan result, 1)
	go func() {
		sum, err := s.Run(context.Background(), drain)
		out <- result{sum, err, s.Totals()}
	}()
	var once sync.Once
	return func() result {
		once.Do(func() { close(drain) })
		return <-out
	}, out
}

// train asks for batches until n were delivered.
func (b *bench) train(n int) (batches [][]servetest.Group) {
	for len(batches) < n {
		ch := b.api.Changed()
		if g := b.api.Batch(); g != nil {
			batches = append(batches, g)
			continue
		}
		<-ch
	}
	return batches
}

func one(name string, p play, rows int) serve.Env {
	return serve.Env{Name: name, Weight: 1, Runner: p, Rows: numbered(rows)}
}

// check holds a group against what answered makes.
func check(t *testing.T, g servetest.Group, size int) {
	t.Helper()
	if len(g.Tokens) != size || len(g.Masks) != size || len(g.InferenceLogprobs) != size || len(g.Scores) != size || len(g.Overrides) != size || g.Keys != 14 {
		t.Fatalf("group of %d tokens, %d masks, %d log-probs, %d scores, %d overrides, %d keys; want %d each and 14",
			len(g.Tokens), len(g.Masks), len(g.InferenceLogprobs), len(g.Scores), len(g.Overrides), g.Keys, size)
	}
	for i, tokens := range g.Tokens {
		row, sample := tokens[0], tokens[1]
		if tokens[0] != g.Tokens[0][0] {
			t.Errorf("rows %d and %d in one group", row, g.Tokens[0][0])
		}
		want := []int{row, sample, 7, 8}
		if fmt.Sprint(tokens) != fmt.Sprint(want) || fmt.Sprint(g.Masks[i]) != fmt.Sprint([]int{-100, -100, 7, 8}) ||
			fmt.Sprint(g.InferenceLogprobs[i]) != fmt.Sprint([]float64{1, 1, -0.5, -0.25}) {
			t.Errorf("tokens %v, masks %v, log-probs %v", tokens, g.Masks[i], g.InferenceLogprobs[i])
		}
		if raw := g.Overrides[i]["raw_score"]; raw != g.Scores[i] || g.Scores[i] != float64(1-sample%2) {
			t.Errorf("sample %d: score %g, raw %v", sample, g.Scores[i], raw)
		}
	}
}

func TestGroupsArriveUntilTheTrainerHasItsSteps(t *testing.T) {
	b := newBench(t)
	b.api.Register(8, 100, 0, 5)
	b.api.Batch()
	_, ended := b.start(t, b.options(4), one("e", halves, 3))
	seen := map[int]int{}
	for _, batch := range b.train(5) {
		if len(batch) != 2 {
			t.Fatalf("a batch of %d groups", len(batch))
		}
		for _, g := range batch {
			check(t, g, 4)
			seen[g.Tokens[0][0]]++
		}
	}
	r := <-ended
	if r.err != nil || r.sum.Stopped != nil {
		t.Fatal(r.err, r.sum.Stopped)
	}
	if len(seen) != 3 || b.api.Envs()[0].Connected || r.totals.Envs["e"].Sent < 10 {
		t.Errorf("rows %v, environments %+v, %+v: want three rows in turn and a good-bye", seen, b.api.Envs(), r.totals)
	}
	raw, err := os.ReadFile(filepath.Join(b.dir, "metrics.jsonl"))
	if err != nil || !strings.Contains(string(raw), `"e_0_train/completion_lengths":2`) || !strings.Contains(string(raw), `"e_0_train/items_sent_to_api"`) ||
		!strings.Contains(string(raw), `"e_0_train_perf/succeeded_task_duration_mean"`) {
		t.Errorf("metrics: %s %v", raw, err)
	}
	served, err := os.ReadFile(filepath.Join(b.dir, "served.jsonl"))
	if err != nil || int64(strings.Count(string(served), `"result":"sent"`)) != r.totals.Envs["e"].Sent {
		t.Errorf("served.jsonl does not have all %d groups: %v", r.totals.Envs["e"].Sent, err)
	}
}

func TestFullQueuePausesAndCancelsNothing(t *testing.T) {
	b := newBench(t)
	b.api.Register(4, 0, 0, -1)
	b.api.Batch()
	o := b.options(2)
	o.OffPolicy, o.TotalSteps = 2, -1
	var mu sync.Mutex
	begun, cut := 0, 0
	stop, _ := b.start(t, o, one("e", func(ctx context.Context, j rollout.Job) (*trajectory.Record, error) {
		mu.Lock()
		defer mu.Unlock()
		begun++
		if ctx.Err() != nil {
			cut++
		}
		return halves(ctx, j)
	}, 100))
	for n := 0; n < 4; { // two batches of two groups
		ch := b.api.Changed()
		n, _ = b.api.Queue()
		if n < 4 {
			<-ch
		}
	}
	for range 50 { // 50 looks at the queue: it stays full
		if _, err := b.c.Status(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
	}
	if n, _ := b.api.Queue(); n != 4 {
		t.Errorf("%d groups in a queue for 4", n)
	}
	b.train(3)
	r := stop()
	if r.err != nil || cut > 0 || r.totals.Groups*2 < int64(begun)-4 {
		t.Errorf("%v: %d cancelled, %d begun, %d groups sent", r.err, cut, begun, r.totals.Groups)
	}
}

func TestServerRestarts(t *testing.T) {
	b := newBench(t)
	b.api.Register(4, 0, 3, -1)
	b.api.Batch()
	o := b.options(4)
	o.TotalSteps = -1
	stop, _ := b.start(t, o, one("e", halves, 1000))
	b.train(2)
	b.api.Restart() // a new process that knows no environment and no trainer
	b.api.Register(4, 0, 5, -1)
	after := b.train(2)
	r := stop()
	if r.err != nil {
		t.Fatal(r.err)
	}
	if _, early := b.api.Queue(); early > 4 { // so many may have been under way
		t.Errorf("%d groups were posted to a server without a trainer", early)
	}
	for _, batch := range after {
		check(t, batch[0], 4)
	}
	if len(b.api.Envs()) != 1 {
		t.Errorf("registered %d times with the new server", len(b.api.Envs()))
	}
}

// TestTrainerGoesBack: a trainer that begins again at an earlier step gets the rows that
// followed it the first time.
func TestTrainerGoesBack(t *testing.T) {
	b := newBench(t)
	b.api.Register(2, 0, 0, -1)
	b.api.Batch()
	o := b.options(2)
	o.TotalSteps, o.OffPolicy = -1, 1
	o.Engine.InFlight = 2
	stop, _ := b.start(t, o, one("e", halves, 1000))
	for range 6 { // slowly: each step is seen
		b.train(1)
		step := b.api.Step()
		for !kept(b.book, step) {
			if _, err := b.c.Status(t.Context(), 0); err != nil {
				t.Fatal(err)
			}
		}
	}
	if r := stop(); r.err != nil {
		t.Fatal(r.err)
	}
	var at serve.Position
	for _, c := range b.book.kept() {
		if c.Step == 3 && c.Trained {
			at = c.Envs["e"].Next
			break
		}
	}
	b.api.Register(2, 0, 3, -1)
	b.api.Batch()
	o.Before = b.book.kept()
	stop, _ = b.start(t, o, one("e", halves, 1000))
	g := b.train(1)[0][0]
	if r := stop(); r.err != nil {
		t.Fatal(r.err)
	}
	if int64(g.Tokens[0][0]) != at.Row || at.Row == 0 {
		t.Errorf("the first row after going back to step 3 is %d, want %d", g.Tokens[0][0], at.Row)
	}
}

func kept(b *book, step int64) bool {
	for _, c := range b.kept() {
		if c.Step == step && c.Trained {
			return true
		}
	}
	return false
}

// places counts the groups of each row by epoch.
func places(list []servetest.Group) map[float64]map[string]int {
	n := map[float64]map[string]int{}
	for _, g := range list {
		epoch := g.GroupOverrides["epoch"].(float64)
		if n[epoch] == nil {
			n[epoch] = map[string]int{}
		}
		n[epoch][g.GroupOverrides["row"].(string)]++
	}
	return n
}

// TestEpochs: the rows come again epoch after epoch, from start to start; in none of them
// one is left out or comes twice.
func TestEpochs(t *testing.T) {
	b := newBench(t)
	b.api.Register(2, 0, 0, -1)
	b.api.Batch()
	const rows = 7
	for range 4 {
		o := b.options(2)
		o.TotalSteps = -1
		stop, _ := b.start(t, o, one("e", halves, rows))
		b.train(6)
		if r := stop(); r.err != nil {
			t.Fatal(r.err)
		}
	}
	n := places(b.api.Received())
	for epoch, seen := range n {
		for row, k := range seen {
			if k != 1 {
				t.Errorf("row %s came %d times in epoch %g", row, k, epoch)
			}
		}
		if int(epoch) < len(n)-1 && len(seen) != rows {
			t.Errorf("epoch %g of %d has %d rows of %d", epoch, len(n), len(seen), rows)
		}
	}
	if len(n) < 4 {
		t.Errorf("%d epochs in %d groups", len(n), len(b.api.Received()))
	}
}

// TestKilledBehindAPost: a start that was killed before it wrote down what it had sent is
// followed by one that begins at the same rows. A server that knows keys takes none of them
// again, unless the trainer has gone back. What it does not take is not reported as sent.
func TestKilledBehindAPost(t *testing.T) {
	for _, back := range []bool{false, true} {
		b := newBench(t)
		b.api.Keys = true
		b.api.Register(2, 0, 5, -1)
		b.api.Batch()
		o := b.options(2)
		o.TotalSteps = -1
		stop, _ := b.start(t, o, one("e", halves, 1000))
		b.train(4)
		if r := stop(); r.err != nil {
			t.Fatal(r.err)
		}
		sent := int64(len(b.api.Received()))
		var early []serve.Cursor // as if it had been killed before the others were on disk
		for _, c := range b.book.kept() {
			if c.Envs["e"].Sent == 0 && len(c.Envs["e"].Done) == 0 {
				early = append(early, c)
			}
		}
		want, times := sent, 1
		if back {
			b.api.Register(2, 0, 3, -1)
			b.api.Batch()
			want, times = 0, 2
		}
		o.Before = early
		stop, _ = b.start(t, o, one("e", halves, 1000))
		b.train(4)
		r := stop()
		if e := r.totals.Envs["e"]; r.err != nil || e.Dropped["arrived"] != want {
			t.Errorf("back %v: %v %+v; %d groups were sent before", back, r.err, e, sent)
		}
		if n := rowsOf(b.api.Received()); n[0] != times || n[1] != times {
			t.Errorf("back %v: the first rows came %d and %d times, want %d", back, n[0], n[1], times)
		}
		raw, err := os.ReadFile(filepath.Join(b.dir, "served.jsonl"))
		if err != nil || int64(strings.Count(string(raw), `"result":"arrived"`)) != want ||
			strings.Count(string(raw), `"result":"sent"`) != len(b.api.Received()) {
			t.Errorf("served.jsonl does not tell what was sent: %v\n%s", err, raw)
		}
	}
}

func TestMixture(t *testing.T) {
	b := newBench(t)
	b.api.Register(4, 0, 0, -1)
	b.api.Batch()
	o := b.options(2)
	o.TotalSteps = -1
	x, y := one("x", halves, 10), one("y", halves, 10)
	x.Weight, y.Weight = 0.75, 0.25
	stop, _ := b.start(t, o, x, y)
	n := map[int]int{}
	for _, batch := range b.train(20) {
		for _, g := range batch {
			n[*g.EnvID]++
		}
	}
	r := stop()
	if r.err != nil || math.Abs(float64(n[0])/40-0.75) > 0.13 {
		t.Errorf("%v: %v groups of each, want three of the first for one of the second", r.err, n)
	}
	if e := b.api.Envs(); len(e) != 2 || e[0].Weight != 0.75 || e[1].Weight != 0.25 {
		t.Errorf("registered as %+v", e)
	}
}

// TestBadSamples: failures, rewards that are no numbers and equal scores are counted, and
// nothing of them is sent.
func TestBadSamples(t *testing.T) {
	b := newBench(t)
	b.api.Register(2, 0, 0, -1)
	b.api.Batch()
	o := b.options(2)
	o.TotalSteps, o.Rules.ShortGroups = -1, "drop"
	stop, _ := b.start(t, o, one("e", func(_ context.Context, j rollout.Job) (*trajectory.Record, error) {
		r := answered(j, float64(1-j.Sample%2))
		switch j.Row.Index % 5 {
		case 1:
			r.Outcome = trajectory.Environment
			r.Score = nil
			r.Cause = "score"
		case 2:
			r.Score.Reward = math.NaN()
		case 3:
			r.Score.Reward = 0.5
		case 4:
			r.Score = nil
		}
		return r, nil
	}, 1000))
	for _, batch := range b.train(6) {
		check(t, batch[0], 2)
		if row := batch[0].Tokens[0][0]; row%5 != 0 {
			t.Errorf("row %d was sent", row)
		}
	}
	r := stop()
	e := r.totals.Envs["e"]
	if r.err != nil || e.Dropped["short"] < 10 || e.Dropped["equal"] < 4 || e.Samples["failed_environment"] < 8 || e.Samples["not_finite"] < 8 ||
		e.Samples["unscored"] < 8 {
		t.Errorf("%v %+v", r.err, e)
	}
}

// TestNothingToTrainOn: groups that no trainer can use end the run after so many in a row,
// with what is wrong and what helps; one that can be used lets the count begin again.
func TestNothingToTrainOn(t *testing.T) {
	for _, tt := range []struct {
		name  string
		play  play
		why   string
		least int64 // groups that were sent
		most  int64
	}{
		{"all rewards equal", func(_ context.Context, j rollout.Job) (*trajectory.Record, error) { return answered(j, 0.5), nil }, "equal 12", 0, 0},
		{"no scores", func(_ context.Context, j rollout.Job) (*trajectory.Record, error) {
			r := answered(j, 1)
			r.Score = nil
			return r, nil
		}, "short 12", 0, 0},
		{"good rows first", func(ctx context.Context, j rollout.Job) (*trajectory.Record, error) {
			if j.Row.Index%100 < 10 {
				return halves(ctx, j)
			}
			return answered(j, 1), nil
		}, "equal 12", 0, 10},
		{"good rows between", func(ctx context.Context, j rollout.Job) (*trajectory.Record, error) {
			if j.Row.Index < 80 && j.Row.Index%2 == 0 {
				return halves(ctx, j)
			}
			return answered(j, 1), nil
		}, "equal 12", 30, 40},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t)
			b.api.Register(2, 0, 0, -1)
			b.api.Batch()
			o := b.options(2)
			o.TotalSteps, o.MaxStale, o.OffPolicy, o.Rules.ShortGroups = -1, 12, -1, "drop"
			_, ended := b.start(t, o, one("e", tt.play, 1000))
			r := <-ended
			if r.err != nil || !errors.Is(r.sum.Stopped, serve.ErrStale) || !strings.Contains(r.sum.Stopped.Error(), tt.why) ||
				!strings.Contains(r.sum.Stopped.Error(), "--max-stale-groups") {
				t.Errorf("%v, stopped by %v", r.err, r.sum.Stopped)
			}
			if r.totals.Groups < tt.least || r.totals.Groups > tt.most {
				t.Errorf("%d groups were sent", r.totals.Groups)
			}
		})
	}
}

func TestFillAndResample(t *testing.T) {
	b := newBench(t)
	b.api.Register(4, 0, 0, -1)
	b.api.Batch()
	o := b.options(4)
	o.TotalSteps, o.Rules.EqualScores = -1, "resample"
	var mu sync.Mutex
	begun := map[trajectory.Key]bool{}
	stop, _ := b.start(t, o, one("e", func(_ context.Context, j rollout.Job) (*trajectory.Record, error) {
		mu.Lock()
		defer mu.Unlock()
		if begun[j.Key] {
			t.Errorf("key %s again", j.Key)
		}
		begun[j.Key] = true
		r := answered(j, float64(1-j.Sample%2))
		if j.Row.Index%2 == 0 && j.Sample == 1 {
			r.Outcome, r.Score = trajectory.Sandbox, nil // sample 4 or 5 takes its place
		}
		if j.Row.Index%2 == 1 && strings.HasSuffix(j.Group, ".0") {
			r.Score.Reward = 1 // the second time it goes better
		}
		return r, nil
	}, 1000))
	for _, batch := range b.train(6) {
		g := batch[0]
		if len(g.Tokens) != 4 {
			t.Fatalf("a group of %d", len(g.Tokens))
		}
		if g.Tokens[0][0]%2 == 0 && g.Tokens[3][1] != 4 {
			t.Errorf("row %d is filled with sample %d", g.Tokens[0][0], g.Tokens[3][1])
		}
	}
	r := stop()
	e := r.totals.Envs["e"]
	if r.err != nil || e.Filled < 3 || e.Dropped["resampled"] < 3 || e.Dropped["short"] != 0 {
		t.Errorf("%v %+v", r.err, e)
	}
}
