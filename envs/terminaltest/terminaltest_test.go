package terminaltest_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"hermes/datasets"
	"hermes/envs"
	"hermes/envs/envtest"
	"hermes/envs/terminaltest"
	"hermes/rollout/play/playtest"
	"hermes/rollout/tool"
	"hermes/trajectory"
)

func open(t *testing.T, c terminaltest.Config) *terminaltest.Env {
	t.Helper()
	e, err := terminaltest.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func TestContract(t *testing.T) {
	play := playtest.New(t)
	envtest.Run(t, open(t, terminaltest.Config{}), play, envtest.Options{Rows: 6})
	envtest.Run(t, open(t, terminaltest.Config{Level: 8, Seed: 3}), play, envtest.Options{Rows: 6, Repeats: 2, Split: envs.Eval})
}

func rowsOf(t *testing.T, text string) (*terminaltest.Env, []datasets.Row) {
	t.Helper()
	name := filepath.Join(t.TempDir(), "rows.jsonl")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	e := open(t, terminaltest.Config{Dataset: name})
	d, err := e.Rows(t.Context(), envs.Train, datasets.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var rows []datasets.Row
	for row, err := range d.Rows(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		rows = append(rows, row)
	}
	return e, rows
}

func TestChecks(t *testing.T) {
	e, rows := rowsOf(t,
		`{"id":"a","prompt":"p","files":{"old.txt":"x"},"checks":[{"kind":"file_equals","path":"a","text":"one"},{"kind":"contains","path":"b","text":"two"},{"kind":"sha256","path":"c","text":"4355a46b19d348dc2f57c046f8ef63d4538ebb936000f3c9ee954a27460dd865"},{"kind":"command","command":"test -d d"}],"forbid":[{"kind":"absent","path":"old.txt"}]}`)
	player := playtest.New(t)
	for command, want := range map[string]float64{
		"echo one >a; echo twofold >b; echo 1 >c; mkdir d":             1,
		"echo one >a; echo twofold >b":                                 0.5,
		"printf 'one\n\n' >a":                                          0.25,
		"mkdir a b c":                                                  0,
		"echo one >a; echo twofold >b; echo 1 >c; mkdir d; rm old.txt": 0,
		"true": 0,
	} {
		call := trajectory.Call{Name: "terminal", Arguments: tool.JSON(map[string]string{"command": command})}
		rec, err := player.Play(t.Context(), e, rows[0], 0, []trajectory.Message{{Calls: []trajectory.Call{call}}})
		if err != nil {
			t.Fatal(err)
		}
		if rec.Score == nil || rec.Score.Reward != want {
			t.Errorf("%s: %+v (%s), want %v", command, rec.Score, rec.Reason, want)
		}
	}
	if _, err := e.Oracle(mustTask(t, e, rows[0])); err == nil {
		t.Error("an oracle without a solution")
	}
}

func mustTask(t *testing.T, e *terminaltest.Env, row datasets.Row) envs.Task {
	t.Helper()
	task, err := e.Task(row)
	if err != nil {
		t.Fatal(err)
	}
	return task
}

func TestBadRows(t *testing.T) {
	for _, text := range []string{
		`{"prompt":"p"}`, `{"prompt":"p","checks":[]}`, `{"prompt":"p","checks":[{"kind":"vibes"}]}`,
		`{"prompt":"p","checks":[{"kind":"mode","path":"a"}]}`, `{"prompt":"p","checks":[{"kind":"command"}]}`,
		`{"prompt":"p","checks":[{"kind":"absent","path":"a","what":1}]}`, `{"prompt":"p","files":[],"checks":[{"kind":"absent","path":"a"}]}`,
	} {
		e, rows := rowsOf(t, text)
		if _, err := e.Task(rows[0]); err == nil {
			t.Errorf("%s is accepted", text)
		}
	}
	for _, c := range []terminaltest.Config{{Size: -1}, {Level: 11}, {Eval: "x"}} {
		if _, err := terminaltest.New(c); err == nil {
			t.Errorf("%+v is accepted", c)
		}
	}
}

// TestPeeking: a program that is checked finds nowhere what it ought to print, neither in
// its environment nor in the arguments of the processes that call it.
func TestPeeking(t *testing.T) {
	e := open(t, terminaltest.Config{})
	d, err := e.Rows(t.Context(), envs.Train, datasets.Options{Limit: 6})
	if err != nil {
		t.Fatal(err)
	}
	asked := false
	for row, err := range d.Rows(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(row.Prompt[0].Content(), "tool.sh") {
			continue
		}
		asked = true
		command := `cat >tool.sh <<'END'
#!/bin/sh
pid=$$
while [ "$pid" -gt 1 ]; do
	tr '\0' ' ' </proc/$pid/cmdline
	pid=$(sed -n 's/^PPid:[^0-9]*//p' /proc/$pid/status)
done 2>/dev/null | sed -n 's/.*)" = \([0-9]*\).*/\1/p' | head -n 1
END
chmod 750 tool.sh`
		call := trajectory.Call{Name: "terminal", Arguments: tool.JSON(map[string]string{"command": command})}
		rec, err := playtest.New(t).Play(t.Context(), e, row, 0, []trajectory.Message{{Calls: []trajectory.Call{call}}})
		if err != nil {
			t.Fatal(err)
		}
		if rec.Score == nil || rec.Score.Reward != 0 {
			t.Errorf("%+v (%s)", rec.Score, rec.Reason)
		}
	}
	if !asked {
		t.Error("no row asks for tool.sh")
	}
}

// TestDestroyingPaysNothing: who removes what was to be moved has earned nothing.
func TestDestroyingPaysNothing(t *testing.T) {
	e := open(t, terminaltest.Config{})
	d, err := e.Rows(t.Context(), envs.Train, datasets.Options{Limit: 6})
	if err != nil {
		t.Fatal(err)
	}
	for row, err := range d.Rows(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		call := trajectory.Call{Name: "terminal", Arguments: `{"command":"rm -rf -- *"}`}
		rec, err := playtest.New(t).Play(t.Context(), e, row, 0, []trajectory.Message{{Calls: []trajectory.Call{call}}})
		if err != nil {
			t.Fatal(err)
		}
		if rec.Score == nil || rec.Score.Reward != 0 {
			t.Errorf("%s: %+v (%s)", row.Prompt[0].Content(), rec.Score, rec.Reason)
		}
	}
}

// TestCheats plays what needs none of the work on every made row: it must earn nothing.
func TestCheats(t *testing.T) {
	e := open(t, terminaltest.Config{})
	player := playtest.New(t)
	for name, command := range map[string]string{
		"a script that does nothing":   `: >tool.sh; chmod 750 tool.sh`,
		"a script of one number":       "printf '#!/bin/sh\necho 60\n' >tool.sh; chmod 750 tool.sh",
		"emptied files":                `for f in inbox/*; do e=${f##*.}; mkdir -p "$e"; : >"$e/${f##*/}"; done; rm -rf inbox`,
		"a guessed count":              `: >codes.txt; echo 20 >count.txt`,
		"every count":                  `seq 100 >count.txt; seq -f E%03g 0 999 >codes.txt`,
		"copies of what there is":      `cp names.txt sorted.txt; cp orders.csv totals.txt; cp app.log codes.txt`,
		"links to what there is":       `ln -s names.txt sorted.txt; ln -s orders.csv totals.txt; ln -s /dev/zero codes.txt`,
		"pipes in place of the answer": `for f in sorted.txt totals.txt; do mkfifo $f; done`,
	} {
		for _, row := range envtest.Rows(t, e, envs.Train, 6) {
			call := trajectory.Call{Name: "terminal", Arguments: tool.JSON(map[string]string{"command": command})}
			rec, err := player.Play(t.Context(), e, row, 0, []trajectory.Message{{Calls: []trajectory.Call{call}}})
			if err != nil {
				t.Fatal(err)
			}
			if rec.Score == nil || rec.Score.Reward != 0 {
				t.Errorf("%s: %s: %+v (%s)", name, row.Prompt[0].Content(), rec.Score, rec.Reason)
			}
		}
	}
}

// TestSplitsApart: no task of the evaluation occurs in training.
func TestSplitsApart(t *testing.T) { envtest.Apart(t, open(t, terminaltest.Config{}), 200) }
