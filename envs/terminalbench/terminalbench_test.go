package terminalbench_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"hermes/backends"
	"hermes/backends/docker"
	"hermes/backends/namespace"
	"hermes/backends/namespace/driver"
	"hermes/backends/slotd/server"
	"hermes/backends/slotd/wire"
	"hermes/datasets"
	"hermes/envs"
	"hermes/envs/envtest"
	"hermes/envs/terminalbench"
	"hermes/internal/realdata"
	"hermes/rollout/play"
	"hermes/rollout/play/playtest"
	"hermes/rollout/tool"
	"hermes/trajectory"
)

func TestMain(m *testing.M) {
	if code, ok := namespace.Main(os.Args); ok {
		os.Exit(code)
	}
	if filepath.Base(os.Args[0]) == wire.Name { // the server inside of boxes of Docker is this very program
		os.Exit(server.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

func open(t *testing.T, c terminalbench.Config) *terminalbench.Env {
	t.Helper()
	e, err := terminalbench.New(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	return e
}

// inLocal is a config for boxes that are folders of this machine.
func inLocal(c terminalbench.Config) terminalbench.Config {
	if c.Dataset == nil {
		c.Dataset = []string{"testdata/tasks"}
	}
	c.Dir, c.TestDir = "room", "judge/tests"
	return c
}

func rows(t *testing.T, e *terminalbench.Env) map[string]datasets.Row {
	t.Helper()
	out := map[string]datasets.Row{}
	for _, row := range envtest.Rows(t, e, envs.Train, 0) {
		out[row.ID] = row
	}
	return out
}

func TestContract(t *testing.T) {
	player := playtest.New(t)
	envtest.Run(t, open(t, inLocal(terminalbench.Config{})), player, envtest.Options{Repeats: 3})
	e := open(t, inLocal(terminalbench.Config{Dataset: []string{"testdata/tasks/fix-greeting"}, Eval: []string{"testdata/tasks/count-words"}, Reward: "share"}))
	envtest.Run(t, e, player, envtest.Options{Split: envs.Eval, Repeats: 2})
}

// isolated gives a player with boxes of namespaces, or skips.
func isolated(t *testing.T) play.Player {
	t.Helper()
	b, err := driver.Open(t.Context(), namespace.Config{})
	if errors.Is(err, backends.ErrUnavailable) {
		t.Skip("no namespaces here:", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return playtest.With(t, b)
}

// TestIsolated plays the tasks where /app and /tests are the box's own.
func TestIsolated(t *testing.T) {
	envtest.Run(t, open(t, terminalbench.Config{Dataset: []string{"testdata/tasks"}}), isolated(t), envtest.Options{Repeats: 1, Isolated: true})
}

// TestRealTasks plays the tasks beside the checkout.
func TestRealTasks(t *testing.T) {
	dir := realdata.Path(t, "tasks", "terminal-bench-1")
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("three of the tasks need python3:", err)
	}
	e := open(t, terminalbench.Config{Dataset: []string{dir}, Image: "none"})
	if n := len(rows(t, e)); n != 4 {
		t.Fatalf("%d tasks, want 4", n)
	}
	envtest.Run(t, e, isolated(t), envtest.Options{Rows: 4, Repeats: 1, Isolated: true})
}

// TestBuilt builds an image from a task's Dockerfile, without its tests and solution.
func TestBuilt(t *testing.T) {
	host := os.Getenv("HERMES_TEST_DOCKER")
	if host == "" {
		t.Skip("HERMES_TEST_DOCKER names no engine")
	}
	b, err := docker.Open(t.Context(), docker.Config{Host: host}, docker.Surroundings{})
	if err != nil {
		t.Fatal(err)
	}
	e := open(t, terminalbench.Config{Dataset: []string{"testdata/built", "testdata/tasks/count-words"}, Image: "auto"})
	envtest.Run(t, e, playtest.With(t, b), envtest.Options{Rows: 2, Repeats: 2, Isolated: true})
}

func TestContext(t *testing.T) {
	e := open(t, terminalbench.Config{Dataset: []string{"testdata/built"}})
	task, err := e.Task(rows(t, e)["needs-image"])
	if err != nil {
		t.Fatal(err)
	}
	dir, ok := strings.CutPrefix(task.Image, "dockerfile:")
	if !ok || task.Dir != "/app" || task.Time.Seconds() != 60 || task.ScoreTime.Seconds() != 90 {
		t.Fatalf("the task is %+v", task)
	}
	var names []string
	err = filepath.WalkDir(dir, func(p string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			names = append(names, strings.TrimPrefix(p, dir+"/"))
		}
		return err
	})
	if err != nil || strings.Join(names, " ") != "Dockerfile note.txt" {
		t.Errorf("the build sees %v (%v)", names, err)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dir); err == nil {
		t.Error("what was staged is still there")
	}
	plain := open(t, terminalbench.Config{Dataset: []string{"testdata/tasks"}})
	task, err = plain.Task(rows(t, plain)["count-words"])
	if err != nil || task.Image != "" || task.Env["COLOUR"] != "blue" || task.Env["LC_ALL"] != "C" || len(task.Env) != 2 {
		t.Errorf("a plain task wants the image %q and the variables %v (%v)", task.Image, task.Env, err)
	}
}

// TestWhatCounts plays shell commands.
func TestWhatCounts(t *testing.T) {
	player := playtest.New(t)
	for _, tt := range []struct {
		name, task, reward, command string
		want                        float64
		part                        string // that is 1
	}{
		{"all", "count-words", "resolved", "echo 6 >count.txt; echo banana >longest.txt", 1, "test_outputs.py::test_count"},
		{"a part", "count-words", "resolved", "echo 6 >count.txt", 0, "test_outputs.py::test_count"},
		{"a part, by weight", "count-words", "share", "echo 6 >count.txt", 0.75, "test_outputs.py::test_count"},
		{"another part, by weight", "count-words", "share", "echo banana >longest.txt", 0.25, "test_outputs.py::test_longest"},
		{"a guard that fails", "count-words", "share", "echo 6 >count.txt; echo banana >longest.txt; rm words.txt", 0, "test_outputs.py::test_longest"},
		{
			"tests of the model's own", "count-words", "resolved",
			"mkdir -p ~/judge/tests ~/room/judge/tests judge/tests; for d in ~/judge/tests ~/room/judge/tests judge/tests; do echo 'check() { echo \"PASSED test_outputs.py::$1\"; }' >$d/lib.sh; chmod 555 $d; done",
			0, "",
		},
		{"a box that cannot test", "fix-greeting", "resolved", "mkdir -p judge && echo x >judge/tests || true", 0, ""},
		{"the other parser", "fix-greeting", "resolved", "sed -i 's/\\$2/${1:-world}/' bin/greet.sh", 1, "nobody"},
		{"one of two", "fix-greeting", "resolved", "sed -i 's/\\$2/$1/' bin/greet.sh", 0, "somebody"},
	} {
		e := open(t, inLocal(terminalbench.Config{Reward: tt.reward}))
		call := trajectory.Call{Name: "terminal", Arguments: tool.JSON(map[string]string{"command": tt.command})}
		rec, err := player.Play(t.Context(), e, rows(t, e)[tt.task], 0, []trajectory.Message{{Calls: []trajectory.Call{call}}})
		if err != nil {
			t.Fatal(err)
		}
		if rec.Score == nil {
			t.Errorf("%s: %s", tt.name, rec.Reason)
			continue
		}
		if rec.Score.Reward != tt.want || tt.part != "" && rec.Score.Parts[tt.part] != 1 {
			t.Errorf("%s: %+v, want %v", tt.name, rec.Score, tt.want)
		}
	}
}

// made writes a task folder.
func made(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "task")
	for name, text := range files {
		at := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// TestNoResults: tests that hang or say nothing, in a box that no model has seen too, void the
// sample.
func TestNoResults(t *testing.T) {
	player := playtest.New(t)
	for script, want := range map[string]string{
		"sleep 600": "did not end within", "echo nothing to see; exit 3": "exit code 3: nothing to see", "echo '=== short test summary info ==='": "no result",
		"no-such-program": "exit code 127",
	} {
		limit := "120"
		if script == "sleep 600" {
			limit = "0.5"
		}
		dir := made(t, map[string]string{"task.yaml": "instruction: x\nmax_test_timeout_sec: " + limit + "\n", "run-tests.sh": script})
		e := open(t, inLocal(terminalbench.Config{Dataset: []string{dir}}))
		rec, err := player.Play(t.Context(), e, rows(t, e)["task"], 0, nil)
		switch {
		case err != nil:
			t.Fatal(err)
		case rec.Outcome != trajectory.Environment || rec.Score != nil || !strings.Contains(rec.Reason, want):
			t.Errorf("%s: %s %s %+v, want %s", script, rec.Outcome, rec.Reason, rec.Score, want)
		}
	}
}

// TestNobodyVoids: tests that say nothing because of the model's work, or for want of it, are
// a zero where they say something with the reference solution; what the model left running
// does not meet the tests.
func TestNobodyVoids(t *testing.T) {
	player := playtest.New(t)
	dir := made(t, map[string]string{"task.yaml": "instruction: x\nmax_test_timeout_sec: 5\n", "solution.sh": "printf 'exit 0\\n' > prog.sh\n",
		"run-tests.sh": "set -e\nsleep 0.3\nsh ./prog.sh\necho '=== short test summary info ==='\nif grep -qx loud loud.txt 2>/dev/null; then echo 'PASSED t.py::loud'; else echo 'FAILED t.py::loud'; fi\necho 'PASSED t.py::runs'\n"})
	e := open(t, inLocal(terminalbench.Config{Dataset: []string{dir}}))
	row := rows(t, e)["task"]
	for name, tt := range map[string]struct {
		command string
		outcome trajectory.Outcome
	}{
		"nothing was done": {
			"true",
			trajectory.Faulty,
		}, "exit 3": {"echo exit 3 > prog.sh", trajectory.Faulty}, "the tests are killed": {"echo 'kill -9 $PPID' > prog.sh", trajectory.Faulty},
		"it never ends": {"echo 'sleep 100' > prog.sh", trajectory.Faulty},
		"a process that kills what runs tests": {
			// The killer also meets the shell that starts it, in whose command line is run-tests.
			"echo exit 0 > prog.sh; " + left("while :; do for p in /proc/[0-9]*; do grep -q run-tests $p/cmdline && [ ${p#/proc/} != $$ ] && kill -9 ${p#/proc/}; done; done"),
			trajectory.Answered,
		},
		"a process that waits for the tests": {
			"echo exit 0 > prog.sh; " + left("while :; do [ -e ../judge/tests/run-tests.sh ] && echo loud > loud.txt; done"),
			trajectory.Answered,
		},
	} {
		t.Run(name, func(t *testing.T) {
			call := trajectory.Message{Calls: []trajectory.Call{{
				Name:      "terminal",
				Arguments: tool.JSON(map[string]string{"command": "mkdir -p ../room; cd ../room 2>/dev/null; " + tt.command}),
			}}}
			rec, err := player.Play(t.Context(), e, row, 0, []trajectory.Message{call})
			if err != nil {
				t.Fatal(err)
			}
			if rec.Score == nil || rec.Score.Reward != 0 || rec.Outcome != tt.outcome {
				t.Errorf("%s %+v (%s), want 0 and %s", rec.Outcome, rec.Score, rec.Reason, tt.outcome)
			}
		})
	}
}

func TestBad(t *testing.T) {
	for _, c := range []terminalbench.Config{{},
		{Dataset: []string{"x"}, Reward: "fame"},
		{Dataset: []string{"x"}, TestDir: "/"},
		{Dataset: []string{"x"}, TestDir: "../x"}} {
		if _, err := terminalbench.New(c); err == nil {
			t.Errorf("%+v is accepted", c)
		}
	}
	for want, files := range map[string]map[string]string{
		"no run-tests.sh":       {"task.yaml": "instruction: x"},
		"no instruction":        {"task.yaml": "difficulty: easy", "run-tests.sh": ""},
		"have pytest, swebench": {"task.yaml": "instruction: x\nparser_name: vibes", "run-tests.sh": ""},
		"have same, fresh":      {"task.yaml": "instruction: x\nverify: frsh", "run-tests.sh": ""},
		"have keep":             {"task.yaml": "instruction: x\nprocesses: kept", "run-tests.sh": ""},
		"more than 0":           {"task.yaml": "instruction: x\nmax_test_timeout_sec: -1", "run-tests.sh": ""},
		"is negative":           {"task.yaml": "instruction: x\ntest_weights: {a: -1}", "run-tests.sh": ""},
		"task.yaml:1: ":         {"task.yaml": "instruction: [", "run-tests.sh": ""},
		"no FROM":               {"task.yaml": "instruction: x", "run-tests.sh": "", "Dockerfile": "WORKDIR /app"},
		"2 services":            {"task.yaml": "instruction: x", "run-tests.sh": "", "docker-compose.yaml": "services: {a: {}, b: {}}"},
		"variables of the host": {
			"task.yaml":           "instruction: x",
			"run-tests.sh":        "",
			"docker-compose.yaml": "services: {a: {environment: {K: '${HOME}'}}}",
		},
		"neither":                    {"readme": "x"},
		"solution.yaml: want a list": {"task.yaml": "instruction: x", "run-tests.sh": "", "solution.yaml": "a: b"},
	} {
		e := open(t, terminalbench.Config{Dataset: []string{made(t, files)}})
		if _, err := e.Rows(t.Context(), envs.Train, datasets.Options{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %s", files, err, want)
		}
	}
	dir := made(t, map[string]string{"task.yaml": "instruction: x", "run-tests.sh": ""})
	if err := os.Symlink("/etc/passwd", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	e := open(t, terminalbench.Config{Dataset: []string{dir}})
	if _, err := e.Rows(t.Context(), envs.Train, datasets.Options{}); err == nil || !strings.Contains(err.Error(), "links") {
		t.Errorf("a link: %v", err)
	}
	if _, err := e.Rows(t.Context(), envs.Eval, datasets.Options{}); err == nil || !strings.Contains(err.Error(), "eval") {
		t.Errorf("no tasks for evaluation: %v", err)
	}
}

// left starts a shell text that goes on when the command is over.
func left(script string) string {
	const start = "import os, subprocess, sys\nif os.fork() == 0:\n    os.setsid()\n    n = subprocess.DEVNULL\n    subprocess.run([\"sh\", \"-c\", sys.argv[1]], stdin=n, stdout=n, stderr=n)\n"
	return "python3 -c '" + start + "' '" + script + "' </dev/null >/dev/null 2>&1"
}
