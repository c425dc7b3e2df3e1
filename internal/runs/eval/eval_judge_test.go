package eval_test

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"hermes/internal/exit"
	"hermes/internal/fakellm"
	"hermes/internal/runs/eval"
	"hermes/internal/settings"
)

// TestStoredSamplesAreJudgedOnce: a judge is asked about every stored sample, and never
// again for what it has answered: not after a budget was spent, not in a second run. An
// answer that could not be read is no score, and is asked for again.
func TestStoredSamplesAreJudgedOnce(t *testing.T) {
	dir := stored(t, 5, func(row, sample int) bool { return row == 4 && sample == 3 }) // 20 samples, one failed by our fault
	var asked atomic.Int64
	judge := func(answer string) string {
		s, err := fakellm.New(fakellm.Options{
			Models:  []string{"wise"},
			Scripts: []fakellm.Script{{Match: "strict and fair judge", Turns: []fakellm.Turn{{Content: answer, Repeat: true}}}},
		})
		if err != nil {
			t.Fatal(err)
		}
		web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if strings.HasSuffix(r.URL.Path, "/chat/completions") {
				asked.Add(1)
			}
			s.ServeHTTP(w, r)
		}))
		t.Cleanup(web.Close)
		return web.URL + "/v1"
	}
	score := func(url string, budget int64) (eval.Rescored, int, int64) {
		before := asked.Load()
		o := settings.Rescore{Grader: "{kind: rubric, rubric: Be right.}", Scores: "judged", JudgeFlags: settings.JudgeFlags{Concurrency: 2,
			RoleFlags: settings.RoleFlags{ModelRole: []string{"judge=wise@" + url}}, BudgetFlags: settings.BudgetFlags{BudgetTokens: budget}}}
		r, err := eval.Rescore(t.Context(), quiet(), o, dir)
		code := 0
		var coded *exit.Error
		if errors.As(err, &coded) {
			code = coded.Code
		} else if err != nil {
			t.Fatal(err)
		}
		return r, code, asked.Load() - before
	}
	talks := judge("Nicely put, I would say.")
	if r, code, n := score(talks, 0); code != 3 || r.Errors != 19 || r.Scored != 0 || n < 19*3 {
		t.Fatalf("a judge that talks: exit code %d, %d errors, %d scored, asked %d times", code, r.Errors, r.Scored, n)
	}
	wise := judge(`{"reason": "so so", "score": 0.25}`)
	_, code, first := score(wise, 1000)
	if code != 4 || first == 0 || first >= 19 {
		t.Fatalf("with a small budget: exit code %d, asked %d times", code, first)
	}
	r, code, rest := score(wise, 0)
	if code != 0 || r.Scored != 19 || r.Kept != 1 || r.Errors != 0 || len(r.Judges) != 1 || r.Judges[0].Asked != 19 ||
		r.Report.Metrics["reward"].Value != 0.25 {
		t.Fatalf("exit code %d, %+v", code, r)
	}
	if first+rest < 19 || first+rest > 19+4 { // answers under way when the budget was spent may be lost
		t.Errorf("asked %d and %d times for 19 samples", first, rest)
	}
	name := filepath.Join(dir, "scores", "judged.jsonl")
	lines, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if _, code, n := score(wise, 0); code != 0 || n != 0 {
		t.Errorf("once more: exit code %d, asked %d times", code, n)
	}
	if again, err := os.ReadFile(name); err != nil || !bytes.Equal(again, lines) {
		t.Errorf("the scores are not the same (%v)", err)
	}
	// A line that was cut, as by a kill, is asked for again, and that alone.
	kept := filepath.Join(dir, "scores", "judged.judge.jsonl")
	raw, err := os.ReadFile(kept)
	if err == nil {
		err = os.WriteFile(kept, raw[:len(raw)-5], 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, code, n := score(wise, 0); code != 0 || n != 1 {
		t.Errorf("after a cut: exit code %d, asked %d times", code, n)
	}
}

// TestJudgesSlide: a judge that takes long over one sample holds up no other, and as many
// are asked at once as --concurrency says.
func TestJudgesSlide(t *testing.T) {
	dir := stored(t, 80, func(int, int) bool { return false }) // 320 samples
	s, err := fakellm.New(fakellm.Options{
		Models:  []string{"wise"},
		Scripts: []fakellm.Script{{Match: "strict and fair judge", Turns: []fakellm.Turn{{Content: `{"reason": "so so", "score": 0.25}`, Repeat: true}}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	const others, atOnce = 310, 7
	var asked, answered, at, most atomic.Int64
	free, full := make(chan struct{}), make(chan struct{})
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasSuffix(r.URL.Path, "/chat/completions") {
			s.ServeHTTP(w, r)
			return
		}
		n := at.Add(1)
		for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
		}
		defer at.Add(-1)
		wait := func(c chan struct{}) {
			select {
			case <-c:
			case <-r.Context().Done():
			}
		}
		switch n := asked.Add(1); {
		case n == 1:
			wait(free)
		case n < atOnce:
			wait(full)
		case n == atOnce:
			close(full)
		}
		s.ServeHTTP(w, r)
		if answered.Add(1) == others {
			close(free)
		}
	}))
	t.Cleanup(web.Close)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	r, err := eval.Rescore(ctx, quiet(), settings.Rescore{
		Grader: "{kind: rubric, rubric: Be right.}",
		Scores: "judged",
		JudgeFlags: settings.JudgeFlags{Concurrency: atOnce,
			RoleFlags: settings.RoleFlags{ModelRole: []string{"judge=wise@" + web.URL + "/v1"}}},
	}, dir)
	if err != nil || r.Scored != 320 {
		t.Fatalf("%d scored, %d answered beside the first: %v", r.Scored, answered.Load(), err)
	}
	if most.Load() != atOnce {
		t.Errorf("%d were judged at once, want %d", most.Load(), atOnce)
	}
}
