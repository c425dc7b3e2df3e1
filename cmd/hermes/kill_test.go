package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"hermes/backends"
	"hermes/backends/namespace"
	"hermes/backends/namespace/driver"
	"hermes/internal/build"
	"hermes/internal/fakellm"
	"hermes/rollout/journal"
	"hermes/rollout/runs"
	"hermes/trajectory"
)

// server starts a scripted model server that keeps its log.
func server(t *testing.T, o fakellm.Options) (*fakellm.Server, string) {
	t.Helper()
	o.Record = true
	s, err := fakellm.New(o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	running, err := s.Listen(ctx, "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		stop()
		if err := running.Wait(); err != nil {
			t.Error(err)
		}
	})
	return s, running.URL + "/v1"
}

// hermes is this test binary standing in for the program.
func hermes(t *testing.T, dir string, args ...string) *exec.Cmd {
	t.Helper()
	c := exec.Command(os.Args[0], args...)
	c.Args[0], c.Dir = "hermes", dir
	c.Env = append(os.Environ(), "HERMES_HOME="+filepath.Join(dir, "home"))
	return c
}

// boxesHere is the isolated back-end where the kernel lets us, else local: what these
// tests prove about logs and books does not depend on it.
var boxesHere = sync.OnceValue(func() string {
	b, err := driver.Open(context.Background(), namespace.Config{})
	if errors.Is(err, backends.ErrUnavailable) {
		fmt.Fprintln(os.Stderr, "tests use the back-end local:", err)
		return "local"
	}
	if err != nil {
		panic(err) // a back-end that is broken must not pass for one that is missing
	}
	if err := b.Close(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "close:", err)
	}
	return namespace.Name
})

// tasks writes n rows and returns the file's name.
func tasks(t *testing.T, dir string, n int) string {
	t.Helper()
	var b bytes.Buffer
	for i := range n {
		fmt.Fprintf(&b, `{"id":"task-%d","prompt":"Look around and report, task number %d.","hermes":{"files":{"note.txt":"number %d\n"}}}`+"\n", i, i, i)
	}
	name := filepath.Join(dir, "tasks.jsonl")
	if err := os.WriteFile(name, b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	return name
}

// bought counts the complete answers of every conversation by turn.
func bought(entries []fakellm.Entry) map[string]map[int]int {
	out := map[string]map[int]int{}
	for _, e := range entries {
		if e.Conversation == "" || !e.Complete {
			continue
		}
		if out[e.Conversation] == nil {
			out[e.Conversation] = map[int]int{}
		}
		out[e.Conversation][e.Turn]++
	}
	return out
}

// stored counts the answers that the journal holds for each sample that is not finished,
// and marks finished ones with -1.
func stored(t *testing.T, run string) map[string]int {
	t.Helper()
	out := map[string]int{}
	if _, err := os.Stat(filepath.Join(run, "run.yaml")); err != nil {
		return out // killed before the run began
	}
	j, err := journal.Open(filepath.Join(run, "journal"), journal.Options{ReadOnly: true})
	if err != nil {
		t.Fatalf("the journal after a kill: %v", err)
	}
	defer j.Close()
	if err := j.Verify(t.Context()); err != nil {
		t.Fatalf("the journal after a kill: %v", err)
	}
	for i := range 1000 {
		k := trajectory.NewKey(fmt.Sprintf("task-%d", i), 0, 0, 0)
		if j.Done(k) {
			out[k.String()] = -1
			continue
		}
		for _, err := range j.Turns(k) {
			if err != nil {
				t.Fatal(err)
			}
			out[k.String()]++
		}
	}
	return out
}

// TestKills kills hermes again and again in the middle of its work. Nothing is lost or
// doubled, and no answer that was stored is asked for again: the server's own log is the
// judge. HERMES_KILLS is the number of kills.
func TestKills(t *testing.T) {
	kills, _ := strconv.Atoi(os.Getenv("HERMES_KILLS"))
	killed(t, max(kills, 4), fakellm.Options{})
}

// TestKillsExact does the same to a run with exact tokens.
func TestKillsExact(t *testing.T) {
	kills, _ := strconv.Atoi(os.Getenv("HERMES_KILLS"))
	tok, err := build.LoadTokenizer("builtin:words")
	if err != nil {
		t.Fatal(err)
	}
	fake, err := build.FakeTokens(tok, fakellm.ChatML.End)
	if err != nil {
		t.Fatal(err)
	}
	killed(t, max(kills/4, 3), fakellm.Options{Tokenizer: fake}, "--exact", "--wire", "sglang", "--tokenizer", "builtin:words",
		"--template", "builtin:chatml", "--max-tokens", "4000", "--parquet")
}

func killed(t *testing.T, kills int, o fakellm.Options, more ...string) {
	n := 12 * kills
	dir := t.TempDir()
	o.Latency = fakellm.Latency{Median: 15 * time.Millisecond, Sigma: 0.5}
	s, url := server(t, o)
	name := tasks(t, dir, n)
	args := append([]string{"batch", name, "--run", "killed", "--model", "fake", "--base-url", url, "--send-scripts",
		"--concurrency", "8", "--backend", boxesHere(), "--progress", "none", "--max-turns", "20"}, more...)
	run := filepath.Join(dir, "runs", "killed")
	r := rand.New(rand.NewPCG(7, uint64(kills)))
	done := 0
	for ; done < kills; done++ {
		before := len(s.Entries())
		c := hermes(t, dir, args...)
		var out bytes.Buffer
		c.Stderr = &out
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- c.Wait() }()
		want := before + 5 + r.IntN(60)
		if over := waitFor(s, want, ended); over {
			break // it finished before it could be killed
		}
		c.Process.Kill()
		<-ended
		had := stored(t, run)
		mark := len(s.Entries())
		t.Cleanup(func() { checkNotBoughtAgain(t, s.Entries()[mark:], had) })
	}
	if out, err := hermes(t, dir, append(args, "--json")...).CombinedOutput(); err != nil {
		t.Fatalf("the last start: %v\n%s", err, out)
	}
	if done < kills/2 {
		t.Fatalf("only %d of %d kills happened before the run was over", done, kills)
	}
	eachOnce(t, filepath.Join(run, "trajectories.jsonl"), n)
	if _, err := runs.Verify(t.Context(), run); err != nil {
		t.Errorf("runs verify: %v", err)
	}
	again := 0
	for _, turns := range bought(s.Entries()) {
		for _, n := range turns {
			again += n - 1
		}
	}
	t.Logf("%d kills, %d rollouts, %d requests, %d answers bought twice (in flight when we killed)", done, n, len(s.Entries()), again)
}

// waitFor waits until the server has answered want requests. It returns true when the
// process ended first.
func waitFor(s *fakellm.Server, want int, ended <-chan error) bool {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ended:
			return true
		case <-tick.C:
			if s.Stats().Requests >= int64(want) {
				return false
			}
		}
	}
}

// checkNotBoughtAgain objects to requests for what the journal held already.
func checkNotBoughtAgain(t *testing.T, later []fakellm.Entry, had map[string]int) {
	for _, e := range later {
		if n := had[e.Conversation]; n < 0 || e.Turn < n {
			t.Errorf("turn %d of %s was asked for again; the journal held %d turns of it (-1: all)", e.Turn, e.Conversation, n)
		}
	}
}

// eachOnce checks that a file of trajectories holds each of n tasks exactly once.
func eachOnce(t *testing.T, name string, n int) {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	seen := map[string]int{}
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		var row struct {
			ID string `json:"id"`
		}
		if err := json.Unmarshal(lines.Bytes(), &row); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		seen[row.ID]++
	}
	for i := range n {
		if c := seen[fmt.Sprintf("task-%d", i)]; c != 1 {
			t.Errorf("task-%d is %d times in %s", i, c, filepath.Base(name))
		}
	}
	if len(seen) != n {
		t.Errorf("%d different tasks, want %d", len(seen), n)
	}
}

// TestChaos runs under faults of the model server: the books balance, and no fault
// becomes a reward or leaves a gap.
func TestChaos(t *testing.T) {
	dir := t.TempDir()
	faults := map[string]float64{}
	for _, f := range []string{"429", "500", "502", "503", "reset", "truncated_json", "invalid_json", "error_in_200", "finish_error", "stream_cut"} {
		faults[f] = 0.02
	}
	s, url := server(t, fakellm.Options{Faults: faults, Seed: 3})
	name := tasks(t, dir, 60)
	c := hermes(t, dir, "batch", name, "--run", "chaos", "--model", "fake", "--base-url", url, "--send-scripts", "--concurrency", "16",
		"--backend", boxesHere(), "--progress", "none", "--request-retries", "1", "--retries", "0", "--stop-after-failures", "0", "--fail-on-error", "1.0", "--json", "--max-turns", "20")
	out, err := c.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	var books struct {
		Planned, Accepted, Pending int
		Rejected, Failed           map[string]int
	}
	if err := json.Unmarshal(out, &books); err != nil {
		t.Fatalf("%v in %s", err, out)
	}
	sum := books.Accepted + books.Pending
	for _, m := range []map[string]int{books.Rejected, books.Failed} {
		for _, n := range m {
			sum += n
		}
	}
	if books.Planned != 60 || sum != 60 || books.Pending != 0 {
		t.Errorf("the books do not balance: %s", out)
	}
	if books.Accepted < 30 || books.Failed["internal"] > 0 || books.Failed["sandbox"] > 0 || books.Failed["environment"] > 0 {
		t.Errorf("faults of the model server entered other books: %s", out)
	}
	raw, err := os.ReadFile(filepath.Join(dir, "runs", "chaos", "failed_trajectories.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(raw)) {
		var row struct {
			Outcome string
			Reward  *float64
		}
		if err := json.Unmarshal([]byte(line), &row); err != nil || row.Outcome == "provider" && row.Reward != nil {
			t.Errorf("a failure has a reward (%v): %.200s", err, line)
		}
	}
	if _, err := runs.Verify(t.Context(), filepath.Join(dir, "runs", "chaos")); err != nil {
		t.Errorf("runs verify: %v", err)
	}
	// Started again without patience for failures, it asks nothing and says so by its code;
	// --retry-failed tries the failed ones again.
	if books.Failed["provider"] == 0 {
		t.Fatal("no sample failed: the faults are too rare for this test")
	}
	args := c.Args[1:]
	for i, a := range args {
		if a == "--fail-on-error" {
			args = append(args[:i:i], args[i+2:]...)
			break
		}
	}
	asked := s.Stats().Requests
	again := hermes(t, dir, args...)
	if out, _ := again.CombinedOutput(); again.ProcessState.ExitCode() != 3 || s.Stats().Requests != asked {
		t.Errorf("exit code %d after %d more requests, want 3 after none:\n%s", again.ProcessState.ExitCode(), s.Stats().Requests-asked, out)
	}
	if out, err := hermes(t, dir, append(args, "--retry-failed", "--retries", "9", "--request-retries", "9")...).CombinedOutput(); err != nil {
		t.Errorf("--retry-failed: %v\n%s", err, out)
	}
	eachOnce(t, filepath.Join(dir, "runs", "chaos", "trajectories.jsonl"), 60)
}

// TestSameRequestsWhereverTheRunLies: seed and rows decide what is asked, not names.
func TestSameRequestsWhereverTheRunLies(t *testing.T) {
	var digests [2]map[string]int
	for i, run := range []string{"one", "another"} {
		dir := t.TempDir()
		s, url := server(t, fakellm.Options{})
		args := []string{"batch", tasks(t, dir, 10), "--run", run, "--out", "out-" + run, "--model", "fake", "--base-url", url, "--send-scripts",
			"--backend", boxesHere(), "--progress", "none", "--max-turns", "20", "--rollouts", "2", "--seed", "5"}
		if out, err := hermes(t, dir, args...).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		digests[i] = map[string]int{}
		for _, e := range s.Entries() {
			digests[i][e.Digest]++
		}
	}
	if len(digests[0]) < 40 {
		t.Fatalf("only %d requests", len(digests[0]))
	}
	for d, n := range digests[0] {
		if digests[1][d] != n {
			t.Errorf("request %s was sent %d times, then %d times", d, n, digests[1][d])
		}
	}
}

// TestInterrupt: the first signal lets what runs finish, the second does not; both leave a
// run that the same command completes.
func TestInterrupt(t *testing.T) {
	for _, signals := range []int{1, 2} {
		t.Run(strconv.Itoa(signals), func(t *testing.T) {
			dir := t.TempDir()
			latency := 20 * time.Millisecond
			s, url := server(t, fakellm.Options{Latency: fakellm.Latency{Fixed: latency}})
			args := []string{"batch", tasks(t, dir, 40), "--run", "stopped", "--model", "fake", "--base-url", url, "--send-scripts",
				"--concurrency", "4", "--backend", boxesHere(), "--progress", "none", "--max-turns", "20"}
			c := hermes(t, dir, args...)
			var said bytes.Buffer
			c.Stderr = &said
			if err := c.Start(); err != nil {
				t.Fatal(err)
			}
			ended := make(chan error, 1)
			go func() { ended <- c.Wait() }()
			if waitFor(s, 20, ended) {
				t.Fatalf("it ended by itself:\n%s", said.Bytes())
			}
			for range signals {
				if err := c.Process.Signal(os.Interrupt); err != nil {
					t.Fatal(err)
				}
			}
			<-ended
			if code := c.ProcessState.ExitCode(); code != 130 {
				t.Errorf("exit code %d, want 130:\n%s", code, said.Bytes())
			}
			if out, err := hermes(t, dir, args...).CombinedOutput(); err != nil {
				t.Fatalf("the second start: %v\n%s", err, out)
			}
			eachOnce(t, filepath.Join(dir, "runs", "stopped", "trajectories.jsonl"), 40)
		})
	}
}

// TestSecondProcess: a run directory belongs to one process at a time.
func TestSecondProcess(t *testing.T) {
	dir := t.TempDir()
	s, url := server(t, fakellm.Options{Latency: fakellm.Latency{Fixed: 50 * time.Millisecond}})
	args := []string{"batch", tasks(t, dir, 200), "--run", "one", "--model", "fake", "--base-url", url, "--concurrency", "2",
		"--backend", "local", "--progress", "none"}
	c := hermes(t, dir, args...)
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- c.Wait() }()
	if waitFor(s, 4, ended) {
		t.Fatal("it ended by itself")
	}
	second := hermes(t, dir, args...)
	out, err := second.CombinedOutput()
	if err == nil || second.ProcessState.ExitCode() != 2 || !bytes.Contains(out, []byte(strconv.Itoa(c.Process.Pid))) {
		t.Errorf("the second process: %v, %s", err, out)
	}
	c.Process.Kill()
	<-ended
}
