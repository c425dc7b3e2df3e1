package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"testing"

	"hermes/internal/app"
	"hermes/internal/atropos/servetest"
	"hermes/internal/fakellm"
)

// trainedBatch is what run-api hands a trainer that acknowledges.
type trainedBatch struct {
	Batch []servetest.Group
	ID    int `json:"batch_id"`
}

// TestPipeline plays training from end to end: run-api, a trainer that acknowledges, and env
// serve, with the address of run-api staying the same. Trainer, run-api and env serve die
// again and again. Every sequence that is trained on is one that the model server has
// sampled, with its masks and log-probs, and none is trained on twice. HERMES_KILLS is how
// often each dies; there are 25 steps to each of them.
func TestPipeline(t *testing.T) {
	kills, _ := strconv.Atoi(os.Getenv("HERMES_KILLS"))
	kills = max(kills, 1)
	steps := 25 * kills
	if kills == 1 {
		steps = 12
	}
	tok, err := app.LoadTokenizer("builtin:words")
	if err != nil {
		t.Fatal(err)
	}
	fake, err := app.FakeTokens(tok, fakellm.ChatML.End)
	if err != nil {
		t.Fatal(err)
	}
	model, base := server(t, fakellm.Options{Tokenizer: fake, KeepTokens: true, Seed: 6, Faults: map[string]float64{fakellm.FaultAbort: 0.1}})
	api := &trajectoryServer{t: t, dir: t.TempDir()}
	api.start()
	defer func() { api.kill() }()
	front := httptest.NewServer(&httputil.ReverseProxy{ErrorLog: nil, Rewrite: func(r *httputil.ProxyRequest) {
		to, err := url.Parse(*api.url.Load())
		if err != nil {
			t.Error(err)
			return
		}
		r.SetURL(to)
	}, ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) }})
	defer front.Close()
	var none struct{}
	api.insist("POST", "/register", `{"wandb_group":"","wandb_project":"","batch_size":4,"max_token_len":0,"checkpoint_dir":"","save_checkpoint_interval":0,"starting_step":0,"num_steps":-1}`, "", &none)
	api.insist("GET", "/batch", "", "", &none) // environments may come

	dir := t.TempDir()
	var serving *exec.Cmd
	var log bytes.Buffer
	ended := make(chan error, 1)
	serve := func() {
		serving = hermes(t, dir, "env", "serve", "procedural", "--api", front.URL, "--group-size", "2", "--model", "fake", "--base-url", base, "--send-scripts",
			"--exact", "--wire", "sglang", "--tokenizer", "builtin:words", "--template", "builtin:chatml", "--max-tokens", "4000", "--max-turns", "4",
			"--set", fmt.Sprintf("size=%d", 10*steps), "--equal-scores", "send", "--backend", "local", "--concurrency", "8", "--poll", "2ms", "--run", "s", "--progress", "none", "--json")
		log.Reset()
		serving.Stderr = &log
		if err := serving.Start(); err != nil {
			t.Fatal(err)
		}
		go func(c *exec.Cmd) { ended <- c.Wait() }(serving)
	}
	stop := func() {
		if err := serving.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		<-ended
	}
	serve()
	defer stop()

	r := rand.New(rand.NewPCG(7, uint64(kills)))
	var all []servetest.Group
	batches := map[int]bool{}
	query := "/batch?holder=trainer"
	for step := 0; step < steps; {
		select {
		case err := <-ended:
			t.Fatalf("env serve ended at step %d: %v\n%s", step, err, &log)
		default:
		}
		var b trainedBatch
		if err := api.call("GET", query, "", "", &b); err != nil || len(b.Batch) == 0 {
			continue
		}
		if batches[b.ID] {
			t.Fatalf("batch %d was acknowledged and came again", b.ID)
		}
		batches[b.ID], all = true, append(all, b.Batch...)
		query = fmt.Sprint("/batch?holder=trainer&ack=", b.ID)
		step++
		if step%max(1, steps/kills/3) != 0 {
			continue
		}
		switch who := r.IntN(3); who {
		case 0: // the trainer dies before it has read the whole batch; the next one bears its name
			query = die(t, *api.url.Load()+query, query)
		case 1:
			api.kill()
			api.start()
		case 2:
			stop()
			serve()
		}
	}

	truth, used := judged(model), map[string]int{}
	for _, g := range all {
		for i, tokens := range g.Tokens {
			text := fmt.Sprint(tokens)
			used[text]++
			if !slices.ContainsFunc(truth[text], func(want trainee) bool { return want.is(tokens, g.Masks[i], g.InferenceLogprobs[i]) }) {
				t.Errorf("a sequence of %d tokens that is none of %d with these tokens that the model server has seen", len(tokens), len(truth[text]))
			}
			if used[text] > len(truth[text]) {
				t.Errorf("a conversation of %d tokens was sampled %d times and trained on %d times", len(tokens), len(truth[text]), used[text])
			}
		}
	}
	if len(all) != 2*steps {
		t.Errorf("%d groups in %d batches", len(all), steps)
	}
}

// die asks for a batch, reads a little of it and goes away. What it acknowledged with its
// question holds; the batch that it was given comes again.
func die(t *testing.T, address, query string) string {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return query
	}
	defer resp.Body.Close()
	if _, err := io.ReadFull(resp.Body, make([]byte, 10)); err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Error(err)
	}
	return "/batch?holder=trainer"
}
