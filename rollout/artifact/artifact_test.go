package artifact_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"hermes/backends"
	"hermes/backends/local"
	"hermes/envs"
	"hermes/rollout/artifact"
	"hermes/trajectory"
)

func box(t *testing.T) backends.Sandbox {
	t.Helper()
	b, err := local.New(local.Config{})
	if err != nil {
		t.Fatal(err)
	}
	x, err := b.Open(t.Context(), backends.Spec{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(x.Close(context.Background()), b.Close(context.Background())); err != nil {
			t.Error(err)
		}
	})
	return x
}

func shell(t *testing.T, x backends.Sandbox, script string) {
	t.Helper()
	if r, err := x.Exec(t.Context(), backends.Cmd{Shell: "set -e\n" + script}); err != nil || r.Code != 0 {
		t.Fatalf("%v, exit %d: %s", err, r.Code, r.Stderr)
	}
}

func scene(reward float64) artifact.Scene {
	tr := trajectory.New(trajectory.ModeText, nil)
	tr.Finish(nil)
	return artifact.Scene{
		Record: &trajectory.Record{Row: "a/b", Attempt: 1, Outcome: trajectory.Answered, Score: &trajectory.Score{Reward: reward}, Trace: tr},
		Since:  time.Now(),
	}
}

// read returns all files below dir.
func read(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(p string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(p)
		rel, _ := filepath.Rel(dir, p)
		all[rel] = string(b)
		return err
	})
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return all
}

func TestKeep(t *testing.T) {
	x := box(t)
	pwd, err := x.Exec(t.Context(), backends.Cmd{Shell: "pwd -P"})
	if err != nil {
		t.Fatal(err)
	}
	home := strings.TrimSpace(string(pwd.Stdout))
	s := scene(0)
	s.Box = x
	s.Task.Files = map[string]string{
		"same.txt":        "same\n",
		"edit.txt":        "one\ntwo\nthree\n",
		"gone.txt":        "bye\n",
		home + "/abs.txt": "abs\n",
		"data.bin":        "a\x00b",
	}
	s.Task.Artifacts = []string{"out", "out/deep/log.txt", "missing.txt"}
	s.Exhibits = []envs.Exhibit{{
		Name:   "checker",
		Cmd:    backends.Cmd{Shell: "exit 3"},
		Result: backends.Result{Code: 3, Stdout: []byte("said\n"), Stderr: []byte("oh\n")},
		Files:  map[string][]byte{"reward.txt": []byte("0.5")},
	}}
	for name, text := range s.Task.Files {
		if err := x.WriteFile(t.Context(), name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	shell(t, x,
		`printf 'one\nTWO\nthree\n' >edit.txt; rm gone.txt; printf 'a\000c' >data.bin; mkdir -p out/deep; echo new >out/deep/log.txt; : >empty; head -c 3000 /dev/zero | tr '\0' x >big.txt; printf '\377\000' >new.bin`)
	k, err := artifact.New(t.TempDir(), artifact.Failed, artifact.Options{MaxFile: 2000})
	if err != nil {
		t.Fatal(err)
	}
	err = k.Keep(t.Context(), s)
	if err == nil || !strings.Contains(err.Error(), "missing.txt") || strings.Contains(err.Error(), "log.txt") {
		t.Errorf("the error must name what is missing, nothing else: %v", err)
	}
	files := read(t, k.Dir("a/b", 0))
	d := files["workspace.diff"]
	for _, want := range []string{
		"--- a/edit.txt\n+++ b/edit.txt\n@@ -1,3 +1,3 @@\n one\n-two\n+TWO\n three\n", "--- a/gone.txt\n+++ /dev/null\n@@ -1 +0,0 @@\n-bye\n",
		"--- /dev/null\n+++ b/out/deep/log.txt\n@@ -0,0 +1 @@\n+new\n", "# binary file data.bin: 3 bytes, was 3\n", "# binary file new.bin: 2 bytes, was 0\n",
		"# empty file empty: new\n", "# big.txt: larger than 2000 bytes, not shown\n"} {
		if !strings.Contains(d, want) {
			t.Errorf("%q is missing in\n%s", want, d)
		}
	}
	if strings.Contains(d, "same") || strings.Contains(d, "abs.txt") {
		t.Errorf("unchanged files are shown:\n%s", d)
	}
	if files["checker.stdout"] != "said\n" || files["checker.stderr"] != "oh\n" || files["checker/reward.txt"] != "0.5" {
		t.Errorf("%q", files)
	}
	kept := ""
	for name, text := range files {
		if strings.HasPrefix(name, "files/") {
			kept += text
		}
	}
	if kept != "new\n" {
		t.Errorf("declared files: %q", kept)
	}
	var v struct {
		Outcome string
		Scorer  []struct {
			Name string
			Code int `json:"exit_code"`
		}
	}
	if err := json.Unmarshal([]byte(files["score.json"]), &v); err != nil || v.Outcome != "answered" || len(v.Scorer) != 1 || v.Scorer[0].Code != 3 {
		t.Errorf("%v: %s", err, files["score.json"])
	}
	// The next attempt passes: nothing is left of this one.
	s.Record.Score.Reward = 1
	if err := k.Keep(t.Context(), s); err != nil || len(read(t, k.Dir("a/b", 0))) != 0 {
		t.Errorf("%v, %v", err, read(t, k.Dir("a/b", 0)))
	}
}

// TestImage: where the image has its own files, only what was written since is named.
func TestImage(t *testing.T) {
	x := box(t)
	shell(t, x, "echo old >old.txt; touch -d '2001-01-01' old.txt; echo new >new.txt")
	s := scene(0)
	s.Box = x
	s.Images = true
	s.Since = time.Now().Add(-time.Minute)
	k, err := artifact.New(t.TempDir(), artifact.All, artifact.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := k.Keep(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	if d := read(t, k.Dir("a/b", 0))["workspace.diff"]; d != "# new.txt: 4 bytes, written during the rollout; what the image held is not known\n" {
		t.Error(d)
	}
}

// TestBounds: a diff does not grow beyond its bound, and says what it leaves out.
func TestBounds(t *testing.T) {
	x := box(t)
	shell(t, x, "for i in 1 2 3 4 5 6; do seq 100 >f$i; done")
	s := scene(0)
	s.Box = x
	k, err := artifact.New(t.TempDir(), artifact.All, artifact.Options{MaxTotal: 1000, MaxFiles: 4})
	if err != nil {
		t.Fatal(err)
	}
	if err := k.Keep(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	d := read(t, k.Dir("a/b", 0))["workspace.diff"]
	if len(d) > 2000 || strings.Count(d, "the diff would be larger than 1000 bytes") < 2 || !strings.Contains(d, "at least 2 files more") {
		t.Error(d)
	}
}

// TestSpecialFiles: what is no plain file is not kept, and the error says so. No read blocks.
func TestSpecialFiles(t *testing.T) {
	x := box(t)
	shell(t, x, "mkfifo .gitignore given ff; mkdir d; mkfifo d/ff; echo kept >d/f; ln -s /dev/zero zero; echo new >new")
	s := scene(0)
	s.Box, s.Task.Files, s.Task.Artifacts = x, map[string]string{"given": "text"}, []string{"ff", "d", "zero"}
	k, err := artifact.New(t.TempDir(), artifact.All, artifact.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	err = k.Keep(ctx, s)
	if err == nil || ctx.Err() != nil {
		t.Fatalf("%v, %v", err, ctx.Err())
	}
	for _, want := range []string{
		"read given: ", "not compared: 4 FIFOs, sockets or devices (in all was left out: .gitignore, d/ff, ff, given, zero)",
		"keep ff: ", "FIFO",
		"keep d: not kept: 1 FIFOs, sockets or devices (in all was left out: d/ff)", "keep zero: ", "device",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is missing in %v", want, err)
		}
	}
	files := read(t, k.Dir("a/b", 0))
	d := files["workspace.diff"]
	for _, want := range []string{"+++ b/new\n", "# given: cannot be read: FIFO", "# not compared: 4 FIFOs"} {
		if !strings.Contains(d, want) {
			t.Errorf("%q is missing in\n%s", want, d)
		}
	}
}

// TestBoundOfSearch: a bound that kept the search from files is said where the difference is read,
// and by the call.
func TestBoundOfSearch(t *testing.T) {
	x := box(t)
	shell(t, x, "seq 6000 >.gitignore; echo new >new")
	s := scene(0)
	s.Box = x
	k, err := artifact.New(t.TempDir(), artifact.All, artifact.Options{})
	if err != nil {
		t.Fatal(err)
	}
	const want = "not compared: what is beyond 5000 lines of .gitignore files"
	if err := k.Keep(t.Context(), s); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want %q in it", err, want)
	}
	if d := read(t, k.Dir("a/b", 0))["workspace.diff"]; !strings.Contains(d, "# "+want) || !strings.Contains(d, "+++ b/new\n") {
		t.Error(d)
	}
}

func TestWhich(t *testing.T) {
	zero := scene(0)
	half := scene(0.5)
	one := scene(1)
	unscored := scene(0)
	broken := scene(0)
	truncated := scene(1)
	unscored.Record.Score, broken.Record.Score = nil, nil
	broken.Err = errors.New("exit 127")
	truncated.Record.Outcome = trajectory.Truncated
	all := []artifact.Scene{zero, half, one, unscored, broken, truncated}
	for which, want := range map[string]string{"all": "111111", "none": "000000", "zero": "100000", "failed": "110011"} {
		k, err := artifact.New(t.TempDir(), which, artifact.Options{})
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		for _, s := range all {
			if err := k.Keep(t.Context(), s); err != nil {
				t.Fatal(err)
			}
			if len(read(t, k.Dir("a/b", 0))) > 0 {
				got += "1"
			} else {
				got += "0"
			}
		}
		if got != want {
			t.Errorf("--keep %s keeps %s, want %s", which, got, want)
		}
	}
	if _, err := artifact.New("x", "some", artifact.Options{}); err == nil {
		t.Error("keep some")
	}
}
