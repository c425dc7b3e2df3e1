package serve_test

import (
	"bytes"
	"context"
	"encoding/json"
	"iter"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"hermes/datasets"
	"hermes/internal/atropos/api"
	"hermes/internal/atropos/client"
	"hermes/internal/atropos/serve"
	"hermes/internal/atropos/servetest"
	"hermes/rollout"
	"hermes/trajectory"
)

// ours is a bench beside hermes' own trajectory server, with a trainer of batches of so many
// sequences.
func ours(t *testing.T, batch int) *bench {
	t.Helper()
	s, _, err := api.Open(api.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	h := httptest.NewServer(s)
	t.Cleanup(func() {
		h.Close()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	c, err := client.New(h.URL, client.Options{Pause: time.Millisecond, Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{url: h.URL, c: c, book: newBook(), dir: t.TempDir()}
	reg := map[string]any{
		"wandb_group":              "",
		"wandb_project":            "",
		"batch_size":               batch,
		"max_token_len":            0,
		"checkpoint_dir":           "",
		"save_checkpoint_interval": 0,
		"starting_step":            0,
		"num_steps":                -1,
	}
	b.ask(t, http.MethodPost, "/register", reg, nil)
	b.ask(t, http.MethodGet, "/batch", nil, nil)
	return b
}

// ask is a trainer's request.
func (b *bench) ask(t *testing.T, method, path string, in, out any) {
	t.Helper()
	raw, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(t.Context(), method, b.url+path, bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("%s %s: %s", method, path, resp.Status)
	}
	if out != nil {
		if err := json.NewDecoder(resp.Body).Decode(out); err != nil {
			t.Fatal(err)
		}
	}
}

// batches asks hermes' own server until n batches were delivered.
func (b *bench) batches(t *testing.T, n int) (out [][]servetest.Group) {
	t.Helper()
	for len(out) < n && t.Context().Err() == nil {
		var got struct{ Batch []servetest.Group }
		if b.ask(t, http.MethodGet, "/batch", nil, &got); got.Batch != nil {
			out = append(out, got.Batch)
		}
	}
	return out
}

// TestMinimumsBesideWeights: an environment that wants more of the queue than the minimums
// leave it does not hold up the one without which there is no batch.
func TestMinimumsBesideWeights(t *testing.T) {
	b := ours(t, 8)
	o := b.options(4)
	share := 0.25
	o.TotalSteps, o.MinAllocation = -1, &share
	x, y := one("x", halves, 10), one("y", halves, 10)
	x.Weight, y.Weight = 0.75, 0.25
	stop, _ := b.start(t, o, x, y)
	for i, batch := range b.batches(t, 12) {
		n := map[int]int{}
		for _, g := range batch {
			n[*g.EnvID]++
		}
		if n[0] == 0 || n[1] == 0 {
			t.Errorf("batch %d: %v groups of each environment, want one of each at least", i, n)
		}
	}
	if r := stop(); r.err != nil {
		t.Error(r.err)
	}
}

// TestShortGroupsFillBatches: groups that lack a sample come into batches.
func TestShortGroupsFillBatches(t *testing.T) {
	b := ours(t, 4)
	o := b.options(4)
	o.TotalSteps, o.Rules.ShortGroups = -1, "send"
	stop, _ := b.start(t, o, one("e", func(_ context.Context, j rollout.Job) (*trajectory.Record, error) {
		r := answered(j, float64(j.Sample))
		if j.Row.Index%3 > 0 && j.Sample == 2 {
			r.Outcome, r.Score = trajectory.Sandbox, nil
		}
		return r, nil
	}, 1000))
	for _, batch := range b.batches(t, 9) {
		n := 0
		for _, g := range batch {
			n += len(g.Tokens)
			if size := g.GroupOverrides["group_size"]; size != float64(len(g.Tokens)) {
				t.Errorf("a group of %d says that it has %v", len(g.Tokens), size)
			}
		}
		if n != 4 {
			t.Errorf("a batch of %d sequences", n)
		}
	}
	if r := stop(); r.err != nil || r.totals.Envs["e"].Samples["surplus"] == 0 {
		t.Errorf("%+v", r)
	}
}

// TestStartedAgain: an environment that was killed takes the place that it had with hermes'
// own server, so that its share is not divided with the dead; another run has its own.
func TestStartedAgain(t *testing.T) {
	b := ours(t, 2)
	o := b.options(2)
	o.TotalSteps = -1
	s := func(want int, name string) {
		t.Helper()
		registered := make(chan string, 10)
		o.Say = func(text string) { registered <- text }
		stop, _ := b.start(t, o, one("e", halves, 1000))
		for !strings.HasPrefix(<-registered, "registered e as "+name+" ") {
		}
		if got := *b.batches(t, 1)[0][0].EnvID; got != want {
			t.Fatalf("environment %d, want %d", got, want)
		}
		before := b.book.kept()
		if r := stop(); r.err != nil {
			t.Fatal(r.err)
		}
		o.Before = before // a killed one has not kept what came later
		raw, err := os.ReadFile(filepath.Join(b.dir, "metrics.jsonl"))
		if err != nil || !strings.Contains(string(raw), `"`+name+`_train/`) {
			t.Errorf("metrics are not those of %s: %v %s", name, err, raw)
		}
	}
	s(0, "e_0")
	s(0, "e_0")
	o.Before, o.Say = nil, nil
	b.dir, b.book = t.TempDir(), newBook()
	o.Dir = b.dir
	stop, _ := b.start(t, o, one("e", halves, 1000))
	for { // what the first one left in the queue goes first
		if got := *b.batches(t, 1)[0][0].EnvID; got == 1 {
			break
		}
	}
	if r := stop(); r.err != nil {
		t.Fatal(r.err)
	}
}

// TestSlowRows: while a row is read, groups are settled and posted, and a drain ends it.
func TestSlowRows(t *testing.T) {
	b := newBench(t)
	b.api.Register(2, 0, 0, -1)
	b.api.Batch()
	o := b.options(2)
	o.TotalSteps = -1
	reading := make(chan struct{})
	e := one("e", func(ctx context.Context, j rollout.Job) (*trajectory.Record, error) {
		if j.Row.Index == 2 {
			<-reading
		}
		return halves(ctx, j)
	}, 0)
	e.Rows = func(ctx context.Context, _ int) iter.Seq2[datasets.Row, error] {
		return func(yield func(datasets.Row, error) bool) {
			for row, err := range numbered(3)(ctx, 0) {
				if !yield(row, err) {
					return
				}
			}
			close(reading)
			<-ctx.Done()
			yield(datasets.Row{}, context.Cause(ctx))
		}
	}
	stop, _ := b.start(t, o, e)
	b.train(3)
	if r := stop(); r.err != nil || r.totals.Envs["e"].Sent != 3 {
		t.Errorf("%+v", r)
	}
}

// TestLastEvaluation: an evaluation that is under way when the trainer has its steps comes
// to its end.
func TestLastEvaluation(t *testing.T) {
	b := newBench(t)
	b.api.Register(2, 0, 0, 6)
	b.api.Batch()
	o := b.options(2)
	o.StepsPerEval = 5
	o.EvalHandling = serve.NoHandling
	o.OffPolicy = 1
	done := make(chan struct{})
	o.Say = func(text string) {
		if strings.Contains(text, "has what it needs") {
			close(done)
		}
	}
	e := one("e", halves, 100)
	e.Evaluate = func(ctx context.Context) (map[string]float64, error) {
		<-done
		for range 200 { // the others have come to their end meanwhile
			if _, err := b.c.Info(t.Context()); err != nil {
				return nil, err
			}
		}
		return map[string]float64{"reward": 0.25}, ctx.Err()
	}
	_, ended := b.start(t, o, e)
	b.train(6)
	if r := <-ended; r.err != nil {
		t.Fatal(r.err)
	}
	raw, err := os.ReadFile(filepath.Join(b.dir, "metrics.jsonl"))
	if err != nil || !strings.Contains(string(raw), `"e_0_eval/reward":0.25`) {
		t.Errorf("metrics: %v %s", err, raw)
	}
}

// TestDryWarnings: where nothing can be sent, that is said ever more seldom, with what to do.
func TestDryWarnings(t *testing.T) {
	b := newBench(t)
	b.api.Register(2, 0, 0, -1)
	b.api.Batch()
	o := b.options(2)
	var log bytes.Buffer
	o.TotalSteps, o.Log = -1, slog.New(slog.NewTextHandler(&log, nil))
	enough := make(chan struct{})
	stop, _ := b.start(t, o, one("e", func(_ context.Context, j rollout.Job) (*trajectory.Record, error) {
		if j.Row.Index == 500 && j.Sample == 0 {
			close(enough)
		}
		return answered(j, 1), nil
	}, 1000))
	<-enough
	if r := stop(); r.err != nil {
		t.Fatal(r.err)
	}
	if n := strings.Count(log.String(), "nothing of an environment could be sent"); n < 3 || n > 8 {
		t.Errorf("said %d times of 500 groups", n)
	}
	if !strings.Contains(log.String(), "equal: another difficulty") || strings.Contains(log.String(), "too_long:") {
		t.Errorf("the advice does not fit: %.500s", &log)
	}
}

// TestEveryGroupHasALine: served.jsonl tells of each group what became of it, with the
// rewards of its samples, and the metrics count each once.
func TestEveryGroupHasALine(t *testing.T) {
	b := newBench(t)
	b.api.Register(2, 0, 0, -1)
	b.api.Batch()
	o := b.options(2)
	o.TotalSteps, o.Rules.EqualScores = -1, "resample"
	stop, _ := b.start(t, o, one("e", func(ctx context.Context, j rollout.Job) (*trajectory.Record, error) {
		if j.Row.Index%2 == 1 {
			return answered(j, 0.5), nil
		}
		return halves(ctx, j)
	}, 1000))
	b.train(5)
	r := stop()
	if r.err != nil {
		t.Fatal(r.err)
	}
	lines := map[string]int64{}
	for _, text := range readLines(t, filepath.Join(b.dir, "served.jsonl")) {
		var l struct {
			Result  string
			Samples []struct{ Reward *float64 }
		}
		if err := json.Unmarshal([]byte(text), &l); err != nil {
			t.Fatal(err)
		}
		lines[l.Result]++
		for _, x := range l.Samples {
			if x.Reward == nil {
				t.Errorf("a sample without its reward: %s", text)
			}
		}
	}
	e := r.totals.Envs["e"]
	for why, n := range e.Dropped {
		if lines[why] != n {
			t.Errorf("%d lines of %d groups that are %s", lines[why], n, why)
		}
	}
	if lines["resampled"] < 3 || lines["equal"] < 3 || lines["sent"] != e.Sent {
		t.Errorf("lines %v, totals %+v", lines, e)
	}
	var sent, rejected float64
	for _, text := range readLines(t, filepath.Join(b.dir, "metrics.jsonl")) {
		var l struct{ Metrics map[string]float64 }
		if err := json.Unmarshal([]byte(text), &l); err != nil {
			t.Fatal(err)
		}
		sent, rejected = sent+l.Metrics["e_0_train/items_sent_to_api"], rejected+l.Metrics["e_0_train/items_rejected"]
	}
	var dropped int64
	for _, n := range e.Dropped {
		dropped += n
	}
	if int64(sent) != e.Sent || int64(rejected) != dropped {
		t.Errorf("the lines of metrics add up to %g sent and %g rejected; want %d and %d", sent, rejected, e.Sent, dropped)
	}
}

func readLines(t *testing.T, name string) []string {
	t.Helper()
	raw, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSpace(string(raw)), "\n")
}

// TestRegistrationThatFails: an environment that is refused leaves none behind.
func TestRegistrationThatFails(t *testing.T) {
	b := newBench(t)
	n := 0
	b.api.Answer = func(r *http.Request) int {
		if r.URL.Path != "/register-env" {
			return 0
		}
		n++
		if n == 2 {
			return http.StatusUnprocessableEntity
		}
		return 0
	}
	b.api.Register(2, 0, 0, -1)
	b.api.Batch()
	_, ended := b.start(t, b.options(2), one("x", halves, 10), one("y", halves, 10))
	if r := <-ended; r.err == nil || !strings.Contains(r.err.Error(), "422") {
		t.Fatalf("%+v", r)
	}
	if list := b.api.Envs(); len(list) != 1 || list[0].Connected {
		t.Errorf("environments %+v", list)
	}
}

// TestAnotherTrainer: one that comes with sizes that do not fit, after a reset, ends the run
// with what to change.
func TestAnotherTrainer(t *testing.T) {
	b := ours(t, 4)
	o := b.options(2)
	o.TotalSteps = -1
	_, ended := b.start(t, o, one("e", halves, 1000))
	b.batches(t, 2)
	b.ask(t, http.MethodGet, "/reset_data", nil, nil) // plain text
	reg := map[string]any{
		"wandb_group":              "",
		"wandb_project":            "",
		"batch_size":               3,
		"max_token_len":            0,
		"checkpoint_dir":           "",
		"save_checkpoint_interval": 0,
		"starting_step":            0,
		"num_steps":                -1,
	}
	b.ask(t, http.MethodPost, "/register", reg, nil)
	b.ask(t, http.MethodGet, "/batch", nil, nil)
	if r := <-ended; r.err != nil || r.sum.Stopped == nil || !strings.Contains(r.sum.Stopped.Error(), "not a multiple of group_size 2") {
		t.Errorf("%v, stopped: %v", r.err, r.sum.Stopped)
	}
}
