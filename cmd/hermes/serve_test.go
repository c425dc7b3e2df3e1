package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"hermes/internal/atropos/servetest"
	"hermes/internal/build"
	"hermes/internal/fakellm"
	"hermes/trajectory"
)

// trainee is what a model server says about one conversation.
type trainee struct {
	tokens   []int
	logProbs map[int]float64 // of sampled tokens, by place
	versions map[int]string  // of the weights that sampled them
}

// judged reads the model server's own record: by the text of the tokens, all sequences
// that it has sampled to their end. Conversations may be word for word the same.
func judged(s *fakellm.Server) map[string][]trainee {
	by := map[string]trainee{}
	for _, e := range s.Entries() {
		if !e.Complete || len(e.Sampled) == 0 {
			continue
		}
		t, ok := by[e.Conversation]
		if !ok {
			t.logProbs, t.versions = map[int]float64{}, map[int]string{}
		}
		t.tokens = t.tokens[:0:0]
		for _, id := range append(slices.Clone(e.Prompt), e.Sampled...) {
			t.tokens = append(t.tokens, int(id))
		}
		for k, p := range e.LogProbs {
			t.logProbs[len(e.Prompt)+k], t.versions[len(e.Prompt)+k] = p, e.Version
		}
		by[e.Conversation] = t
	}
	out := map[string][]trainee{}
	for _, t := range by {
		out[fmt.Sprint(t.tokens)] = append(out[fmt.Sprint(t.tokens)], t)
	}
	return out
}

// sequence is one that was posted.
type sequence struct {
	tokens, masks []int
	logProbs      []float64
	versions      []trajectory.Span
}

// sequenceOf is sequence i of a group.
func sequenceOf(t *testing.T, g servetest.Group, i int) sequence {
	t.Helper()
	s := sequence{tokens: g.Tokens[i], masks: g.Masks[i], logProbs: g.InferenceLogprobs[i]}
	raw, err := json.Marshal(g.Overrides[i]["weight_versions"])
	if err == nil {
		err = json.Unmarshal(raw, &s.versions)
	}
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// version is that of the weights at a place.
func (s sequence) version(at int) (v string) {
	for _, span := range s.versions {
		if span.From <= at {
			v = span.Version
		}
	}
	return v
}

// wrote reports whether a sequence is the conversation, with the versions of its weights.
func (t trainee) wrote(s sequence) bool {
	for at, v := range t.versions {
		if s.version(at) != v {
			return false
		}
	}
	return t.is(s.tokens, s.masks, s.logProbs)
}

// TestJudge: what is wrong with a sequence is seen.
func TestJudge(t *testing.T) {
	truth := trainee{[]int{1, 2, 3, 4, 5, 6}, map[int]float64{2: -0.5, 3: -0.25, 5: -1}, map[int]string{2: "a", 3: "a", 5: "b"}}
	right := func() sequence {
		return sequence{[]int{1, 2, 3, 4, 5, 6},
			[]int{-100, -100, 3, 4, -100, 6},
			[]float64{1, 1, -0.5, -0.25, 1, -1},
			[]trajectory.Span{{From: 2, Version: "a"}, {From: 5, Version: "b"}}}
	}
	for what, spoil := range map[string]func(s *sequence){
		"a mask that is off by one":          func(s *sequence) { s.masks = append([]int{-100}, s.masks[:5]...) },
		"a sampled token that is not masked": func(s *sequence) { s.masks[3] = -100 },
		"a given token that is":              func(s *sequence) { s.masks[4] = 5 },
		"a log-prob of another token":        func(s *sequence) { s.logProbs[2], s.logProbs[3] = s.logProbs[3], s.logProbs[2] },
		"a log-prob that is missing":         func(s *sequence) { s.logProbs = s.logProbs[:5] },
		"a log-prob that says not sampled":   func(s *sequence) { s.logProbs[5] = 1 },
		"versions that are off by a turn":    func(s *sequence) { s.versions[1].From = 6 },
		"no version":                         func(s *sequence) { s.versions = nil },
	} {
		s := right()
		if !truth.wrote(s) {
			t.Fatal("what is right is taken for wrong")
		}
		if spoil(&s); truth.wrote(s) {
			t.Errorf("%s is not seen", what)
		}
	}
}

// is reports whether masks and log-probs are those of the conversation.
func (t trainee) is(tokens, masks []int, logProbs []float64) bool {
	if len(tokens) != len(masks) || len(tokens) != len(logProbs) {
		return false
	}
	for k, id := range tokens {
		p, sampled := t.logProbs[k]
		if !sampled && (masks[k] != -100 || logProbs[k] != 1) || sampled && (masks[k] != id || math.Abs(logProbs[k]-p) > 1e-4) {
			return false
		}
	}
	return len(t.logProbs) > 0
}

// TestServeEndToEnd rolls out tasks with tools in boxes against a model server that aborts
// and wraps answers. Three processes serve the trainer, one after the other; the second is
// killed, the others are asked to stop. Every sequence that arrives must be in the model
// server's own record of what it was sent and what it returned.
func TestServeEndToEnd(t *testing.T) {
	tok, err := build.LoadTokenizer("builtin:words")
	if err != nil {
		t.Fatal(err)
	}
	fake, err := build.FakeTokens(tok, fakellm.ChatML.End)
	if err != nil {
		t.Fatal(err)
	}
	model, url := server(t, fakellm.Options{Tokenizer: fake, KeepTokens: true, Seed: 5,
		Faults: map[string]float64{fakellm.FaultAbort: 0.1, fakellm.FaultWrapped: 0.2, fakellm.Fault500: 0.02}})
	api := servetest.New()
	h := httptest.NewServer(api)
	defer h.Close()
	api.Register(4, 0, 0, -1)
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "run.yaml"), []byte("training: {equal-scores: send, advantages: grpo}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	var received [][]servetest.Group
	for life := range 3 {
		c := hermes(t, dir, "env", "serve", "terminal_test", "procedural=0.5", "-c", "run.yaml", "--api", h.URL, "--group-size", "2", "--model", "fake", "--base-url", url, "--send-scripts",
			"--exact", "--wire", "sglang", "--tokenizer", "builtin:words", "--template", "builtin:chatml", "--max-tokens", "4000", "--max-turns", "12",
			"--backend", "local", "--concurrency", "8", "--poll", "2ms", "--steps-per-eval", "2", "--eval-rows", "2", "--run", "s", "--progress", "none", "--json", "--wandb", "offline")
		var out, log bytes.Buffer
		c.Stdout, c.Stderr = &out, &log
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- c.Wait() }()
		for n := 0; n < 3; {
			ch := api.Changed()
			if b := api.Batch(); b != nil {
				received, n = append(received, b), n+1
				continue
			}
			select {
			case <-ch:
			case err := <-ended:
				t.Fatalf("it ended after %d batches: %v\n%s", n, err, &log)
			}
		}
		how, want := syscall.SIGTERM, 143
		if life == 1 {
			how, want = syscall.SIGKILL, -1
		}
		if err := c.Process.Signal(how); err != nil {
			t.Fatal(err)
		}
		<-ended
		if code := c.ProcessState.ExitCode(); code != want {
			t.Fatalf("exit code %d after %v, want %d\n%s", code, how, want, &log)
		}
		if life != 1 && !bytes.Contains(out.Bytes(), []byte(`"served":{"step":`)) {
			t.Errorf("stdout: %s", &out)
		}
	}
	truth, turns := judged(model), 0
	for _, g := range api.Received() {
		if g.Keys != 14 || len(g.Tokens) != 2 || len(g.Scores) != 2 || len(g.Advantages) != 2 {
			t.Fatalf("%d keys, %d sequences, %d scores, %d advantages", g.Keys, len(g.Tokens), len(g.Scores), len(g.Advantages))
		}
		for i, tokens := range g.Tokens {
			if !slices.ContainsFunc(truth[fmt.Sprint(tokens)], func(want trainee) bool { return want.is(tokens, g.Masks[i], g.InferenceLogprobs[i]) }) {
				t.Errorf("a sequence of %d tokens that is none of %d with these tokens that the model server has seen",
					len(tokens), len(truth[fmt.Sprint(tokens)]))
			}
			for k := 1; k < len(tokens); k++ {
				if g.Masks[i][k-1] == -100 && g.Masks[i][k] != -100 {
					turns++
				}
			}
		}
	}
	if len(received) != 9 || turns < 20 {
		t.Errorf("%d batches, %d turns of the model", len(received), turns)
	}
	raw, err := os.ReadFile(filepath.Join(dir, "runs", "s", "metrics.jsonl"))
	if err != nil || !bytes.Contains(raw, []byte(`procedural_0_eval/reward`)) && !bytes.Contains(raw, []byte(`terminal_test_0_eval/reward`)) {
		t.Errorf("no evaluation in the metrics: %v\n%s", err, raw)
	}
	written, err := filepath.Glob(filepath.Join(dir, "runs", "s", "wandb", "offline-run-*", "*.wandb"))
	if err != nil || len(written) != 3 {
		t.Fatalf("%d starts, files for W&B %v (%v)", 3, written, err)
	}
	whole := 0
	for _, name := range written { // the killed one may lack its last row, which was its only one
		raw, err := os.ReadFile(name)
		if err == nil && bytes.Contains(raw, []byte("staleness/mean")) && bytes.Contains(raw, []byte("train/completion_lengths")) &&
			bytes.Contains(raw, []byte("trainer/step")) &&
			bytes.Contains(raw, []byte("server/server_0_request_time_99p")) {
			whole++
		}
	}
	if whole < 2 {
		t.Errorf("%d of 3 files for W&B have the figures", whole)
	}
	if out, err := hermes(t, dir, "runs", "verify", "s").CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestServeShell serves an environment in shell, without rows to evaluate, until the trainer
// has its steps; what is missing is said at the start and not at each evaluation.
func TestServeShell(t *testing.T) {
	api := servetest.New()
	h := httptest.NewServer(api)
	defer h.Close()
	api.Register(2, 0, 0, 6)
	api.Batch()
	dir := t.TempDir()
	program := `while read -r line; do
  id=${line#*'"id":'} id=${id%%,*}
  case $line in
    *'"method":"initialize"'*) r='{"protocol":1,"name":"shell","toolsets":[]}' ;;
    *'"split":"eval"'*) r='{"rows":[]}' ;;
    *'"method":"rows"'*) r='{"rows":[{"id":"1","prompt":"Say hello."},{"id":"2","prompt":"Say more."}]}' ;;
    *) r=$((n = (n + 1) % 7)) ;;
  esac
  printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$r"
done
`
	if err := os.WriteFile(filepath.Join(dir, "env.sh"), []byte(program), 0o644); err != nil {
		t.Fatal(err)
	}
	c := hermes(t, dir, "env", "serve", "./env.sh", "--api", h.URL, "--group-size", "2", "--model", "scripted", "--exact", "--wire", "sglang", "--max-tokens",
		"100",
		"--backend", "local", "--concurrency", "4", "--poll", "2ms", "--steps-per-eval", "2", "--run", "s", "--progress", "none")
	var log bytes.Buffer
	c.Stderr = &log
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- c.Wait() }()
	for {
		ch := api.Changed()
		api.Batch()
		select {
		case <-ch:
			continue
		case err := <-ended:
			if err != nil || api.Step() < 5 {
				t.Errorf("it ended at step %d: %v", api.Step(), err)
			}
		}
		break
	}
	if n := bytes.Count(log.Bytes(), []byte("env is not evaluated: it has no evaluation split (there are no rows)")); n != 1 ||
		bytes.Contains(log.Bytes(), []byte("an evaluation failed")) {
		t.Errorf("that nothing is evaluated is said %d times:\n%s", n, &log)
	}
}
