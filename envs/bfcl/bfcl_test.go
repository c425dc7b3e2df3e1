package bfcl_test

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"hermes/datasets"
	"hermes/envs"
	"hermes/envs/bfcl"
	"hermes/envs/envtest"
	"hermes/internal/realdata"
	"hermes/rollout/play"
	"hermes/rollout/tool"
	"hermes/trajectory"
)

func open(t *testing.T, c bfcl.Config) *bfcl.Env {
	t.Helper()
	e, err := bfcl.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func rows(t *testing.T, e envs.Bundled) []datasets.Row {
	t.Helper()
	return envtest.Rows(t, e, envs.Train, 0)
}

func played(t *testing.T, e envs.Env, row datasets.Row, turns ...trajectory.Message) *trajectory.Record {
	t.Helper()
	rec, err := play.Player{}.Play(t.Context(), e, row, 0, turns)
	if err != nil {
		t.Fatal(err)
	}
	if rec.Score == nil {
		t.Fatalf("row %s: %s", row.ID, rec.Reason)
	}
	return rec
}

func TestContract(t *testing.T) {
	e := open(t, bfcl.Config{Dataset: []string{"testdata"}, Eval: []string{"testdata/simple.jsonl"}, Abstain: true})
	envtest.Run(t, e, play.Player{}, envtest.Options{Rows: 4})
	envtest.Run(t, e, play.Player{}, envtest.Options{Rows: 3, Split: envs.Eval})
}

func call(name string, args any) trajectory.Call {
	return trajectory.Call{Name: name, Arguments: tool.JSON(args)}
}

type m = map[string]any

func TestWhatCounts(t *testing.T) {
	e := open(t, bfcl.Config{Dataset: []string{"testdata/simple.jsonl"}})
	by := map[string]datasets.Row{}
	for _, r := range rows(t, e) {
		by[r.ID] = r
	}
	units := []string{"Miles", "kilo-metres"}
	three := call("convert", m{"value": 3, "units": units})
	five := call("convert", m{"value": 5, "units": units})
	polar := call("polar", m{"pair": []float64{1, 2}})
	for _, tt := range []struct {
		name, row string
		calls     []trajectory.Call
		want      float64
	}{
		{"as wanted", "simple_0", []trajectory.Call{call("heater_set", m{"room": "Kitchen", "degrees": 21})}, 1},
		{"with a value that may be left out", "simple_0", []trajectory.Call{call("heater_set", m{"room": "kitchen", "degrees": 21, "mode": "normal"})}, 1},
		{"another value", "simple_0", []trajectory.Call{call("heater_set", m{"room": "kitchen", "degrees": 22})}, 0},
		{"a value too few", "simple_0", []trajectory.Call{call("heater_set", m{"room": "kitchen"})}, 0},
		{"a call too many",
			"simple_0",
			[]trajectory.Call{call("heater_set", m{"room": "kitchen", "degrees": 21}), call("heater_set", m{"room": "kitchen", "degrees": 21})},
			0},
		{"another function", "simple_0", []trajectory.Call{call("cooler_set", m{"room": "kitchen", "degrees": 21})}, 0},
		{"no call", "simple_0", nil, 0},
		{"in order", "parallel_0", []trajectory.Call{three, five, polar}, 1},
		{"in another order", "parallel_0", []trajectory.Call{polar, five, three}, 1},
		{"one twice", "parallel_0", []trajectory.Call{three, three, polar}, 0},
		{"no call where none is right", "irrelevance_0", nil, 1},
		{"a call where none is right", "irrelevance_0", []trajectory.Call{call("add", m{"a": 1, "b": 2})}, 0},
	} {
		rec := played(t, e, by[tt.row], trajectory.Message{Calls: tt.calls, Parts: []trajectory.Part{{Kind: trajectory.PartText, Text: "so"}}})
		if rec.Score.Reward != tt.want {
			t.Errorf("%s: %+v, want %v", tt.name, rec.Score, tt.want)
		}
	}
	wrong, right := call("heater_set", m{"room": "hall", "degrees": 1}), call("heater_set", m{"room": "kitchen", "degrees": 21})
	if rec := played(t, e, by["simple_0"], trajectory.Message{Calls: []trajectory.Call{wrong}}, trajectory.Message{Calls: []trajectory.Call{right}}); rec.Score.Reward != 0 {
		t.Errorf("a second try counts: %+v", rec.Score)
	}
	if rec := played(t, e, by["simple_0"], trajectory.Message{Calls: []trajectory.Call{right}}, trajectory.Message{Calls: []trajectory.Call{wrong}}); rec.Score.Reward != 1 || rec.Score.Parts["simple"] != 1 {
		t.Errorf("a later call spoils the first answer: %+v", rec.Score)
	}
	spec := played(t, e, by["simple_0"]).Tools[0]
	if spec.Name != "heater_set" || !strings.Contains(string(spec.Parameters), `"type":{"description":"Kind of heater.","type":"string"}`) ||
		strings.Contains(string(spec.Parameters), "float") || !json.Valid(spec.Parameters) {
		t.Errorf("the tool is %s %s", spec.Name, spec.Parameters)
	}
}

func TestAbstain(t *testing.T) {
	e := open(t, bfcl.Config{Dataset: []string{"testdata/simple.jsonl"}, Abstain: true})
	for _, row := range rows(t, e) {
		got := played(t, e, row, trajectory.Message{Calls: []trajectory.Call{call("no_function_fits", m{})}}).Score.Reward
		if want := map[bool]float64{true: 1}[row.ID == "irrelevance_0"]; got != want {
			t.Errorf("row %s: saying that none fits earns %v", row.ID, got)
		}
	}
}

func TestMultiTurn(t *testing.T) {
	e := open(t, bfcl.Config{Dataset: []string{"testdata/multi_turn.jsonl"}})
	row := rows(t, e)[0]
	done := trajectory.Text(trajectory.Assistant, "Done.")
	say := func(c ...trajectory.Call) trajectory.Message { return trajectory.Message{Calls: c} }
	add := call("add", m{"a": 3, "b": 4})
	mean := call("mean", m{"numbers": []float64{1, 2, -3.5}, "digits": 2})
	two := call("add", m{"a": 2, "b": 2})
	for name, tt := range map[string]struct {
		turns []trajectory.Message
		want  float64
		right float64
	}{
		"in another order and over two answers": {[]trajectory.Message{say(add), done, say(two), say(mean), done, done}, 1, 1},
		"nothing in the first":                  {[]trajectory.Message{done, say(two, mean), done, done}, 0, 2. / 3},
		"all at once":                           {[]trajectory.Message{say(add, mean, two), done, done, done}, 0, 1. / 3},
		"a call too many":                       {[]trajectory.Message{say(add), done, say(two, mean), done, say(add), done}, 0, 2. / 3},
		"another value":                         {[]trajectory.Message{say(call("add", m{"a": 4, "b": 3})), done, say(two, mean), done, done}, 0, 2. / 3},
	} {
		rec := played(t, e, row, tt.turns...)
		if rec.Score.Reward != tt.want || rec.Score.Metrics["turns_right"] != tt.right {
			t.Errorf("%s: %+v", name, rec.Score)
		}
	}
}

// TestRealRows plays the leaderboard's rows: gold is accepted, gold with one thing changed
// is refused.
func TestRealRows(t *testing.T) {
	shelf := realdata.Path(t, "bfcl")
	for _, category := range []string{"simple_python", "multiple", "parallel", "parallel_multiple", "irrelevance", "multi_turn_base"} {
		e := open(t, bfcl.Config{Dataset: []string{filepath.Join(shelf, category+".jsonl")}})
		list := rows(t, e)
		gold := 0
		refused := 0
		spoiled := 0
		accepted := 0
		for _, row := range list {
			task, err := e.Task(row)
			if err != nil {
				t.Fatal(err)
			}
			turns, err := e.Oracle(task)
			if err != nil {
				t.Fatal(err)
			}
			gold++
			if r := played(t, e, row, turns...); r.Score.Reward != 1 {
				refused++
				t.Errorf("row %s: the oracle earns %v: %s", row.ID, r.Score.Reward, r.Score.Detail)
			}
			for what, wrong := range spoil(turns) {
				spoiled++
				if r := played(t, e, row, wrong...); r.Score.Reward != 0 {
					accepted++
					t.Logf("row %s: accepted with %s", row.ID, what)
				}
			}
		}
		t.Logf("%s: %d rows, %d refused; %d spoiled, %d accepted", category, gold, refused, spoiled, accepted)
		if gold == 0 || spoiled == 0 || accepted*100 > spoiled {
			t.Errorf("%s: %d of %d spoiled ones accepted", category, accepted, spoiled)
		}
	}
}

// spoil makes answers that differ from the gold one in one thing.
func spoil(turns []trajectory.Message) map[string][]trajectory.Message {
	out := map[string][]trajectory.Message{}
	change := func(what string, f func(m *trajectory.Message)) {
		list := slices.Clone(turns)
		list[0].Calls = slices.Clone(list[0].Calls)
		f(&list[0])
		out[what] = list
	}
	if len(turns[0].Calls) == 0 {
		change("a call", func(m *trajectory.Message) { m.Calls = []trajectory.Call{call("no_such_function", nil)} })
		return out
	}
	change("a call too few", func(m *trajectory.Message) {
		m.Calls = m.Calls[1:]
		if len(m.Calls) == 0 {
			m.Parts = []trajectory.Part{{Kind: trajectory.PartText, Text: "Done."}}
		}
	})
	change("another name", func(m *trajectory.Message) { m.Calls[0].Name += "x" })
	change("an argument too many", func(m *trajectory.Message) { m.Calls[0].Arguments = with(m.Calls[0].Arguments, "no_such_argument", 1) })
	var args map[string]any
	if json.Unmarshal([]byte(turns[0].Calls[0].Arguments), &args) == nil {
		for _, p := range slices.Sorted(maps.Keys(args)) {
			change("another value of "+p, func(m *trajectory.Message) { m.Calls[0].Arguments = with(m.Calls[0].Arguments, p, m2{"no": "such"}) })
		}
	}
	return out
}

type m2 = map[string]string

func with(arguments, key string, v any) string {
	var args map[string]any
	if err := json.Unmarshal([]byte(arguments), &args); err != nil {
		panic(err)
	}
	args[key] = v
	return tool.JSON(args)
}

func TestBad(t *testing.T) {
	if _, err := bfcl.New(bfcl.Config{}); err == nil || !strings.Contains(err.Error(), "dataset") {
		t.Errorf("no rows: %v", err)
	}
	const f = `"function":[{"name":"f","parameters":{"type":"dict","properties":{}}}]`
	const q = `"question":[[{"role":"user","content":"q"}]]`
	for text, want := range map[string]string{
		`{"id":"x_0",` + q + `,` + f + `}`:                                               "no accepted calls",
		`{"id":"x_0","question":[],` + f + `,"ground_truth":[]}`:                         "question",
		`{` + q + `,` + f + `,"ground_truth":[]}`:                                        "no id",
		`{"id":"x_0",` + q + `,"involved_classes":["Zoo"],"ground_truth":[["f()"]]}`:     "Zoo",
		`{"id":"x_0",` + q + `,"involved_classes":["MathAPI"],"ground_truth":[["f()"]]}`: "apis",
		`not JSON`: "rows.jsonl:1",
		``:         "no questions",
	} {
		if _, err := read(t, text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
	for text, want := range map[string]string{
		`{"id":"x_0",` + q + `,"function":[],"ground_truth":[]}`:                              "function",
		`{"id":"x_0",` + q + `,` + f + `,"ground_truth":[{"g":{}}]}`:                          "no function g",
		`{"id":"x_0",` + q + `,` + f + `,"ground_truth":{"g":{}}}`:                            "ground_truth",
		`{"id":"x_0",` + q + `,"function":[{"name":"a.b"},{"name":"a_b"}],"ground_truth":[]}`: "its own name",
	} {
		e, err := read(t, text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if _, err := e.Task(rows(t, e)[0]); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}

// read opens the rows of a file of one line.
func read(t *testing.T, text string) (*bfcl.Env, error) {
	t.Helper()
	name := filepath.Join(t.TempDir(), "rows.jsonl")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	e := open(t, bfcl.Config{Dataset: []string{name}})
	_, err := e.Rows(t.Context(), envs.Train, datasets.Options{})
	return e, err
}
