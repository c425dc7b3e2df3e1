package codedebug_test

import (
	"math"
	"os/exec"
	"strings"
	"testing"

	"hermes/backends/local"
	"hermes/datasets"
	"hermes/envs"
	"hermes/envs/codedebug"
	"hermes/envs/envtest"
	"hermes/rollout/play"
	"hermes/rollout/play/playtest"
	"hermes/rollout/tool"
	"hermes/trajectory"
)

func open(t *testing.T, c codedebug.Config) *codedebug.Env {
	t.Helper()
	e, err := codedebug.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// player gives boxes with python3, or skips.
func player(t *testing.T) play.Player {
	t.Helper()
	if err := exec.CommandContext(t.Context(), "/usr/bin/env", "PATH=/usr/local/bin:/usr/bin:/bin", "python3", "-c", "").Run(); err != nil {
		t.Skip("no python3 for boxes:", err)
	}
	return playtest.New(t)
}

func rows(t *testing.T, e *codedebug.Env, n int64) []datasets.Row {
	t.Helper()
	return envtest.Rows(t, e, envs.Train, n)
}

func TestContract(t *testing.T) {
	p := player(t)
	envtest.Run(t, open(t, codedebug.Config{Level: 1, MaxLevel: 3}), p, envtest.Options{Rows: 3, Repeats: 2})
	six := open(t, codedebug.Config{Level: 6})
	row := rows(t, six, 1)[0]
	if s := played(t, p, six, row, oracle(t, six, row)...).Score; s.Reward != 1 || len(s.Turns) != 7 {
		t.Errorf("six mistakes: %+v", s)
	}
	envtest.Run(t, open(t, codedebug.Config{Seed: 9, TurnWeight: 0.5}), p, envtest.Options{Rows: 1, Repeats: 3, Split: envs.Eval})
}

func shell(command string) trajectory.Message {
	return trajectory.Message{Calls: []trajectory.Call{{Name: "terminal", Arguments: tool.JSON(map[string]string{"command": command})}}}
}

func oracle(t *testing.T, e *codedebug.Env, row datasets.Row) []trajectory.Message {
	t.Helper()
	task, err := e.Task(row)
	if err != nil {
		t.Fatal(err)
	}
	turns, err := e.Oracle(task)
	if err != nil {
		t.Fatal(err)
	}
	return turns
}

func played(t *testing.T, p play.Player, e envs.Env, row datasets.Row, turns ...trajectory.Message) *trajectory.Record {
	t.Helper()
	rec, err := p.Play(t.Context(), e, row, 0, turns)
	if err != nil {
		t.Fatal(err)
	}
	if rec.Score == nil {
		t.Fatalf("row %s: %s", row.ID, rec.Reason)
	}
	return rec
}

func sum(list []float64) (s float64) {
	for _, x := range list {
		s += x
	}
	return s
}

// TestTurns pays each turn for what it changed, and a way back and forth nothing.
func TestTurns(t *testing.T) {
	p, e := player(t), open(t, codedebug.Config{Level: 3, TurnWeight: 0.5})
	row := rows(t, e, 1)[0]
	fix := oracle(t, e, row)
	if len(fix) != 4 {
		t.Fatalf("the oracle takes %d turns, want 4", len(fix))
	}
	s := played(t, p, e, row, fix...).Score
	if len(s.Turns) != 4 || s.Turns[0] <= 0 || s.Turns[1] <= 0 || s.Turns[2] <= 0 || s.Turns[3] != 0 ||
		math.Abs(sum(s.Turns)-(1-s.Metrics["share_before"])) > 1e-9 {
		t.Errorf("one repair a turn: %+v", s)
	}
	file := strings.TrimPrefix(strings.Fields(fix[0].Calls[0].Arguments[len(`{"command":"cat `):])[0], ">")
	file = file[:strings.Index(file, ".py")+3]
	spoil := shell("cp " + file + " good.py; echo 'def x(:' >" + file)
	idle := shell("cat README 2>/dev/null; true")
	done := fix[3]
	back := shell("cp good.py " + file)
	s = played(t, p, e, row, fix[0], spoil, idle, back, done).Score
	if len(s.Turns) != 5 || s.Turns[1] >= 0 || s.Turns[2] != 0 || math.Abs(s.Turns[1]+s.Turns[3]) > 1e-9 || s.Turns[4] != 0 || s.Reward <= 0 ||
		s.Reward >= 0.5 || s.Parts["final"] != 0 {
		t.Errorf("back and forth: %+v", s)
	}
	if math.Abs(sum(s.Turns)-(s.Parts["share"]-s.Metrics["share_before"])) > 1e-9 {
		t.Errorf("the turns earn %v, in all it is %v", sum(s.Turns), s.Parts["share"]-s.Metrics["share_before"])
	}
	s = played(t, p, e, row, spoil, done).Score
	if s.Reward >= 0 || s.Turns[0] >= 0 {
		t.Errorf("worse than before: %+v", s)
	}
	late := shell("(sleep 1; cp good.py " + file + ") >/dev/null 2>&1 & cp " + file + " good.py")
	s = played(t, p, e, row, late, done).Score
	if len(s.Turns) != 2 {
		t.Errorf("a process in the background: %+v", s)
	}
}

// TestCheats plays what pays nothing.
func TestCheats(t *testing.T) {
	p, e := player(t), open(t, codedebug.Config{Level: 2})
	row := rows(t, e, 1)[0]
	fix := oracle(t, e, row)
	const every = `for f in lib/*.py; do n=$(basename "$f" .py); `
	for name, command := range map[string]string{
		"ends the process":      every + `printf 'import os\nos._exit(0)\n' >"$f"; done`,
		"raises SystemExit":     every + `printf 'raise SystemExit(0)\n' >"$f"; done`,
		"runs for ever":         every + `printf 'while True: pass\n' >"$f"; done`,
		"equal to everything":   every + `printf 'class A(str):\n    __eq__ = lambda s, o: True\n    __hash__ = None\ndef %s(*a): return A("x")\n' "$n" >"$f"; done`,
		"prints results":        every + `printf 'import sys, os\nt = sys.modules["__main__"].task\nfor fd in range(3, 20):\n    for i in range(100):\n        try: os.write(fd, (t["mark"] + " %%d {\\"value\\": 0}\\n" %% i).encode())\n        except OSError: pass\nos._exit(0)\n' >"$f"; done`,
		"patches the runner":    every + `printf 'import json\njson.dumps = lambda *a, **k: "{\\"value\\": true}"\ndef %s(*a): return 1\n' "$n" >"$f"; done`,
		"own tests, own runner": `echo 'print("0 failed")' >tests/run.py; : >tests/cases.jsonl; for m in json copy sitecustomize usercustomize conftest; do echo 'import os; os._exit(0)' >"$m.py"; cp "$m.py" lib/; done`,
		"removes the modules":   `rm -r lib`,
		"a folder for a file":   `rm tests/run.py; mkdir tests/run.py`,
	} {
		if s := played(t, p, e, row, shell(command)).Score; s.Reward != 0 || s.Parts["final"] != 0 {
			t.Errorf("%s: %+v", name, s)
		}
	}
	spoilt := append([]trajectory.Message{shell("echo >>tests/cases.jsonl")}, fix...)
	if s := played(t, p, e, row, spoilt...).Score; s.Reward != 0 || s.Parts["untouched"] != 0 || s.Parts["share"] != 1 {
		t.Errorf("repaired, with other tests: %+v", s)
	}
	// a cache that seems fresh: same second, same size
	stale := append([]trajectory.Message{shell("python3 -c 'import sys; sys.path.insert(0, \"lib\"); import os; [__import__(f[:-3]) for f in os.listdir(\"lib\") if f.endswith(\".py\")]'; touch -d 2020-01-01 lib/*.py; python3 -m compileall -q lib")}, fix...)
	for i := range stale[:len(stale)-1] {
		c := &stale[i].Calls[0]
		c.Arguments = strings.TrimSuffix(c.Arguments, `"}`) + `\ntouch -d 2020-01-01 lib/*.py"}`
	}
	if s := played(t, p, e, row, stale...).Score; s.Reward != 1 {
		t.Errorf("repaired, beside a stale cache: %+v", s)
	}
	helped := append([]trajectory.Message{shell("echo x >notes.txt; mkdir -p lib/more; python3 tests/run.py")}, fix...)
	if s := played(t, p, e, row, helped...).Score; s.Reward != 1 {
		t.Errorf("repaired, with its own files: %+v", s)
	}
}

// TestSpy lets a module write down all that it can see: arguments, and nothing else.
func TestSpy(t *testing.T) {
	p, e := player(t), open(t, codedebug.Config{})
	row := rows(t, e, 1)[0]
	spy := `for f in lib/*.py; do printf 'import sys, json\ntry:\n    t = sys.modules["__main__"].task\n    open("spy.txt", "w").write("keys " + " ".join(sorted(t)) + " sizes " + " ".join(sorted({str(len(c)) for c in t["cases"]})))\nexcept AttributeError: pass\n' >>"$f"; done`
	rec := played(t, p, e, row, shell(spy), shell("cat spy.txt; ls -A . lib tests"))
	var seen string
	for m := range rec.Trace.Prefix().Messages() {
		if m.Role == trajectory.Tool {
			seen = m.Content()
		}
	}
	if !strings.Contains(seen, "keys cases mark sizes 2") || strings.Contains(seen, "hidden") || strings.Contains(seen, "pycache") {
		t.Errorf("a spy sees %s", seen)
	}
}

func TestNoPython(t *testing.T) {
	b, err := local.New(local.Config{Dir: t.TempDir(), Path: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	e := open(t, codedebug.Config{})
	rec, err := playtest.With(t, b).Play(t.Context(), e, rows(t, e, 1)[0], 0, nil)
	if err != nil || rec.Score != nil || rec.Outcome != trajectory.Environment || !strings.Contains(rec.Reason, "envs.code_debug.image") {
		t.Errorf("without python3: %s, %s, %+v (%v)", rec.Outcome, rec.Reason, rec.Score, err)
	}
}

func TestBad(t *testing.T) {
	for _, c := range []codedebug.Config{{Size: -1}, {Level: 7}, {Level: -1}, {Level: 3, MaxLevel: 2}, {TurnWeight: 1.5}, {TurnWeight: math.NaN()}} {
		if _, err := codedebug.New(c); err == nil {
			t.Errorf("%+v is accepted", c)
		}
	}
	e := open(t, codedebug.Config{})
	row := rows(t, e, 1)[0]
	row.Extra["level"] = []byte("9")
	if _, err := e.Task(row); err == nil {
		t.Error("level 9 is accepted")
	}
}

// TestHeldOut: what training shows of a function, with a mistake or without, repairs nothing in the
// evaluation; hidden tests are of all modules, so that they do not tell where the mistakes are.
func TestHeldOut(t *testing.T) {
	e := open(t, codedebug.Config{Level: 1, MaxLevel: 6, Size: 120})
	known := map[string]bool{}
	for _, row := range envtest.Rows(t, e, envs.Train, 120) {
		task, err := e.Task(row)
		if err != nil {
			t.Fatal(err)
		}
		for name := range task.Files {
			known[name] = true
		}
	}
	for _, row := range envtest.Rows(t, e, envs.Eval, 120) {
		task, err := e.Task(row)
		if err != nil {
			t.Fatal(err)
		}
		wrong, tested := codedebug.Wrong(task)
		for _, name := range wrong {
			if known["lib/"+name+".py"] {
				t.Errorf("row %s: training shows %s", row.ID, name)
			}
		}
		for name := range task.Files {
			if name, ok := strings.CutPrefix(name, "lib/"); ok && !tested[strings.TrimSuffix(name, ".py")] {
				t.Errorf("row %s: %s has no hidden test", row.ID, name)
			}
		}
	}
}

// TestSplitsApart: no task of the evaluation occurs in training.
func TestSplitsApart(t *testing.T) { envtest.Apart(t, open(t, codedebug.Config{MaxLevel: 3}), 200) }
