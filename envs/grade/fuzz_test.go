package grade_test

import (
	"encoding/json"
	"testing"

	"hermes/datasets"
	"hermes/envs"
	"hermes/envs/grade"
)

// JSON is equal to itself, written in another way or behind words; a changed one is not.
func FuzzJSON(f *testing.F) {
	for _, s := range []string{`{"a":[1,2.50,{"b":null}],"c":"x"}`, `[]`, `[[1],[1]]`, `{"":{"":0}}`, `[1e3,-0,0.0]`, `["{","}"]`} {
		f.Add(s)
	}
	spec := func(text string) grade.Spec {
		s, err := grade.Parse(text)
		if err != nil {
			f.Fatal(err)
		}
		return s
	}
	plain, free := spec(`json`), spec(`{kind: json, unordered: true, subset: true}`)
	f.Fuzz(func(t *testing.T, text string) {
		var v any
		if json.Unmarshal([]byte(text), &v) != nil {
			return
		}
		switch v.(type) {
		case map[string]any, []any:
		default:
			return // behind words, only objects and lists are found
		}
		r := datasets.Row{ID: "r", Scoring: datasets.Scoring{Answer: json.RawMessage(text)}}
		other, err := json.MarshalIndent(json.RawMessage(text), "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range []grade.Spec{plain, free} {
			g, err := s.Bind(r)
			if err != nil {
				t.Fatalf("%q: %v", text, err)
			}
			for _, answer := range []string{text, string(other), "It is\n```json\n" + string(other) + "\n```\n"} {
				if got, err := g.Grade(t.Context(), envs.World{}, said(t, answer)); err != nil || got.Reward != 1 {
					t.Errorf("%q is not itself, said as %q: %v, %s", text, answer, err, got.Detail)
				}
			}
			if got, err := g.Grade(t.Context(), envs.World{}, said(t, `[`+text+`,"qqzz"]`)); err != nil || got.Reward == 1 {
				t.Errorf("%q is something else too: %v", text, err)
			}
		}
	})
}

// A spec that is read is read the same way from its own spelling, and no text is too odd.
func FuzzSpec(f *testing.F) {
	for _, s := range []string{
		`exact`,
		`[{kind: number, rel: 1}, contains]`,
		`{kind: best, of: [exact, {kind: worst, of: [math]}]}`,
		"- kind: panel\n  votes: 3",
		`{"kind":"schema","schema":{"type":"array"}}`,
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := grade.Parse(text)
		if err != nil {
			return
		}
		again, err := grade.Parse(s.String())
		if err != nil || again.String() != s.String() || again.Kind != s.Kind {
			t.Errorf("%q is written as %q, which is read as %q: %v", text, s, again, err)
		}
	})
}
