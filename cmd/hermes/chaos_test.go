package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"hermes/backends/namespace"
	"hermes/internal/fakellm"
	"hermes/rollout/runs"
	"hermes/trajectory/stats"
)

// TestEverythingBreaks: one run under 20 % faults of the model server, with a box killed in
// mid-command and a disk that fills up. The books balance at every end, no fault becomes a
// reward, and once there is room the same command finishes what is left.
func TestEverythingBreaks(t *testing.T) {
	disk, _ := smallDisk(t, 64<<20)
	dir := t.TempDir()
	faults := map[string]float64{}
	for _, f := range []string{"429", "500", "502", "503", "reset", "truncated_json", "invalid_json", "error_in_200", "finish_error", "stream_cut"} {
		faults[f] = 0.02
	}
	s, url := server(t, fakellm.Options{Faults: faults, Seed: 5, Latency: fakellm.Latency{Fixed: 5 * time.Millisecond}})
	const n = 80
	name := chaosTasks(t, dir, n)
	backend := boxesHere()
	args := []string{"batch", name, "--run", "chaos", "--out", filepath.Join(disk, "runs"), "--model", "fake", "--base-url", url, "--send-scripts",
		"--concurrency", "24", "--backend", backend, "--progress", "none", "--request-retries", "2", "--retries", "3",
		"--stop-after-failures", "0", "--fail-on-error", "1.0", "--json", "--max-turns", "20", "--keep", "all"}
	run := filepath.Join(disk, "runs", "chaos")

	c := hermes(t, dir, args...)
	var out, said bytes.Buffer
	c.Stdout, c.Stderr = &out, &said
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- c.Wait() }()
	if waitFor(s, 6, ended) { // what is killed before is a box in which tools are tried out
		t.Fatalf("it ended at once:\n%s", said.Bytes())
	}
	if backend == namespace.Name {
		killBox(t, c.Process.Pid, ended)
	}
	if waitFor(s, len(s.Entries())+40, ended) {
		t.Fatalf("it ended before the disk was full:\n%s", said.Bytes())
	}
	filler := filepath.Join(disk, "filler")
	fill(t, filler)
	<-ended
	if code := c.ProcessState.ExitCode(); code != 1 {
		t.Errorf("exit code %d with a full disk, want 1", code)
	}
	if text := said.String(); !strings.Contains(text, "the disk is full") || !strings.Contains(text, "make room, and the same command resumes") {
		t.Errorf("a full disk is reported as\n%s", text)
	}
	first := balanced(t, out.Bytes(), n)
	if first.Pending == 0 || first.Failed["sandbox"]+first.Failed["internal"]+first.Failed["environment"] > 0 {
		t.Errorf("books with a full disk: %s", out.Bytes())
	}

	// Still full: not a step further, and nothing lost.
	c = hermes(t, dir, args...)
	said.Reset()
	c.Stderr = &said
	still, err := c.Output()
	if c.ProcessState.ExitCode() != 1 || !strings.Contains(said.String(), "the disk is full") && !strings.Contains(said.String(), "no space left") {
		t.Errorf("started on a full disk: %v\n%s", err, said.Bytes())
	}
	if len(still) > 0 {
		if b := balanced(t, still, n); b.Accepted < first.Accepted {
			t.Errorf("%d accepted, were %d", b.Accepted, first.Accepted)
		}
	}

	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	c = hermes(t, dir, args...)
	said.Reset()
	c.Stderr = &said
	last, err := c.Output()
	if err != nil {
		t.Fatalf("after room was made: %v\n%s", err, said.Bytes())
	}
	b := balanced(t, last, n)
	if b.Pending != 0 || b.Failed["sandbox"]+b.Failed["internal"]+b.Failed["environment"] > 0 || b.Accepted < n/2 || b.Scored != b.Accepted {
		t.Errorf("books at the end: %s", last)
	}
	if backend == namespace.Name && b.Causes["box_lost"] == 0 {
		t.Errorf("the killed box left no trace: %s", last)
	}
	judge(t, run, n)
	v, err := runs.Verify(t.Context(), run)
	if err != nil || v.Stale {
		t.Errorf("runs verify: %+v, %v", v, err)
	}
	t.Logf("%d requests; %d accepted, %d failed.provider, %d attempts, causes %v", s.Stats().Requests, b.Accepted, b.Failed["provider"], b.Attempts, b.Causes)
}

// chaosTasks writes n rows that are judged by a checker; the first ones keep their box busy
// for a while.
func chaosTasks(t *testing.T, dir string, n int) string {
	t.Helper()
	var b bytes.Buffer
	for i := range n {
		command := "cat note.txt >copy.txt"
		if i < 12 {
			command += "; sleep 1"
		}
		fmt.Fprintf(&b, `{"id":"task-%d","prompt":"Copy the note, task number %d.","checker":"cmp note.txt copy.txt","hermes":{"files":{"note.txt":"number %d\n"},`+
			`"script":[{"calls":[{"name":"terminal","arguments":{"command":%q}}]},{"calls":[{"name":"read_file","arguments":{"path":"copy.txt"}}]},{"content":"done"}]}}`+"\n", i, i, i, command)
	}
	name := filepath.Join(dir, "tasks.jsonl")
	if err := os.WriteFile(name, b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	return name
}

// killBox kills a box in which a command runs.
func killBox(t *testing.T, hermes int, ended <-chan error) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ended:
			t.Fatal("it ended before a box could be killed")
		case <-tick.C:
			if pid := busyBox(hermes); pid > 0 {
				p, err := os.FindProcess(pid)
				if err == nil {
					err = p.Kill()
				}
				if err != nil {
					t.Fatalf("kill a box: %v", err)
				}
				return
			}
		}
	}
}

// balanced reads the books that a command printed and adds them up.
func balanced(t *testing.T, out []byte, planned int64) stats.Statistics {
	t.Helper()
	var s stats.Statistics
	if err := json.Unmarshal(out, &s); err != nil {
		t.Fatalf("books: %v in %q", err, out)
	}
	sum := s.Accepted + s.Pending
	for _, m := range []map[string]int64{s.Rejected, s.Failed} {
		for _, n := range m {
			sum += n
		}
	}
	if s.Planned != planned || sum != planned {
		t.Errorf("the books do not balance: %s", out)
	}
	return s
}

// judge looks for every task exactly once in the files of a run, with a reward where it was
// judged and none where it failed.
func judge(t *testing.T, run string, n int) {
	t.Helper()
	seen := map[string]int{}
	for _, name := range []string{"trajectories.jsonl", "failed_trajectories.jsonl"} {
		raw, err := os.ReadFile(filepath.Join(run, name))
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(raw)) {
			var row struct {
				ID      string
				Outcome string
				Reward  *float64
			}
			if err := json.Unmarshal([]byte(line), &row); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			seen[row.ID]++
			if row.Outcome == "" && (row.Reward == nil || *row.Reward != 1) || row.Outcome != "" && row.Reward != nil {
				t.Errorf("%s, outcome %q has the wrong reward: %.300s", row.ID, row.Outcome, line)
			}
		}
	}
	for i := range n {
		if id := fmt.Sprint("task-", i); seen[id] != 1 {
			t.Errorf("%s is %d times in the run", id, seen[id])
		}
	}
}
