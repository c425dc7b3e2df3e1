package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"hermes/backends/docker"
)

// weakRows are rows whose checker runs the model's code in its own process, and believes its
// exit code: docs/graders.md says that such a checker judges nothing. They are forged.
func weakRows() []string { return []string{"forge3/exit0"} }

// slowRows are the files whose rows wait for their time-outs: the long form plays them.
func slowRows() []string { return []string{"void", "void2", "void5", "flip", "abuse"} }

// TestHostileRows plays rows whose model attacks its box, its checker and what hermes keeps of
// it, as a user would. Each is a sample, none has a reward, and no file of the run holds what
// lies outside of the box.
func TestHostileRows(t *testing.T) {
	t.Parallel()
	all, err := filepath.Glob("testdata/attacks/*.jsonl")
	if err != nil || len(all) < 18 {
		t.Fatalf("%d files of rows: %v", len(all), err)
	}
	kinds := map[string]string{}
	if backend := boxesHere(); backend != "local" {
		kinds[backend] = ""
	}
	if host := os.Getenv("HERMES_TEST_DOCKER"); host != "" {
		kinds[docker.Name] = host
	}
	if len(kinds) == 0 {
		t.Skip("no isolated back-end on this machine")
	}
	for backend, host := range kinds {
		for _, file := range all {
			name := strings.TrimSuffix(filepath.Base(file), ".jsonl")
			if slices.Contains(slowRows(), name) && (!*long || host != "") {
				continue
			}
			if host != "" && !*long && !strings.HasPrefix(name, "forge") {
				continue // what only a writable image lets be tried
			}
			t.Run(backend+"/"+name, func(t *testing.T) {
				t.Parallel()
				hostileRows(t, backend, host, file)
			})
		}
	}
}

func hostileRows(t *testing.T, backend, host, file string) {
	dir, name := t.TempDir(), strings.TrimSuffix(filepath.Base(file), ".jsonl")
	const canary = "canary-41c7d0e5a1"
	secret := filepath.Join(dir, "secret")
	text, err := os.ReadFile(file)
	if err == nil {
		err = os.WriteFile(secret, []byte(canary), 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	for old, new := range map[string]string{"SECRETPATH": strings.TrimPrefix(secret, "/"), "SECRETDIR": dir, "SECRET": secret} {
		text = bytes.ReplaceAll(text, []byte(old), []byte(new))
	}
	if err := os.WriteFile(filepath.Join(dir, "rows.jsonl"), text, 0o644); err != nil {
		t.Fatal(err)
	}
	args := []string{
		"batch", "rows.jsonl", "--model", "scripted", "--backend", backend, "--run", "run", "--progress", "none", "--keep", "all",
		"--fail-on-error", "1",
	}
	if host != "" {
		args = append(args, "--image", "hermes-test:python")
	}
	c := hermes(t, dir, args...)
	c.Env = append(c.Env, "DOCKER_HOST="+host)
	out, err := c.CombinedOutput()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	got := played(t, filepath.Join(dir, "runs", "run"))
	for line := range bytes.Lines(text) {
		var row struct{ ID string }
		if err := json.Unmarshal(line, &row); err != nil {
			t.Fatal(err)
		}
		t.Run(row.ID, func(t *testing.T) {
			r, ok := got[row.ID]
			if !ok {
				t.Fatalf("no sample\n%s", out)
			}
			void := r.Outcome != "" && !slices.Contains([]string{"answered", "truncated", "malformed", "filtered", "faulty"}, r.Outcome)
			if void {
				t.Errorf("void: %s: %s", r.Outcome, r.Reason)
			}
			forged, weak := r.Reward != nil && *r.Reward > 0, slices.Contains(weakRows(), name+"/"+row.ID)
			if forged != weak {
				t.Errorf("forged: %v, its checker lets it: %v", forged, weak)
			}
		})
	}
	err = filepath.WalkDir(filepath.Join(dir, "runs"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		kept, err := os.ReadFile(path)
		if bytes.Contains(kept, []byte(canary)) {
			t.Errorf("%s holds what lies outside of the box", path)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

type sample struct {
	ID, Outcome, Reason string
	Reward              *float64
}

// played reads what became of the rows of a run.
func played(t *testing.T, run string) map[string]sample {
	t.Helper()
	out := map[string]sample{}
	for _, name := range []string{"trajectories.jsonl", "failed_trajectories.jsonl"} {
		f, err := os.Open(filepath.Join(run, name))
		if err != nil {
			t.Error(err)
			continue
		}
		defer f.Close()
		lines := bufio.NewScanner(f)
		lines.Buffer(nil, 64<<20)
		for lines.Scan() {
			var s sample
			if err := json.Unmarshal(lines.Bytes(), &s); err != nil {
				t.Fatal(err)
			}
			out[s.ID] = s
		}
		if err := lines.Err(); err != nil {
			t.Fatal(err)
		}
	}
	return out
}
