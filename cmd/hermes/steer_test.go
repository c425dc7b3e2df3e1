package main

import (
	"bytes"
	"encoding/json"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"hermes/internal/control"
	"hermes/internal/fakellm"
	"hermes/rollout/runs"
)

// gate lets requests through to a model server while it is open.
type gate struct {
	mu   sync.Mutex
	open chan struct{} // closed while the gate is open
	next http.Handler
}

func (g *gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodPost {
		g.mu.Lock()
		open := g.open
		g.mu.Unlock()
		select {
		case <-open:
		case <-r.Context().Done():
			return
		}
	}
	g.next.ServeHTTP(w, r)
}

func (g *gate) set(open bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	select {
	case <-g.open:
		if !open {
			g.open = make(chan struct{})
		}
	default:
		if open {
			close(g.open)
		}
	}
}

// ctl runs `hermes runs ctl` and returns the status of the run.
func ctl(t *testing.T, dir, run string, args ...string) control.Status {
	t.Helper()
	c := hermes(t, dir, append([]string{"runs", "ctl", run, "--json"}, args...)...)
	var stderr bytes.Buffer
	c.Stderr = &stderr
	out, err := c.Output()
	if err != nil {
		t.Fatalf("runs ctl %v: %v\n%s", args, err, &stderr)
	}
	var st control.Status
	var a control.Answer
	if args[0] == "status" {
		err = json.Unmarshal(out, &st)
	} else if err = json.Unmarshal(out, &a); a.Status != nil {
		st = *a.Status
	}
	if err != nil || st.PID == 0 {
		t.Fatalf("runs ctl %v: %v in %s", args, err, out)
	}
	return st
}

// until asks again and again until the run is as wanted.
func until(t *testing.T, dir, run, what string, ok func(control.Status) bool) control.Status {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		st := ctl(t, dir, run, "status")
		if ok(st) {
			return st
		}
		select {
		case <-tick.C:
		case <-t.Context().Done():
			t.Fatalf("%s: %+v", what, st)
		}
	}
}

func ids(st control.Status) (list []string) {
	for _, f := range st.InFlight {
		list = append(list, f.ID)
	}
	slices.Sort(list)
	return list
}

// TestSteering steers a detached run from other processes.
func TestSteering(t *testing.T) {
	dir := t.TempDir()
	_, model := server(t, fakellm.Options{})
	back, err := url.Parse(strings.TrimSuffix(model, "/v1"))
	if err != nil {
		t.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(back)
	proxy.ErrorLog = log.New(io.Discard, "", 0) // cancelled requests are meant to be
	g := &gate{open: make(chan struct{}), next: proxy}
	front := httptest.NewServer(g)
	t.Cleanup(front.Close)
	t.Cleanup(func() { g.set(true) })
	args := []string{"batch", tasks(t, dir, 6), "--run", "r", "--model", "fake", "--base-url", front.URL + "/v1", "--send-scripts",
		"--concurrency", "2", "--backend", boxesHere(), "--max-turns", "20"}

	// A usage error is reported as without --detach, and leaves nothing behind.
	bad := hermes(t, dir, append(args, "--detach", "--accept", "nonsense ==")...)
	if out, _ := bad.CombinedOutput(); bad.ProcessState.ExitCode() != 2 || !bytes.Contains(out, []byte("nonsense")) {
		t.Errorf("exit code %d, want 2: %s", bad.ProcessState.ExitCode(), out)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "runs", ".*")); len(left) > 0 {
		t.Errorf("%v is left", left)
	}

	out, err := hermes(t, dir, append(args, "--detach")...).CombinedOutput()
	if err != nil || !bytes.Contains(out, []byte("hermes runs ctl runs/r status")) {
		t.Fatalf("%v: %s", err, out)
	}
	pid := ctl(t, dir, "r", "status").PID
	t.Cleanup(func() {
		if !t.Failed() {
			return
		}
		if p, err := os.FindProcess(pid); err == nil { // it is not left behind by a failing test
			p.Kill()
		}
	})
	until(t, dir, "r", "two in flight", func(st control.Status) bool {
		return slices.Equal(ids(st), []string{"task-0", "task-1"}) && st.State == control.Running && st.Books.Planned == 6
	})
	again := hermes(t, dir, append(args, "--detach")...)
	if out, _ := again.CombinedOutput(); again.ProcessState.ExitCode() != 2 || !bytes.Contains(out, []byte("in use")) {
		t.Errorf("a second process: exit code %d, want 2: %s", again.ProcessState.ExitCode(), out)
	}

	ctl(t, dir, "r", "cancel", "task-0")
	until(t, dir, "r", "task-0 cancelled", func(st control.Status) bool {
		return st.Cancelled == 1 && slices.Equal(ids(st), []string{"task-1", "task-2"})
	})
	refused := hermes(t, dir, "runs", "ctl", "r", "cancel", "task-0")
	if out, _ := refused.CombinedOutput(); refused.ProcessState.ExitCode() != 2 || !bytes.Contains(out, []byte("no such sample is in flight")) {
		t.Errorf("cancel what is not in flight: exit code %d: %s", refused.ProcessState.ExitCode(), out)
	}

	if st := ctl(t, dir, "r", "pause"); st.State != control.Paused {
		t.Errorf("%+v after pause", st)
	}
	g.set(true)
	until(t, dir, "r", "nothing in flight", func(st control.Status) bool { return len(st.InFlight) == 0 && st.Books.Accepted == 2 })
	g.set(false)
	if st := ctl(t, dir, "r", "set", "concurrency=3"); st.Concurrency != 3 || len(st.InFlight) != 0 {
		t.Errorf("%+v after set, still paused", st)
	}
	ctl(t, dir, "r", "resume")
	until(t, dir, "r", "three in flight", func(st control.Status) bool { return len(st.InFlight) == 3 })
	ctl(t, dir, "r", "requeue", "task-0/0")
	g.set(true)

	run := filepath.Join(dir, "runs", "r")
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for _, err := os.Stat(filepath.Join(run, "report.md")); err != nil; _, err = os.Stat(filepath.Join(run, "report.md")) {
		select {
		case <-tick.C:
		case <-t.Context().Done():
			t.Fatal("the run does not end")
		}
	}
	eachOnce(t, filepath.Join(run, "trajectories.jsonl"), 6)
	if _, err := runs.Verify(t.Context(), run); err != nil {
		t.Error(err)
	}
	if log, err := os.ReadFile(filepath.Join(run, "hermes.log")); err != nil || len(log) == 0 {
		t.Errorf("the log of the run: %q, %v", log, err)
	}
	over := hermes(t, dir, "runs", "ctl", "r", "status")
	if out, _ := over.CombinedOutput(); over.ProcessState.ExitCode() != 2 || !bytes.Contains(out, []byte("the run is not running")) {
		t.Errorf("exit code %d, want 2: %s", over.ProcessState.ExitCode(), out)
	}
}

// TestStatusSaysWhatWaits: a run whose server refuses says so, while it waits.
func TestStatusSaysWhatWaits(t *testing.T) {
	_, base := server(t, fakellm.Options{})
	target, err := url.Parse(strings.TrimSuffix(base, "/v1"))
	if err != nil {
		t.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(target)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		proxy.ServeHTTP(w, r)
	}))
	defer s.Close()
	dir := t.TempDir()
	c := hermes(t, dir, "batch", tasks(t, dir, 3), "--run", "waits", "--model", "fake", "--base-url",
		s.URL+"/v1", "--backend", "local", "--toolsets", "terminal", "--progress", "none")
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	defer c.Wait()
	defer c.Process.Kill()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	want := "before another try wait 3 (unavailable, status 503), the longest "
	last := ""
	for limit := time.Now().Add(3 * time.Minute); time.Now().Before(limit); <-tick.C {
		out, err := hermes(t, dir, "runs", "ctl", "waits", "status").CombinedOutput()
		last = string(out)
		if err == nil && strings.Contains(last, want) {
			return
		}
	}
	t.Errorf("%q is not said:\n%s", want, last)
}
