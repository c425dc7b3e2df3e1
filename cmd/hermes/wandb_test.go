package main

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"hermes/rollout/event/wandb/wandbtest"
	"hermes/rollout/rundir"
)

const wandbKey = "0123456789abcdef0123456789abcdef01234567"

// TestWandbHearsOfRuns: a server gets the figures of an evaluation, also of a resumed one,
// under the names that trainers use. The figures are those of the report. The key is written
// nowhere. A refused key ends the run before anything is spent. A server that does not answer
// costs a note only.
func TestWandbHearsOfRuns(t *testing.T) {
	t.Parallel()
	s := wandbtest.New(t, wandbKey)
	dir := t.TempDir()
	run := func(url, key string, args ...string) (string, int) {
		c := hermes(t, dir, append(args, "--model", "scripted", "--backend", boxesHere(), "--progress", "none", "--wandb", "online", "--log-level", "debug")...)
		c.Env = append(c.Env, "WANDB_BASE_URL="+url, "WANDB_API_KEY="+key, "WANDB_ENTITY=", "WANDB_PROJECT=trials")
		out, err := c.CombinedOutput()
		if err != nil && c.ProcessState == nil {
			t.Fatal(err)
		}
		if strings.Contains(string(out), wandbKey) {
			t.Errorf("the key is shown: %s", out)
		}
		return string(out), c.ProcessState.ExitCode()
	}
	eval := []string{"eval", "run", "samples", "-n", "2", "--wandb-tags", "x,y", "--wandb-group", "g"}
	out, code := run(s.URL, wandbKey, eval...)
	if code != 0 || !strings.Contains(out, s.URL+"/tester/trials/runs/") {
		t.Fatalf("exit code %d\n%s", code, out)
	}
	if len(s.Runs()) != 1 {
		t.Fatalf("runs %v", s.Runs())
	}
	for name, r := range s.Runs() {
		if !strings.HasPrefix(name, "tester/trials/") || r.Vars["displayName"] != "samples" || r.Vars["groupName"] != "g" || r.Vars["jobType"] != "eval" ||
			!r.Complete || *r.Exit != 0 {
			t.Errorf("%s: %+v", name, r)
		}
		var report struct {
			Metrics map[string]struct{ Value float64 }
			Samples struct{ Scored float64 }
			Each    map[string]float64 `json:"per_sample"`
		}
		raw, err := os.ReadFile(filepath.Join(dir, "runs", "samples", "report.json"))
		if err == nil {
			err = json.Unmarshal(raw, &report)
		}
		if err != nil {
			t.Fatal(err)
		}
		for key, want := range map[string]float64{
			"reward/mean":             report.Metrics["reward"].Value,
			"eval/samples/pass@1":     report.Metrics["pass@1"].Value,
			"eval/samples/pass^2":     report.Metrics["pass^2"].Value,
			"samples/scored":          report.Samples.Scored,
			"completions/mean_length": report.Each["completion_tokens"],
			"turns/mean":              report.Each["turns"],
			"void/sandbox":            0,
			"_step":                   80,
		} {
			if key == "_step" {
				if got := r.History[len(r.History)-1][key]; got != want {
					t.Errorf("%s is %v, want %v", key, got, want)
				}
				continue
			}
			if got, ok := r.Summary[key].(float64); !ok || math.Abs(got-want) > 1e-9 {
				t.Errorf("%s is %v, want %v", key, r.Summary[key], want)
			}
		}
		if _, ok := r.Summary["tools/terminal/error_rate"]; !ok {
			t.Errorf("no rate of a tool: %v", r.Summary)
		}
	}
	lines := func() (n int) {
		for _, r := range s.Runs() {
			n += len(r.History)
		}
		return n
	}
	before := lines()
	if out, code := run(s.URL, wandbKey, append(eval, "-n", "3", "--amend")...); code != 0 || len(s.Runs()) != 1 || lines() <= before {
		t.Errorf("resumed: exit code %d, %d runs, %d lines of history after %d\n%s", code, len(s.Runs()), lines(), before, out)
	}
	if out, code := run(s.URL, strings.Repeat("f", 40), "batch", "samples:shell", "--limit", "1", "--run", "refused"); code != 2 ||
		!strings.Contains(out, "refuses the key") {
		t.Errorf("a wrong key: exit code %d\n%s", code, out)
	}
	if b, err := os.ReadFile(filepath.Join(dir, "runs", "refused", "statistics.json")); err == nil {
		t.Errorf("with a wrong key something was done: %s", b)
	}
	if out, code := run("http://127.0.0.1:1", wandbKey, "batch", "samples:shell", "--limit", "1", "--run", "away"); code != 0 ||
		!strings.Contains(out, "wandb sync runs/away/wandb/offline-run-") {
		t.Errorf("no server: exit code %d\n%s", code, out)
	}
	if files, err := filepath.Glob(filepath.Join(dir, "runs", "away", "wandb", "offline-run-*", "run-*.wandb")); err != nil || len(files) != 1 {
		t.Errorf("files %v %v", files, err)
	}
	for _, name := range []string{rundir.Path(filepath.Join(dir, "runs", "samples")), filepath.Join(dir, "runs", "samples", "report.json")} {
		if b, err := os.ReadFile(name); err != nil || strings.Contains(string(b), wandbKey) {
			t.Errorf("%s has the key, or cannot be read: %v", name, err)
		}
	}
}
