package main

import (
	"bytes"
	"context"
	"encoding/json"
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
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"hermes/internal/atropos/servetest"
	"hermes/internal/build"
	"hermes/internal/fakellm"
)

// trainedBatch is what run-api hands a trainer that acknowledges.
type trainedBatch struct {
	Batch []servetest.Group
	ID    int `json:"batch_id"`
}

// pipelineRows is how many rows the environment has: fewer than there are groups, so that
// they come again, epoch after epoch in another order, and more than are in flight at once.
const pipelineRows = 6

// TestPipeline plays training from end to end: run-api, a trainer that acknowledges, and env
// serve, with the address of run-api staying the same. Trainer, run-api and env serve die
// in a random order, each of them HERMES_KILLS times. Every sequence that is trained on is
// one that the model server has sampled, with its masks, its log-probs and the versions of
// the weights, which are others at each step; none is trained on twice, no row comes twice
// in an epoch, and none is left out. There are 25 steps to each death of a kind.
func TestPipeline(t *testing.T) {
	kills, _ := strconv.Atoi(os.Getenv("HERMES_KILLS"))
	kills = max(kills, 1)
	steps := 25 * kills
	if kills == 1 {
		steps = 12
	}
	tok, err := build.LoadTokenizer("builtin:words")
	if err != nil {
		t.Fatal(err)
	}
	fake, err := build.FakeTokens(tok, fakellm.ChatML.End)
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
	api.insist("POST", "/register", `{"wandb_group":"","wandb_project":"","batch_size":4,"max_token_len":0,"checkpoint_dir":"","save_checkpoint_interval":0,"starting_step":0,"num_steps":-1}`,
		"", &none)
	api.insist("GET", "/batch", "", "", &none) // environments may come

	dir := t.TempDir()
	var serving *exec.Cmd
	var log bytes.Buffer
	ended := make(chan error, 1)
	serve := func() {
		serving = hermes(t, dir, "env", "serve", "procedural", "--api", front.URL, "--group-size", "2", "--model", "fake", "--base-url", base, "--send-scripts",
			"--exact", "--wire", "sglang", "--tokenizer", "builtin:words", "--template", "builtin:chatml", "--max-tokens", "4000", "--max-turns", "4",
			"--set", fmt.Sprint("size=",
				pipelineRows), "--shuffle", "--equal-scores", "send", "--backend", "local", "--concurrency", "4", "--poll", "2ms", "--run", "s", "--progress", "none", "--json")
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
	defer func() {
		if serving != nil {
			stop()
		}
	}()

	r := rand.New(rand.NewPCG(7, uint64(kills)))
	victims := slices.Repeat([]string{"trainer", "run-api", "env serve"}, kills)
	r.Shuffle(len(victims), func(i, j int) { victims[i], victims[j] = victims[j], victims[i] })
	every := steps / (len(victims) + 1)
	died := map[string]int{}
	var all []servetest.Group
	batches := map[int]bool{}
	const question = "/batch?holder=trainer"
	query := question
	fatal := false
	untrained := 0
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
		if fatal { // the trainer dies with a batch that it has read and not trained on
			fatal = false
			untrained = b.ID
			query = question
			continue
		}
		if untrained != 0 && b.ID != untrained {
			t.Fatalf("batch %d comes after a trainer died with batch %d", b.ID, untrained)
		}
		untrained = 0
		batches[b.ID], all = true, append(all, b.Batch...)
		query = fmt.Sprint(question, "&ack=", b.ID)
		step++
		model.SetVersion(fmt.Sprint("step ", step))
		if step%every != 0 || len(victims) == 0 {
			continue
		}
		who := victims[0]
		victims = victims[1:]
		died[who]++
		switch who {
		case "trainer": // before or after it has read the whole batch; the next one bears its name
			fatal = r.IntN(2) == 0
			if !fatal {
				query = die(t, *api.url.Load()+query, query)
			}
		case "run-api":
			api.kill()
			api.start()
		case "env serve":
			stop()
			serve()
		}
	}
	for who, n := range map[string]int{"trainer": kills, "run-api": kills, "env serve": kills} {
		if died[who] != n {
			t.Errorf("%s died %d times, want %d", who, died[who], n)
		}
	}

	if len(all) != 2*steps {
		t.Errorf("%d groups in %d batches", len(all), steps)
	}
	// A drain: a sample that waits to be tried again is under way for longer than others take
	// for an epoch.
	if err := serving.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	<-ended
	serving = nil
	judge := newEpochs(t, judged(model))
	judge.unfinished(filepath.Join(dir, "runs", "s", "served.jsonl"))
	for _, g := range all {
		judge.take(g)
	}
	for { // what is queued still
		var b trainedBatch
		if api.insist("GET", query, "", "", &b); len(b.Batch) == 0 {
			break
		}
		for _, g := range b.Batch {
			judge.take(g)
		}
		query = fmt.Sprint(question, "&ack=", b.ID)
	}
	judge.end()
}

// epochs holds groups against what the model server has sampled, and against the rows.
type epochs struct {
	t         *testing.T
	truth     map[string][]trainee // what was not taken yet
	sequences int
	rows      map[int]map[string]int // groups by epoch and row
	open      map[int]int            // rows by epoch that were begun and not sent
}

func newEpochs(t *testing.T, truth map[string][]trainee) *epochs {
	return &epochs{t: t, truth: truth, rows: map[int]map[string]int{}, open: map[int]int{}}
}

// unfinished reads which rows were under way when the last start was asked to end. A sample
// that is tried again takes longer than others for many epochs.
func (e *epochs) unfinished(name string) {
	raw, err := os.ReadFile(name)
	if err != nil {
		e.t.Fatal(err)
	}
	for line := range strings.Lines(string(raw)) {
		var l struct {
			At     [2]int
			Result string
		}
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			e.t.Fatal(err)
		}
		if l.Result == "unfinished" {
			e.open[l.At[0]]++
		}
	}
}

func (e *epochs) take(g servetest.Group) {
	for i, tokens := range g.Tokens {
		s, text := sequenceOf(e.t, g, i), fmt.Sprint(tokens)
		at := slices.IndexFunc(e.truth[text], func(want trainee) bool { return want.wrote(s) })
		if at < 0 {
			e.t.Errorf("a sequence of %d tokens, sampled by %v, that is none of %d conversations with these tokens that the model server has had, or has come already",
				len(tokens), s.versions, len(e.truth[text]))
			continue
		}
		e.truth[text] = slices.Delete(e.truth[text], at, at+1)
		e.sequences++
	}
	row, _ := g.GroupOverrides["row"].(string)
	epoch, ok := g.GroupOverrides["epoch"].(float64)
	if !ok || row == "" {
		e.t.Fatalf("a group says nothing of its row: %v", g.GroupOverrides)
	}
	if e.rows[int(epoch)] == nil {
		e.rows[int(epoch)] = map[string]int{}
	}
	e.rows[int(epoch)][row]++
}

// end looks at all epochs: in none a row occurs twice, and in those before the last two all
// rows stand that were not under way still.
func (e *epochs) end() {
	last := len(e.rows) - 1
	for epoch := range len(e.rows) {
		rows := e.rows[epoch]
		for row, n := range rows {
			if n != 1 {
				e.t.Errorf("row %s came %d times in epoch %d", row, n, epoch)
			}
		}
		if want := pipelineRows - e.open[epoch]; epoch < last-1 && len(rows) != want {
			e.t.Errorf("epoch %d of %d has %d rows, want %d", epoch, last, len(rows), want)
		}
	}
	if last < 2 {
		e.t.Errorf("%d epochs: no row was repeated for long", last+1)
	}
	e.t.Logf("%d sequences that the model server has sampled, in %d epochs", e.sequences, last+1)
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
