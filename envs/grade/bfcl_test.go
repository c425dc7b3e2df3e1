package grade_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"testing"

	"hermes/datasets"
	"hermes/envs"
	"hermes/envs/grade"
	"hermes/internal/realdata"
	"hermes/trajectory"
)

// rowsOf reads a category: rows with their gold answers.
func rowsOf(t *testing.T, category string) []datasets.Row {
	t.Helper()
	read := func(name string) []map[string]json.RawMessage {
		f, err := os.Open(realdata.Path(t, "bfcl", name+".jsonl"))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		var out []map[string]json.RawMessage
		lines := bufio.NewScanner(f)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			var m map[string]json.RawMessage
			if err := json.Unmarshal(lines.Bytes(), &m); err != nil {
				t.Fatal(err)
			}
			out = append(out, m)
		}
		return out
	}
	questions := read(category)
	if category == "irrelevance" {
		for _, q := range questions {
			q["ground_truth"] = json.RawMessage(`[]`)
		}
	} else {
		gold := map[string]json.RawMessage{}
		for _, a := range read(category + ".answer") {
			gold[string(a["id"])] = a["ground_truth"]
		}
		for _, q := range questions {
			q["ground_truth"] = gold[string(q["id"])]
		}
	}
	var out []datasets.Row
	for _, q := range questions {
		raw, err := json.Marshal(q)
		if err != nil {
			t.Fatal(err)
		}
		r := row(t, string(raw))
		r.ID = string(q["id"])
		out = append(out, r)
	}
	return out
}

type fcall struct {
	name string
	args map[string]any
}

// golden picks the accepted values number choice (the last one where there are fewer).
func golden(t *testing.T, r datasets.Row, choice int) []fcall {
	t.Helper()
	var list []map[string]map[string][]any
	if err := json.Unmarshal(r.Scoring.GroundTruth, &list); err != nil {
		t.Fatal(err)
	}
	var out []fcall
	for _, one := range list {
		for name, params := range one {
			c := fcall{name, map[string]any{}}
			for p, values := range params {
				if v, ok := pick(values, choice); ok {
					c.args[p] = v
				}
			}
			out = append(out, c)
		}
	}
	return out
}

func pick(list []any, choice int) (any, bool) {
	v := list[min(choice, len(list)-1)]
	if v == "" {
		return nil, false // left out
	}
	return resolved(v), true
}

// resolved picks of the lists within objects.
func resolved(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := map[string]any{}
		for k, a := range v {
			list, ok := a.([]any)
			if !ok {
				out[k] = a
				continue
			}
			if one, ok := pick(list, 0); ok {
				out[k] = one
			}
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = resolved(v[i])
		}
		return out
	}
	return v
}

func bound(t *testing.T, spec string, r datasets.Row) grade.Grader {
	t.Helper()
	s, err := grade.Parse(spec)
	if err != nil {
		t.Fatal(err)
	}
	g, err := s.Bind(r)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func accepted(t *testing.T, g grade.Grader, calls []fcall) (bool, string) {
	t.Helper()
	var made []trajectory.Call
	for _, c := range calls {
		raw, err := json.Marshal(c.args)
		if err != nil {
			t.Fatal(err)
		}
		made = append(made, trajectory.Call{Name: c.name, Arguments: string(raw)})
	}
	got, err := g.Grade(t.Context(), envs.World{}, said(t, "done", made...))
	if err != nil {
		t.Fatal(err)
	}
	return got.Reward == 1, got.Detail
}

// wrong makes every call list that differs from the gold one in one thing.
func wrong(calls []fcall) map[string][]fcall {
	out := map[string][]fcall{"a call too many": append(slices.Clone(calls), calls[0]), "no call": nil}
	if len(calls) > 1 {
		out["a call too few"] = calls[1:]
	}
	change := func(what string, i int, f func(c *fcall)) {
		list := slices.Clone(calls)
		list[i] = fcall{calls[i].name, maps.Clone(calls[i].args)}
		f(&list[i])
		out[fmt.Sprintf("%s of call %d", what, i)] = list
	}
	for i, c := range calls {
		change("name", i, func(c *fcall) { c.name += "x" })
		change("another argument", i, func(c *fcall) { c.args["no_such_argument"] = 1 })
		for p, v := range c.args {
			change("value of "+p, i, func(c *fcall) { c.args[p] = spoiled(v) })
			change("type of "+p, i, func(c *fcall) { c.args[p] = map[string]any{"no": "such"} })
		}
	}
	return out
}

func spoiled(v any) any {
	switch v := v.(type) {
	case string:
		return v + " qqzz"
	case float64:
		return v + 1234567
	case bool:
		return "qqzz"
	case []any:
		return append(slices.Clone(v), "qqzz")
	case map[string]any:
		m := maps.Clone(v)
		m["qqzz"] = 1
		return m
	}
	return "qqzz"
}

// Every gold call of the leaderboard's data is accepted, every spoiled one refused.
func TestBFCLData(t *testing.T) {
	for _, category := range []string{"simple_python", "multiple", "parallel", "parallel_multiple"} {
		gold := 0
		bad := 0
		acceptedBad := 0
		missed := 0
		for _, r := range rowsOf(t, category) {
			g := bound(t, "bfcl", r)
			for choice := range 3 {
				calls := golden(t, r, choice)
				gold += 2 // forwards and backwards
				if ok, why := accepted(t, g, calls); !ok {
					missed++
					t.Logf("%s, choice %d: gold refused: %s", r.ID, choice, why)
				}
				reversed := slices.Clone(calls)
				slices.Reverse(reversed)
				if ok, why := accepted(t, g, reversed); !ok {
					missed++
					t.Logf("%s, choice %d, in reverse: gold refused: %s", r.ID, choice, why)
				}
			}
			for what, calls := range wrong(golden(t, r, 0)) {
				bad++
				if ok, _ := accepted(t, g, calls); ok {
					acceptedBad++
					t.Logf("%s: accepted with wrong %s: %v", r.ID, what, calls)
				}
			}
		}
		if missed*100 > gold || acceptedBad*100 > bad || gold == 0 || bad == 0 {
			t.Errorf("%s: %d of %d gold ones refused, %d of %d spoiled ones accepted", category, missed, gold, acceptedBad, bad)
		}
		t.Logf("%s: %d of %d gold ones refused, %d of %d spoiled ones accepted", category, missed, gold, acceptedBad, bad)
	}
	for _, r := range rowsOf(t, "irrelevance") {
		if ok, _ := accepted(t, bound(t, "bfcl", r), nil); !ok {
			t.Errorf("%s: no call is refused", r.ID)
		}
		if ok, _ := accepted(t, bound(t, "bfcl", r), []fcall{{"f", nil}}); ok {
			t.Errorf("%s: a call is accepted", r.ID)
		}
	}
}

// The leaderboard refuses a valid set by taking the first call that fits; we do not.
func TestBFCLOrder(t *testing.T) {
	r := row(t, `{"function":[{"name":"a.f","parameters":{"type":"dict","properties":{"x":{"type":"integer"}},"required":["x"]}}],
		"ground_truth":[{"a.f":{"x":[1,2]}},{"a.f":{"x":[1]}}]}`)
	one, two := fcall{"a_f", map[string]any{"x": 1}}, fcall{"a.f", map[string]any{"x": 2}}
	for _, tt := range []struct {
		spec  string
		calls []fcall
		want  bool
	}{
		{"bfcl", []fcall{one, two}, true}, {"bfcl", []fcall{two, one}, true}, {"bfcl", []fcall{two, two}, false},
		{"bfcl-greedy", []fcall{one, two}, false}, {"bfcl-greedy", []fcall{two, one}, true},
	} {
		if got, why := accepted(t, bound(t, tt.spec, r), tt.calls); got != tt.want {
			t.Errorf("%s on %v: %v, want %v: %s", tt.spec, tt.calls, got, tt.want, why)
		}
	}
}

func TestBFCLTypes(t *testing.T) {
	const rest = `{"function":[{"name":"f","parameters":{"properties":{"i":{"type":"integer"},"d":{"type":"float"},"s":{"type":"string"},"l":{"type":"array","items":{"type":"string"}},"o":{"type":"dict"}}}}],"ground_truth":[{"f":%s}]}`
	for _, tt := range []struct {
		gold, args string
		want       bool
	}{
		{`{"d":[5.0]}`, `{"d":5}`, true},
		{`{"i":[5]}`, `{"i":5.0}`, false},
		{`{"i":[1]}`, `{"i":true}`, false},
		{`{"i":["n"]}`, `{"i":"n"}`, true}, // a variable's name
		{`{"s":["New York, NY"]}`, `{"s":"new-york ny."}`, true},
		{`{"s":["a"]}`, `{"s":"b"}`, false},
		{`{"l":[["A","b"]]}`, `{"l":["a","B"]}`, true},
		{`{"l":[["a","b"]]}`, `{"l":["b","a"]}`, false},
		{`{"l":[["a"]]}`, `{"l":[1]}`, false},
		{`{"s":["a",""],"i":[1]}`, `{"i":1}`, true},
		{`{"s":["a"],"i":[1]}`, `{"i":1}`, false},
		{`{"o":[{"k":["x",""],"n":[1]}]}`, `{"o":{"n":1}}`, true},
		{`{"o":[{"k":["x"],"n":[1]}]}`, `{"o":{"n":1}}`, false},
		{`{"o":[{"k":["x"]}]}`, `{"o":{"k":"x","z":1}}`, false},
		{`{"i":[1]}`, `[1]`, false},
	} {
		s, err := grade.Parse("bfcl")
		if err != nil {
			t.Fatal(err)
		}
		g, err := s.Bind(row(t, fmt.Sprintf(rest, tt.gold)))
		if err != nil {
			t.Fatal(err)
		}
		got, err := g.Grade(t.Context(), envs.World{}, said(t, "", trajectory.Call{Name: "f", Arguments: tt.args}))
		if err != nil || (got.Reward == 1) != tt.want {
			t.Errorf("gold %s, given %s: %v, want %v: %s", tt.gold, tt.args, got.Reward, tt.want, got.Detail)
		}
	}
}
