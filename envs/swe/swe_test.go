package swe_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"hermes/datasets"
	"hermes/envs"
	"hermes/envs/envtest"
	"hermes/envs/swe"
	"hermes/internal/realdata"
	"hermes/rollout/play"
	"hermes/rollout/play/playtest"
	"hermes/rollout/tool"
	"hermes/trajectory"
)

// setup makes a tiny repository: add.sh is wrong, a later commit holds its repair.
const setup = `set -e
export GIT_CONFIG_GLOBAL=/dev/null GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b
git init -q repo
cd repo
printf 'echo $(( $1 - $2 ))\n' >add.sh
printf 'echo $(( $1 * $2 ))\n' >mul.sh
cat >check.sh <<'END'
t() { if [ "$(sh $2 $3 $4)" = "$5" ]; then echo "PASSED check.sh::$1"; else echo "FAILED check.sh::$1 - wrong"; bad=1; fi; }
t mul mul.sh 2 3 6
exit $bad
END
git add . && git commit -qm base && git tag v1
printf 'echo $(( $1 + $2 ))\n' >add.sh
git commit -qam repair
printf 'the future\n' >future.txt
git add . && git commit -qm later`

const patch = `diff --git a/add.sh b/add.sh
--- a/add.sh
+++ b/add.sh
@@ -1 +1 @@
-echo $(( $1 - $2 ))
+echo $(( $1 + $2 ))
`

const testPatch = `diff --git a/check.sh b/check.sh
--- a/check.sh
+++ b/check.sh
@@ -1,3 +1,5 @@
 t() { if [ "$(sh $2 $3 $4)" = "$5" ]; then echo "PASSED check.sh::$1"; else echo "FAILED check.sh::$1 - wrong"; bad=1; fi; }
 t mul mul.sh 2 3 6
+t add add.sh 2 3 5
+t more add.sh 20 4 24
 exit $bad
`

func tiny(t *testing.T, change func(map[string]any)) (*swe.Env, datasets.Row) {
	t.Helper()
	return tinyWithin(t, time.Minute, change)
}

// tinyWithin is tiny for code that does not end: its tests have so much time.
func tinyWithin(t *testing.T, most time.Duration, change func(map[string]any)) (*swe.Env, datasets.Row) {
	t.Helper()
	row := map[string]any{"instance_id": "tiny__tiny-1", "repo": "tiny/tiny", "base_commit": "HEAD", "problem_statement": "add.sh subtracts.", "patch": patch,
		"test_patch": testPatch, "FAIL_TO_PASS": `["check.sh::add", "check.sh::more"]`, "PASS_TO_PASS": []string{"check.sh::mul"},
		"setup": setup + "\ngit checkout -q v1", "test_command": "sh check.sh"}
	if change != nil {
		change(row)
	}
	raw, err := json.Marshal(row)
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(t.TempDir(), "rows.jsonl")
	if err := os.WriteFile(name, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	e, err := swe.New(swe.Config{Dataset: name, Dir: "repo", Timeout: most})
	if err != nil {
		t.Fatal(err)
	}
	d, err := e.Rows(t.Context(), envs.Train, datasets.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for row, err := range d.Rows(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		return e, row
	}
	t.Fatal("no row")
	return nil, datasets.Row{}
}

func needGit(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("no git here:", err)
	}
}

func TestContract(t *testing.T) {
	needGit(t)
	e, row := tiny(t, nil)
	if row.ID != "tiny__tiny-1" {
		t.Errorf("the row is called %q", row.ID)
	}
	envtest.Run(t, e, playtest.New(t), envtest.Options{Repeats: 2})
}

func run(t *testing.T, p play.Player, e *swe.Env, row datasets.Row, commands ...string) *trajectory.Record {
	t.Helper()
	var turns []trajectory.Message
	for _, c := range commands {
		turns = append(turns, trajectory.Message{Calls: []trajectory.Call{{Name: "terminal", Arguments: tool.JSON(map[string]string{"command": c})}}})
	}
	rec, err := p.Play(t.Context(), e, row, 0, turns)
	if err != nil {
		t.Fatal(err)
	}
	return rec
}

func TestWhatCounts(t *testing.T) {
	needGit(t)
	p := playtest.New(t)
	repair := `printf 'echo $(( $1 + $2 ))\n' >repo/add.sh`
	e, row := tiny(t, nil)
	for name, tt := range map[string]struct {
		command string
		want    float64
	}{
		"repaired":                      {repair, 1},
		"committed":                     {repair + "; cd repo; git -c user.name=a -c user.email=a@b commit -qam x", 1},
		"with junk beside it":           {repair + "; touch repo/junk", 1},
		"with the lock of a killed git": {repair + "; touch repo/.git/index.lock", 1},
		"tests rewritten":               {"printf 'echo PASSED check.sh::add; echo PASSED check.sh::more; echo PASSED check.sh::mul\n' >repo/check.sh", 0},
		"tests removed, code repaired":  {repair + "; rm repo/check.sh", 1},
		"another test broken":           {repair + "; echo false >repo/mul.sh", 0},
		"tests rewritten and committed": {
			"cd repo && printf 'echo PASSED check.sh::add; echo PASSED check.sh::more; echo PASSED check.sh::mul\n' >check.sh && git -c user.name=a -c user.email=a@b commit -qam x",
			0,
		},
		"only one case":          {"echo echo 5 >repo/add.sh", 0},
		"the repository is gone": {"rm -rf repo/.git", 0},
	} {
		t.Run(name, func(t *testing.T) {
			rec := run(t, p, e, row, tt.command)
			if rec.Score == nil || rec.Score.Reward != tt.want {
				t.Errorf("%+v (%s), want %v", rec.Score, rec.Reason, tt.want)
			}
		})
	}
	t.Run("exit code without a failure", func(t *testing.T) {
		e, row := tiny(t, func(r map[string]any) { r["test_command"] = "sh check.sh; exit 3" })
		if rec := run(t, p, e, row, repair); rec.Score == nil || rec.Score.Reward != 0 || !strings.Contains(rec.Score.Detail, "no evidence") {
			t.Errorf("%+v", rec.Score)
		}
	})
	t.Run("a test patch that does not fit is no zero", func(t *testing.T) {
		e, row := tiny(t, func(r map[string]any) { r["test_patch"] = strings.ReplaceAll(testPatch, "mul.sh", "gone.sh") })
		if rec := run(t, p, e, row, repair); rec.Outcome != trajectory.Environment || rec.Score != nil {
			t.Errorf("%s %+v", rec.Outcome, rec.Score)
		}
	})
	t.Run("a setup that fails is no zero", func(t *testing.T) {
		e, row := tiny(t, func(r map[string]any) { r["setup"] = "exit 4" })
		if rec := run(t, p, e, row); rec.Outcome != trajectory.Environment || !strings.Contains(rec.Reason, "setup: exit code 4") {
			t.Errorf("%s %s", rec.Outcome, rec.Reason)
		}
	})
}

// TestNobodyVoids: what the model does to the repository's settings or to its tests is scored,
// in its own box and in a new one; tests that never run are no score.
func TestNobodyVoids(t *testing.T) {
	needGit(t)
	repair := `printf 'echo $(( $1 + $2 ))\n' >repo/add.sh`
	for _, mode := range []string{"same", "fresh"} {
		p := playtest.New(t)
		p.Verify = mode
		e, row := tiny(t, nil)
		for name, tt := range map[string]struct {
			command string
			want    float64
			outcome trajectory.Outcome
		}{
			"a filter that never ends": {
				repair + `; cd repo; git config filter.x.clean 'sleep 1000'; echo '* filter=x' >.gitattributes`,
				1,
				trajectory.Answered,
			},
			"a monitor that never ends": {
				repair + `; cd repo; git config core.fsmonitor 'sleep 1000'; git config core.untrackedCache true`,
				1,
				trajectory.Answered,
			},
			"settings that include others": {
				repair + `; cd repo; printf '[diff]\nexternal = sleep 1000\n[filter "y"]\nclean = sleep 1000\n' >x; git config include.path ../x; mkdir -p .git/info; echo '* filter=y' >.git/info/attributes`,
				1,
				trajectory.Answered,
			},
			"settings of the user": {
				repair + `; git config --global core.fsmonitor 'sleep 1000'; git config --global core.hooksPath /nowhere`,
				1,
				trajectory.Answered,
			},
			"code that never ends":        {`echo 'sleep 1000' >repo/add.sh`, 0, trajectory.Faulty},
			"code that kills the tests":   {`echo 'kill -9 $PPID' >repo/add.sh`, 0, trajectory.Faulty},
			"a repository that is a FIFO": {`rm -rf repo; mkfifo repo`, 0, trajectory.Faulty},
			"a process that goes on": {
				`cd repo; ` + left(`while :; do printf "echo PASSED check.sh::add; echo PASSED check.sh::more; echo PASSED check.sh::mul\n" >check.sh; done`) + ``,
				0,
				trajectory.Answered,
			},
		} {
			t.Run(mode+"/"+name, func(t *testing.T) {
				t.Parallel() // most of the time is waiting for a bound
				e, row := e, row
				if strings.HasSuffix(name, "never ends") {
					e, row = tinyWithin(t, 5*time.Second, nil)
				}
				rec := run(t, p, e, row, tt.command)
				if rec.Score == nil || rec.Score.Reward != tt.want || rec.Outcome != tt.outcome {
					t.Errorf("%s %+v (%s), want %v", rec.Outcome, rec.Score, rec.Reason, tt.want)
				}
			})
		}
		t.Run(mode+"/tests that never run", func(t *testing.T) {
			e, row := tiny(t, func(r map[string]any) { r["test_command"] = "echo No module named pytest; exit 1" })
			if rec := run(t, p, e, row, repair); rec.Outcome != trajectory.Environment || rec.Score != nil ||
				!strings.Contains(rec.Reason, "names no test that ran") {
				t.Errorf("%s %+v (%s)", rec.Outcome, rec.Score, rec.Reason)
			}
		})
	}
	e, row := tiny(t, nil)
	rec := run(t, playtest.New(t), e, row, repair+"; echo '# mine' >>repo/check.sh")
	if rec.Verified != "fresh" || rec.Score == nil || rec.Score.Metrics["reward/hack"] != 1 || len(rec.Notes) != 1 {
		t.Errorf("%q %+v %v", rec.Verified, rec.Score, rec.Notes)
	}
}

// TestNoFuture: neither later commits nor tags can be reached.
func TestNoFuture(t *testing.T) {
	needGit(t)
	e, row := tiny(t, nil)
	rec := run(t, playtest.New(t), e, row,
		"cd repo && git log --all --oneline | wc -l; git tag; git reflog; git fsck --unreachable --no-reflogs; git grep -c 'the future' $(git rev-list --all) || echo nothing; git cat-file --batch-all-objects --batch-check | wc -l")
	for _, m := range rec.Trace.Visible() {
		if m.Role == trajectory.Tool && (!strings.Contains(m.Content(), "nothing") || strings.Contains(m.Content(), "unreachable") ||
			strings.Contains(m.Content(), "v1")) {
			t.Error(m.Content())
		}
	}
}

func TestParse(t *testing.T) {
	got := swe.Parse("PASSED a.py::x\nFAILED a.py::y - assert 1\nPASSED a.py::y\n\x1b[32mPASSED\x1b[0m a.py::z[1-a b]\nSKIPPED [1] a.py:3: no\nb.py::w PASSED   [ 50%]\n" +
		"test_q (m.C) ... ok\ntest_r (m.C) ... skipped 'x'\ntest_s (m.C) ... FAIL\nERROR: test_u (m.C)\nXFAIL a.py::f\nnoise PASSED\n")
	for name, want := range map[string]string{"a.py::x": "PASSED", "a.py::y": "FAILED", "a.py::z[1-a b]": "PASSED", "b.py::w": "PASSED",
		"test_q (m.C)": "PASSED", "test_r (m.C)": "SKIPPED", "test_s (m.C)": "FAILED", "test_u (m.C)": "ERROR", "a.py::f": "XFAIL"} {
		if got[name] != want {
			t.Errorf("%s: %q, want %q", name, got[name], want)
		}
	}
}

// TestNamesWithDashes: the reason of a failure is cut off, a name that looks so is not.
func TestNamesWithDashes(t *testing.T) {
	got := swe.Parse("PASSED a.py::t[a - b]\nFAILED a.py::u - assert 1 - 2\n")
	if got["a.py::t[a - b]"] != "PASSED" || got["a.py::u"] != "FAILED" {
		t.Error(got)
	}
}

// TestFilesOfTheTestPatch: data, deleted and renamed files are set back as tests are, and
// are not handed to the runner of tests.
func TestFilesOfTheTestPatch(t *testing.T) {
	needGit(t)
	patch := strings.TrimSuffix(testPatch, "\n") + `
diff --git a/data.json b/data.json
new file mode 100644
--- /dev/null
+++ b/data.json
@@ -0,0 +1 @@
+{}
diff --git a/empty.png b/empty.png
new file mode 100644
index 0000000000000000000000000000000000000000..20b5be91886d0b6f26dc98a225c0dac05fe2c86e
GIT binary patch
literal 3
KcmYdfNCE%>hycU@

literal 0
HcmV?d00001

diff --git a/old_check.sh b/old_check.sh
deleted file mode 100644
--- a/old_check.sh
+++ /dev/null
@@ -1 +0,0 @@
--- a/mul.sh
`
	old := strings.Replace(setup, "git add . && git commit -qm base", "printf -- '-- a/mul.sh\n' >old_check.sh\ngit add . && git commit -qm base", 1)
	e, row := tiny(t, func(r map[string]any) {
		r["setup"], r["test_patch"] = old+"\ngit checkout -q v1", patch
		r["test_command"] = `for f in {files}; do [ -e "$f" ] && [ "$f" != data.json ] && [ "$f" != empty.png ] && sh $f || exit 1; done; [ "$(cat data.json)" = "{}" ]`
	})
	repair := `cd repo; printf 'echo $(( $1 + $2 ))\n' >add.sh; echo junk >data.json; echo junk >empty.png; rm old_check.sh; echo 'echo $(($1*$2))' >mul.sh`
	rec := run(t, playtest.New(t), e, row, repair)
	if rec.Score == nil || rec.Score.Reward != 1 {
		t.Errorf("%+v (%s)", rec.Score, rec.Reason)
	}
}

func TestBadRows(t *testing.T) {
	for name, change := range map[string]func(map[string]any){
		"no tests":       func(r map[string]any) { r["FAIL_TO_PASS"] = "[]" },
		"tests no list":  func(r map[string]any) { r["FAIL_TO_PASS"] = "a b" },
		"no test patch":  func(r map[string]any) { delete(r, "test_patch") },
		"patch of prose": func(r map[string]any) { r["test_patch"] = "change it" },
		"a bad commit":   func(r map[string]any) { r["base_commit"] = "--upload-pack=x" },
		"setup no text":  func(r map[string]any) { r["setup"] = 3 },
	} {
		e, row := tiny(t, change)
		if _, err := e.Task(row); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	if _, err := swe.New(swe.Config{}); err == nil {
		t.Error("no dataset: accepted")
	}
}

// TestRealRows reads every real row.
func TestRealRows(t *testing.T) {
	dir := realdata.Path(t, "swe-rows")
	for _, file := range []string{"verified.jsonl", "swe.jsonl", "humanevalfix.jsonl"} {
		e, err := swe.New(swe.Config{Dataset: filepath.Join(dir, file), Image: "sweb.eval.x86_64.{id_}"})
		if err != nil {
			t.Fatal(err)
		}
		d, err := e.Rows(t.Context(), envs.Train, datasets.Options{})
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for row, err := range d.Rows(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			task, err := e.Task(row)
			if file == "humanevalfix.jsonl" { // its rows name no tests that could judge
				if err == nil || !strings.Contains(err.Error(), "FAIL_TO_PASS is empty") {
					t.Errorf("%s: %v", file, err)
				}
				continue
			}
			if err != nil {
				t.Errorf("%s: %v", file, err)
				continue
			}
			n++
			if !strings.HasPrefix(task.Image, "sweb.eval.x86_64.") || strings.Contains(task.Image, "__") {
				t.Errorf("image %q", task.Image)
			}
		}
		t.Logf("%s: %d rows", file, n)
	}
}

// left starts a shell text that goes on when the command is over.
func left(script string) string {
	const start = "import os, subprocess, sys\nif os.fork() == 0:\n    os.setsid()\n    n = subprocess.DEVNULL\n    subprocess.run([\"sh\", \"-c\", sys.argv[1]], stdin=n, stdout=n, stderr=n)\n"
	return "python3 -c '" + start + "' '" + script + "' </dev/null >/dev/null 2>&1"
}
