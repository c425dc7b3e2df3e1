package rows_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"hermes/backends"
	"hermes/backends/local"
	"hermes/datasets"
	"hermes/envs"
	"hermes/envs/rows"
	"hermes/trajectory"
)

// answered is an episode that ends in text, after the calls given.
func answered(t *testing.T, text string, calls ...trajectory.Call) envs.Episode {
	t.Helper()
	tr := trajectory.New(trajectory.ModeText, nil)
	for _, c := range calls {
		m := trajectory.Text(trajectory.Assistant, "")
		m.Calls = []trajectory.Call{c}
		if _, err := tr.Commit(trajectory.Turn{Finish: trajectory.FinishCalls, Sampled: trajectory.Delta{Message: m}}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := tr.Commit(trajectory.Turn{
		Finish:  trajectory.FinishStop,
		Sampled: trajectory.Delta{Message: trajectory.Text(trajectory.Assistant, text)},
	}); err != nil {
		t.Fatal(err)
	}
	return envs.Episode{Trace: tr, Stop: trajectory.Stop{Reason: trajectory.StopAnswer}}
}

func row(s datasets.Scoring) datasets.Row {
	return datasets.Row{ID: "r", Prompt: []trajectory.Message{trajectory.Text(trajectory.User, "task")}, Scoring: s}
}

func raw(text string) json.RawMessage { return json.RawMessage(text) }

func TestScore(t *testing.T) {
	call := func(name, args string) trajectory.Call { return trajectory.Call{Name: name, Arguments: args} }
	tests := []struct {
		name    string
		scoring datasets.Scoring
		answer  string
		calls   []trajectory.Call
		want    float64
	}{
		{"number after ####", datasets.Scoring{Answer: raw(`"so\n#### 1,234"`)}, "it is $1234.00", nil, 1},
		{"another number", datasets.Scoring{Answer: raw(`"#### 12"`)}, "13", nil, 0},
		{"boxed", datasets.Scoring{Answer: raw(`0.5`)}, `\boxed{1/2} of 7`, nil, 1},
		{"no number at all", datasets.Scoring{Answer: raw(`"7"`)}, "no idea", nil, 0},
		{"text is contained", datasets.Scoring{Answer: raw(`"Paris"`)}, "That is paris.", nil, 1},
		{"one of several", datasets.Scoring{Expected: raw(`["blue","red"]`)}, "red", nil, 1},
		{"pattern", datasets.Scoring{Expected: raw(`"/^[a-c]+$/"`)}, "abcd", nil, 0},
		{"a checker wins over an answer", datasets.Scoring{Checker: raw(`"grep -q four"`), Answer: raw(`"5"`)}, "four", nil, 1},
		{"checker as words", datasets.Scoring{Checker: raw(`["sh","-c","exit 3"]`)}, "x", nil, 0},
		{"a checker's own reward", datasets.Scoring{Checker: raw(`"echo reward: 0.25"`)}, "x", nil, 0.25},
		{"half of the calls",
			datasets.Scoring{ExpectedTools: raw(`[{"name":"f","arguments":{"n":1}},{"name":"g"}]`)},
			"x",
			[]trajectory.Call{call("f", `{"n":2,"m":2}`), call("g", `{}`)},
			0.5},
		{"calls by name", datasets.Scoring{ExpectedTools: raw(`["f"]`)}, "x", []trajectory.Call{call("f", `{}`)}, 1},
	}
	backend, err := local.New(local.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer backend.Close(context.Background())
	env := rows.New(rows.Options{})
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			task, err := env.Task(row(tt.scoring))
			if err != nil {
				t.Fatal(err)
			}
			var w envs.World
			if env.NeedsBox(task) {
				w.Box, err = backend.Open(t.Context(), backends.Spec{})
				if err != nil {
					t.Fatal(err)
				}
				defer w.Box.Close(context.Background())
			}
			s, err := env.Score(t.Context(), task, w, answered(t, tt.answer, tt.calls...))
			if err != nil || s.Reward != tt.want {
				t.Errorf("reward %v (%v), want %v: %s", s.Reward, err, tt.want, s.Detail)
			}
		})
	}
}

// What the checker itself does wrong is an error, never a zero.
func TestCheckerFails(t *testing.T) {
	backend, err := local.New(local.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer backend.Close(context.Background())
	box, err := backend.Open(t.Context(), backends.Spec{})
	if err != nil {
		t.Fatal(err)
	}
	env := rows.New(rows.Options{})
	task, err := env.Task(row(datasets.Scoring{Checker: raw(`"no-such-program-at-all"`)}))
	if err != nil {
		t.Fatal(err)
	}
	if s, err := env.Score(t.Context(), task, envs.World{Box: box}, answered(t, "x")); err == nil {
		t.Errorf("a checker that does not exist scored %v", s.Reward)
	}
}

func TestUnscoredAndBroken(t *testing.T) {
	env := rows.New(rows.Options{})
	task, _ := env.Task(row(datasets.Scoring{}))
	if _, err := env.Score(t.Context(), task, envs.World{}, answered(t, "x")); !errors.Is(err, envs.ErrUnscored) {
		t.Errorf("a row without a grader: %v", err)
	}
	task, _ = env.Task(row(datasets.Scoring{Answer: raw(`"x"`)}))
	ep := answered(t, "x")
	ep.Stop.Reason = trajectory.StopFaultyBox
	if s, err := env.Score(t.Context(), task, envs.World{}, ep); err != nil || s.Reward != 0 {
		t.Errorf("a box broken by the model: reward %v, %v", s.Reward, err)
	}
}

func TestBadGraders(t *testing.T) {
	env := rows.New(rows.Options{})
	for name, s := range map[string]datasets.Scoring{
		"checker":        {Checker: raw(`{"a":1}`)},
		"expected_tools": {ExpectedTools: raw(`[]`)},
		"expected":       {Expected: raw(`"/(/"`)},
	} {
		if _, err := env.Task(row(s)); err == nil || !strings.Contains(err.Error(), "r:") {
			t.Errorf("%s: error %v does not name the row", name, err)
		}
	}
}

func TestOpening(t *testing.T) {
	env := rows.New(rows.Options{System: "run", Ephemeral: "whisper", Prefill: []trajectory.Message{trajectory.Text(trajectory.Assistant, "pre")}})
	r := row(datasets.Scoring{})
	r.Prompt = append([]trajectory.Message{trajectory.Text(trajectory.System, "row")}, r.Prompt...)
	task, err := env.Task(r)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, m := range task.Messages {
		mark := ""
		if m.Ephemeral {
			mark = "*"
		}
		got = append(got, string(m.Role)+mark+" "+m.Content())
	}
	if want := "system row\n\nwhisper|assistant* pre|user task"; strings.Join(got, "|") != want {
		t.Errorf("opening %q, want %q", strings.Join(got, "|"), want)
	}
}
