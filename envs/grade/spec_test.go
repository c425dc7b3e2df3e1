package grade_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"hermes/datasets"
	"hermes/envs"
	"hermes/envs/grade"
	"hermes/trajectory"
)

// row reads a row from its fields.
func row(t testing.TB, fields string) datasets.Row {
	t.Helper()
	r := datasets.Row{ID: "r1", Prompt: []trajectory.Message{trajectory.Text(trajectory.User, "task")}}
	var all map[string]json.RawMessage
	if err := json.Unmarshal([]byte(fields), &all); err != nil {
		t.Fatalf("%s: %v", fields, err)
	}
	into := map[string]*json.RawMessage{"answer": &r.Scoring.Answer, "expected": &r.Scoring.Expected, "expected_tools": &r.Scoring.ExpectedTools,
		"rubric": &r.Scoring.Rubric, "checker": &r.Scoring.Checker, "ground_truth": &r.Scoring.GroundTruth, "solution": &r.Scoring.Solution}
	for name, to := range into {
		*to = all[name]
		delete(all, name)
	}
	r.Extra = maps.Clone(all)
	return r
}

// score grades an answer by a spec.
func score(t testing.TB, spec, fields, answer string) trajectory.Score {
	t.Helper()
	s, err := grade.Parse(spec)
	if err != nil {
		t.Fatal(err)
	}
	g, err := s.Bind(row(t, fields))
	if err != nil {
		t.Fatal(err)
	}
	got, err := g.Grade(context.Background(), envs.World{}, said(t, answer))
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// said is an episode that ends in text, after the calls given.
func said(t testing.TB, text string, calls ...trajectory.Call) envs.Episode {
	t.Helper()
	tr := trajectory.New(trajectory.ModeText, nil)
	commit := func(m trajectory.Message, f trajectory.Finish) {
		if _, err := tr.Commit(trajectory.Turn{Finish: f, Sampled: trajectory.Delta{Message: m}}); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range calls {
		m := trajectory.Text(trajectory.Assistant, "")
		m.Calls = []trajectory.Call{c}
		commit(m, trajectory.FinishCalls)
	}
	commit(trajectory.Text(trajectory.Assistant, text), trajectory.FinishStop)
	return envs.Episode{Trace: tr, Stop: trajectory.Stop{Reason: trajectory.StopAnswer}}
}

type graded struct {
	spec, row, answer string
	want              float64
}

func table(t *testing.T, tests []graded) {
	t.Helper()
	for _, tt := range tests {
		if got := score(t, tt.spec, tt.row, tt.answer); got.Reward < tt.want-1e-9 || got.Reward > tt.want+1e-9 {
			t.Errorf("%s on %s: %q is worth %g, want %g: %s", tt.spec, tt.row, tt.answer, got.Reward, tt.want, got.Detail)
		}
	}
}

func TestText(t *testing.T) {
	table(t, []graded{
		{`exact`, `{"answer":"Paris"}`, " Paris\n", 1},
		{`exact`, `{"answer":"Paris"}`, "paris", 0},
		{`exact`, `{"answer":["Paris","paris"]}`, "paris", 1},
		{`exact`, `{"answer":"caf\u00e9"}`, "cafe\u0301", 1},
		{`{kind: exact, steps: [case, punctuation]}`, `{"answer":"u.s.a."}`, "USA", 1},
		{`{kind: exact, field: label}`, `{"answer":"x","label":"y"}`, "y", 1},
		{`contains`, `{"answer":"Paris"}`, "It is paris.", 1},
		{`{kind: contains, case: true}`, `{"answer":"Paris"}`, "It is paris.", 0},
		{`{kind: contains, words: true}`, `{"answer":"art"}`, "a party, smart", 0},
		{`{kind: contains, words: true}`, `{"answer":"art"}`, "smart art!", 1},
		{`{kind: contains, all: true}`, `{"answer":["a1","b2"]}`, "b2 and a1", 1},
		{`{kind: contains, all: true}`, `{"answer":["a1","b2"]}`, "b2", 0},
		{`{kind: contains, text: done}`, `{}`, "Done.", 1},
		{`regex`, `{"answer":"^[a-c]+$"}`, "abc", 1},
		{`{kind: regex, pattern: 'final: *(\S+)'}`, `{"answer":"b"}`, "final: a, no, final: b", 1},
		{`{kind: regex, pattern: 'final: *(\S+)'}`, `{"answer":"a"}`, "final: a then final: b", 0},
		{`{kind: regex, pattern: '\d{3}'}`, `{}`, "x123", 1},
	})
}

func TestNumber(t *testing.T) {
	table(t, []graded{
		{`number`, `{"answer":"so\n#### 1,234"}`, "it is $1234.00", 1},
		{`number`, `{"answer":"#### 12"}`, "12 no 13", 0},
		{`number`, `{"answer":0.5}`, `\boxed{1/2} of 7`, 1},
		{`number`, `{"answer":"50%"}`, "0.5", 1},
		{`number`, `{"answer":"20"}`, "It is 20%.", 1},
		{`number`, `{"answer":"0.2"}`, "It is 20%.", 1},
		{`number`, `{"answer":"20%"}`, "It is 2000%.", 0},
		{`number`, `{"answer":"12"}`, "pages 10-12", 1},
		{`number`, `{"answer":"-12"}`, "10 to -12", 1},
		{`number`, `{"answer":"3"}`, "2 - 3", 0},
		{`number`, `{"answer":"1000"}`, "1e3", 1},
		{`number`, `{"answer":"5"}`, "1/1e999999999", 0},
		{`number`, `{"answer":"3/4"}`, "75 %", 1},
		{`number`, `{"answer":"1/3"}`, "0.3333", 0},
		{`number`, `{"answer":"1/3"}`, "0.33333333", 1},
		{`{kind: number, rel: 0.001}`, `{"answer":"1/3"}`, "0.3333", 1},
		{`{kind: number, abs: 0.5, rel: 0}`, `{"answer":"10"}`, "10.5", 1},
		{`{kind: number, abs: 0.5, rel: 0}`, `{"answer":"10"}`, "10.51", 0},
		{`number`, `{"answer":"-5"}`, "the result is -5.", 1},
		{`number`, `{"answer":"5"}`, "1e999999999", 0},
		{`number`, `{"answer":"5"}`, "5/0", 0},
		{`number`, `{"answer":"7"}`, "no idea", 0},
		{`number`, `{"answer":"0.5"}`, `So $\frac12$.`, 1},
		{`number`, `{"answer":"2"}`, `So $\frac12$.`, 0},
		{`number`, `{"answer":"-3/4"}`, `\boxed{-\dfrac{3}{4}}`, 1},
		{`number`, `{"answer":"18"}`, `\boxed{18\text{ eggs}} in 7 days`, 1},
		{`number`, `{"answer":"1000"}`, `\(1{,}000\)`, 1},
		{`number`, `{"answer":"1000"}`, `$1\,000$`, 1},
	})
}

func TestCombined(t *testing.T) {
	table(t, []graded{
		{`[{kind: contains, weight: 3}, {kind: exact}]`, `{"answer":"x"}`, "x y", 0.75},
		{`[contains, {kind: regex, pattern: '^[a-z ]*$', gate: true}]`, `{"answer":"x"}`, "x y", 1},
		{`[contains, {kind: regex, pattern: '^[a-z]*$', gate: true}]`, `{"answer":"x"}`, "x y", 0},
		{`[{kind: regex, pattern: y, gate: true}]`, `{"answer":"x"}`, "x y", 1},
		{`{kind: best, of: [exact, contains]}`, `{"answer":"x"}`, "x y", 1},
		{`{kind: worst, of: [exact, contains]}`, `{"answer":"x"}`, "x y", 0},
		{`{kind: product, of: [{kind: weighted, of: [exact, contains]}, contains]}`, `{"answer":"x"}`, "x y", 0.5},
		{`[{"kind": "contains", "weight": 1}, {"kind": "exact", "weight": 0}]`, `{"answer":"x"}`, "x y", 1},
	})
	s := score(t, `[{kind: contains, name: a}, {kind: contains, text: z}, contains]`, `{"answer":"x"}`, "x y")
	if want := map[string]float64{"a": 1, "contains": 0, "contains_2": 1}; !maps.Equal(s.Parts, want) {
		t.Errorf("parts %v, want %v", s.Parts, want)
	}
}

// A gate that is not passed spares what follows it.
func TestGateFirst(t *testing.T) {
	spec, err := grade.Parse(`[{kind: rubric, rubric: Be right.}, {kind: exact, gate: true}]`)
	if err != nil {
		t.Fatal(err)
	}
	r := row(t, `{"answer":"x"}`)
	g, err := spec.Bind(r)
	if err != nil || !spec.NeedsJudge(r) {
		t.Fatal(err, spec.NeedsJudge(r))
	}
	if s, err := g.Grade(t.Context(), envs.World{}, said(t, "y")); err != nil || s.Reward != 0 {
		t.Errorf("a gate that is not passed: %v, %v", s, err)
	}
	if s, err := g.Grade(t.Context(), envs.World{}, said(t, "x")); err == nil {
		t.Errorf("without a judge the reward is %g", s.Reward)
	}
}

func TestBadSpecs(t *testing.T) {
	for text, want := range map[string]string{
		``:                        "nothing is written",
		`exakt`:                   "did you mean exact?",
		`{kind: numbr}`:           "did you mean number?",
		`{kind: number, rell: 1}`: "did you mean rel",
		"- kind: number\n- kind: exact\n  stps: []": "line 3: unknown key stps (did you mean steps?)",
		`{weight: 1}`:                             "without kind",
		`{kind: number, weight: -1}`:              "want 0 or more",
		`{kind: number, pass: 2}`:                 "want 0 to 1",
		`{kind: number, weight: .nan}`:            "want 0 or more",
		`{kind: number, rel: -1}`:                 "want 0 or more",
		`{kind: number, rel: x}`:                  "cannot unmarshal",
		`{kind: number, kind: exact}`:             "twice",
		`[]`:                                      "at least one",
		`[{kind: exact, weight: 0}, contains: 1]`: "",
		`[{kind: exact, weight: 0}]`:              "all weights are 0",
		`[none, exact]`:                           "none cannot stand",
		`{kind: rubric, rubric: [{weight: 1}]}`:   "says nothing",
		`{kind: best}`:                            "at least one",
		`{kind: regex, pattern: '('}`:             "missing closing",
		`{kind: regex, pattern: '(a)(b)'}`:        "at most one group",
		`{kind: exact, steps: [trimm]}`:           "did you mean trim?",
		`[&a {kind: exact}, *a]`:                  "aliases",
		strings.Repeat("[", 50) + "exact" + strings.Repeat("]", 50): "deeper",
		"exact\n---\nexact": "one document",
	} {
		if s, err := grade.Parse(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, %v; want %q", text, s, err, want)
		}
	}
}

func TestNeeds(t *testing.T) {
	for spec, fields := range map[string]string{
		"number":          `{"label":"4"}`,
		"calls":           `{"answer":"x"}`,
		"command":         `{}`,
		"rubric":          `{}`,
		"schema":          `{}`,
		"tests":           `{}`,
		"state":           `{}`,
		"bfcl":            `{}`,
		"sequence":        `{}`,
		"pairwise":        `{}`,
		"json":            `{}`,
		"choice":          `{}`,
		"math":            `{}`,
		"similarity":      `{}`,
		"[exact, number]": `{"rubric":"x"}`,
	} {
		s, err := grade.Parse(spec)
		if err != nil {
			t.Fatal(err)
		}
		var need *grade.NeedError
		if _, err := s.Bind(row(t, fields)); !errors.As(err, &need) || need.Row != "r1" {
			t.Errorf("%s on %s: %v", spec, fields, err)
		}
	}
	if _, err := (grade.Spec{}).Bind(row(t, `{}`)); !errors.Is(err, envs.ErrUnscored) {
		t.Errorf("a row with nothing: %v", err)
	}
	list, err := grade.Parse("[row, {kind: contains, text: x}]")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := list.Bind(row(t, `{}`)); err == nil || errors.Is(err, envs.ErrUnscored) {
		t.Errorf("a list on a row with nothing: %v", err)
	}
	s, _ := grade.Parse("number")
	if _, err := s.Bind(row(t, `{"answer":"red"}`)); err == nil || !strings.Contains(err.Error(), `"red" has no number`) {
		t.Errorf("a gold answer without a number: %v", err)
	}
}

func TestLoad(t *testing.T) {
	file := filepath.Join(t.TempDir(), "g.yaml")
	if err := os.WriteFile(file, []byte("- kind: exact\n- {kind: number, weight: 2}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	a, err := grade.Load(file)
	if err != nil {
		t.Fatal(err)
	}
	b, err := grade.Load(`[{"kind": "exact"}, {"weight": 2, "kind": "number"}]`)
	if err != nil || a.String() != b.String() || !strings.Contains(a.String(), "number") {
		t.Errorf("%v: %s and %s", err, a, b)
	}
	if zero, err := grade.Load(""); err != nil || !zero.IsZero() {
		t.Errorf("nothing: %v, %v", zero, err)
	}
	if _, err := grade.Load("exakt"); !errors.Is(err, grade.ErrUnknown) {
		t.Errorf("a typo: %v", err)
	}
	if _, err := grade.Load(file + "x"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no such file: %v", err)
	}
}

func TestKey(t *testing.T) {
	for _, tt := range []struct{ spec, row, a, b string }{
		{"number", `{}`, "so 1,000", "1000.0"},
		{"exact", `{}`, " x", "x "},
		{"", `{"answer":"4"}`, "it is 4", "4.0"},
		{"", `{"answer":"red"}`, "The red!", "red"},
		{"[{kind: contains}, {kind: number}]", `{}`, "1/2", "0.5"},
	} {
		s, err := grade.Load(tt.spec)
		if err != nil {
			t.Fatal(err)
		}
		a, ok1 := s.Key(row(t, tt.row), tt.a)
		b, ok2 := s.Key(row(t, tt.row), tt.b)
		if !ok1 || !ok2 || a != b {
			t.Errorf("%s: %q and %q are read as %q and %q", tt.spec, tt.a, tt.b, a, b)
		}
	}
	s, _ := grade.Load("number")
	if k, ok := s.Key(row(t, `{}`), "none"); ok {
		t.Errorf("nothing to read gave %q", k)
	}
}

func TestAuto(t *testing.T) {
	for fields, want := range map[string]string{
		`{"answer":"#### 4"}`:      "number",
		`{"checker":"true"}`:       "command",
		`{"expected_tools":["f"]}`: "calls",
		`{"rubric":"be good"}`:     "rubric",
	} {
		s, why, err := grade.Auto([]datasets.Row{row(t, fields), row(t, fields)})
		if err != nil || s.Kind != want || why == "" {
			t.Errorf("%s: %s (%s), %v; want %s", fields, s.Kind, why, err, want)
		}
	}
	if s, _, err := grade.Auto([]datasets.Row{row(t, `{"prompt":"x"}`)}); err == nil {
		t.Errorf("nothing to judge by: %v", s)
	}
	if s, why, err := grade.Auto([]datasets.Row{row(t, `{"answer":"4"}`), row(t, `{"answer":"red"}`)}); err != nil || s.Kind != "exact" {
		t.Errorf("a number and a word: %v %s %v", s, why, err)
	}
}

func ExampleCandidates() {
	r := datasets.Row{Scoring: datasets.Scoring{Answer: json.RawMessage(`"Half of 24. #### 12"`)}}
	for _, c := range grade.Candidates(r) {
		fmt.Println(c.Kind, c.Field, c.Reads)
	}
	// Output:
	// number answer 12
	// math answer 12
	// exact answer Half of 24. #### 12
}
