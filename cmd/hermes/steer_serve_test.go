package main

import (
	"bytes"
	"fmt"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"

	"hermes/internal/atropos/servetest"
	"hermes/internal/build"
	"hermes/internal/control"
	"hermes/internal/fakellm"
)

// TestServeSteering pauses and resumes a run that serves and changes its concurrency. Requests
// for single samples are refused, with the reason.
func TestServeSteering(t *testing.T) {
	url := exactModel(t)
	api := servetest.New()
	h := httptest.NewServer(api)
	defer h.Close()
	api.Register(4, 0, 0, -1)
	dir := t.TempDir()
	c := hermes(t, dir, "env", "serve", "procedural", "--api", h.URL, "--group-size", "2", "--model", "fake", "--base-url", url, "--send-scripts",
		"--exact", "--wire", "sglang", "--tokenizer", "builtin:words", "--template", "builtin:chatml", "--max-tokens", "4000", "--max-turns", "4",
		"--equal-scores", "send", "--backend", "local", "--concurrency", "4", "--poll", "2ms", "--run", "s", "--progress", "none")
	var log bytes.Buffer
	c.Stderr = &log
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- c.Wait() }()
	batch := func() { // waits for one
		for {
			ch := api.Changed()
			if api.Batch() != nil {
				return
			}
			select {
			case <-ch:
			case err := <-ended:
				t.Fatalf("it ended: %v\n%s", err, &log)
			}
		}
	}
	batch()
	if st := ctl(t, dir, "s", "pause"); st.State != control.Paused || st.Concurrency != 4 || st.Books.Accepted < 4 {
		t.Errorf("paused: %+v", st)
	}
	until(t, dir, "s", "what was in flight ends", func(st control.Status) bool { return len(st.InFlight) == 0 })
	for api.Batch() != nil { // a trainer that is hungry
	}
	before := ctl(t, dir, "s", "status").Books
	if st := ctl(t, dir, "s", "set", "concurrency=8"); st.State != control.Paused || st.Concurrency != 8 || st.Books.Accepted != before.Accepted ||
		len(st.InFlight) > 0 {
		t.Errorf("set: %+v", st)
	}
	for _, args := range [][]string{{"set", "concurrency=1"}, {"cancel", "x"}, {"requeue", "x"}} {
		out, err := hermes(t, dir, append([]string{"runs", "ctl", "s"}, args...)...).CombinedOutput()
		if err == nil || !strings.Contains(string(out), "group") {
			t.Errorf("%v: %v %s", args, err, out)
		}
	}
	if st := ctl(t, dir, "s", "resume"); st.State != control.Running {
		t.Errorf("resumed: %+v", st)
	}
	batch()
	if st := ctl(t, dir, "s", "status"); st.Books.Accepted <= before.Accepted {
		t.Errorf("nothing was accepted since it resumed: %s", fmt.Sprint(st.Books.Accepted, before.Accepted))
	}
	if err := c.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	<-ended
	if code := c.ProcessState.ExitCode(); code != 143 {
		t.Errorf("exit code %d\n%s", code, &log)
	}
	out, err := hermes(t, dir, "runs", "ctl", "s", "status").CombinedOutput()
	if err == nil || !strings.Contains(string(out), "not running") {
		t.Errorf("after the end: %v %s", err, out)
	}
}

// A policy whose answers are all alike gives nothing to train on: env serve says so and ends.
func TestServeEndsWithoutAnythingToTrainOn(t *testing.T) {
	url := exactModel(t)
	api := servetest.New()
	h := httptest.NewServer(api)
	defer h.Close()
	api.Register(4, 0, 0, -1)
	dir := t.TempDir()
	c := hermes(t, dir, "env", "serve", "procedural", "--api", h.URL, "--group-size", "2", "--model", "fake", "--base-url", url, "--send-scripts",
		"--exact", "--wire", "sglang", "--tokenizer", "builtin:words", "--template", "builtin:chatml", "--max-tokens", "4000", "--max-turns", "4",
		"--max-stale-groups", "6", "--backend", "local", "--concurrency", "4", "--poll", "2ms", "--run", "s", "--progress", "none")
	api.Batch()
	wants(t, c, 4, "no trainer can use the last 6 groups (equal 6)", "--equal-scores send", "--max-stale-groups", "the same command goes on")
	wants(t, hermes(t, dir, "runs", "verify", "s"), 0)
}

// exactModel is the address of a server that takes and gives tokens.
func exactModel(t *testing.T) string {
	t.Helper()
	tok, err := build.LoadTokenizer("builtin:words")
	if err != nil {
		t.Fatal(err)
	}
	fake, err := build.FakeTokens(tok, fakellm.ChatML.End)
	if err != nil {
		t.Fatal(err)
	}
	_, url := server(t, fakellm.Options{Tokenizer: fake})
	return url
}
