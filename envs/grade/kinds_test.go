package grade_test

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"hermes/backends"
	"hermes/backends/local"
	"hermes/envs"
	"hermes/envs/grade"
	"hermes/trajectory"
)

func TestChoice(t *testing.T) {
	const four = `{"answer":"B","choices":["red","blue","green","grey"]}`
	table(t, []graded{
		{`choice`, four, "The answer is B.", 1},
		{`choice`, four, "The answer is (B)", 1},
		{`choice`, four, `so \boxed{B}`, 1},
		{`choice`, four, `\boxed{\text{B}}`, 1},
		{`choice`, four, `\boxed{B. blue}`, 1},
		{`choice`, four, "**Answer: B**", 1},
		{`choice`, four, "B", 1},
		{`choice`, four, "b)", 1},
		{`choice`, four, "(B) blue", 1},
		{`choice`, four, "A is wrong. The answer is A? No, the answer is B", 1},
		{`choice`, four, "The answer is C, not B.", 0},
		{`choice`, four, "I think A bird told me", 0},
		{`choice`, four, "I do not know", 0},
		{`choice`, four, "Z", 0},
		{`choice`, `{"answer":1,"choices":["x","y"]}`, "B", 1},
		{`choice`, `{"answer":"y","choices":["x","y"]}`, "B", 1},
		{`choice`, `{"answer":"(C)"}`, "Answer: C", 1},
	})
	for answer, want := range map[string]float64{"I do not know": 1, "The answer is C": 0} {
		if s := score(t, "choice", four, answer); s.Metrics["unparsed"] != want {
			t.Errorf("%q: unparsed %g, want %g", answer, s.Metrics["unparsed"], want)
		}
	}
	s, _ := grade.Parse("choice")
	if _, err := s.Bind(row(t, `{"answer":"E","choices":["x","y"]}`)); err == nil {
		t.Error("a choice that does not exist was taken as gold")
	}
}

func TestMathKind(t *testing.T) {
	table(t, []graded{
		{`math`, `{"answer":"$\\frac{1}{2}$"}`, "It is 0.5", 1},
		{`math`, `{"answer":"[-2,7]"}`, `$-2\le x\le 7$`, 1},
		{`{kind: math, relations: false}`, `{"answer":"[-2,7]"}`, `$-2\le x\le 7$`, 0},
		{`{kind: math, places: 2}`, `{"answer":"1/3"}`, `0.33`, 1},
		{`{kind: math, spelling: true}`, `{"answer":"0.1, 4"}`, `\boxed{4, .1}`, 0},
		{`math`, `{"answer":"12"}`, "no idea", 0},
	})
}

func TestJSON(t *testing.T) {
	table(t, []graded{
		{`json`, `{"answer":{"a":1,"b":[1,2]}}`, "```json\n{\"b\": [1.0, 2e0], \"a\": 1}\n```", 1},
		{`json`, `{"answer":"{\"a\": 1}"}`, `first {"a": 2}, then {"a": 1}.`, 1},
		{`json`, `{"answer":{"a":1}}`, `{"a": 1, "b": 2}`, 0},
		{`{kind: json, subset: true}`, `{"answer":{"a":1}}`, `{"a": 1, "b": 2}`, 1},
		{`{kind: json, ignore: [b]}`, `{"answer":{"a":1}}`, `{"a": 1, "b": 2}`, 1},
		{`json`, `{"answer":[1,2]}`, `[2,1]`, 0},
		{`{kind: json, unordered: true}`, `{"answer":[[1],[2],[1]]}`, `[[1],[1],[2]]`, 1},
		{`{kind: json, unordered: true}`, `{"answer":[1,2,1]}`, `[1,2,2]`, 0},
		{`json`, `{"answer":{"a":"1"}}`, `{"a": 1}`, 0},
		{`json`, `{"answer":{"a":null}}`, `{}`, 0},
		{`json`, `{"answer":{"a":1}}`, `no JSON here {`, 0},
		{`json`, `{"answer":{"a":1}}`, strings.Repeat("[", 5000), 0},
		{`json`, `{"answer":1e400}`, `1e999999999`, 0},
		{`schema`, `{"schema":{"type":"object","required":["a"],"properties":{"a":{"type":"integer","minimum":3}}}}`, `{"a": 3}`, 1},
		{`schema`, `{"schema":{"type":"object","required":["a"],"properties":{"a":{"type":"integer","minimum":3}}}}`, `{"a": 2}`, 0},
		{`{kind: schema, schema: {type: array, items: {$ref: '#/$defs/n'}, $defs: {n: {type: number}}}}`, `{}`, `[1, 2.5]`, 1},
		{`{kind: schema, schema: {type: array, items: {$ref: '#/$defs/n'}, $defs: {n: {type: number}}}}`, `{}`, `[1, "2.5"]`, 0},
	})
	for _, text := range []string{
		`{kind: schema, schema: {type: nonsense}}`,
		`{kind: schema, schema: {$ref: 'file:///etc/passwd'}}`,
		`{kind: schema, schema: {$ref: 'http://127.0.0.1/x'}}`,
	} {
		if _, err := grade.Parse(text); err == nil {
			t.Errorf("%s was taken", text)
		}
	}
}

// The values are those of rapidfuzz 3 (levenshtein), rouge-score 0.1 (rougeL, no stemmer) and
// SQuAD's own script (f1).
func TestSimilarity(t *testing.T) {
	for _, tt := range []struct {
		a, b                string
		distance, rouge, f1 float64
	}{
		{"the cat sat on the mat", "the cat was sitting on a mat", 0.5714285714285714, 0.6153846153846153, 0.6666666666666665},
		{"kitten", "sitting", 0.5714285714285714, 0, 0},
		{"police killed the gunman", "the gunman kill police", 0.125, 0.5, 0.6666666666666666},
		{"Überraschung, naïve café!", "uberraschung naive cafe", 0.8, 0, 0},
		{"a b c d e f", "f e d c b a", 0.4545454545454546, 0.16666666666666666, 1},
		{"", "x", 0, 0, 0},
		{"same text 42", "same text 42", 1, 1, 1},
	} {
		for measure, want := range map[string]float64{"levenshtein": tt.distance, "rouge-l": tt.rouge, "f1": tt.f1} {
			if got := grade.Similarity(measure, tt.a, tt.b); math.Abs(got-want) > 1e-9 {
				t.Errorf("%s of %q and %q is %.17g, want %.17g", measure, tt.a, tt.b, got, want)
			}
		}
	}
	s := score(t, `[exact, {kind: similarity}]`, `{"answer":"kitten"}`, "sitting")
	if s.Reward != 0 || s.Parts["similarity"] < 0.57 {
		t.Errorf("likeness counts, or is not reported: %+v", s)
	}
	table(t, []graded{{`{kind: similarity, measure: f1}`, `{"answer":"the gunman"}`, "a gunman", 1}})
}

func TestCallGraders(t *testing.T) {
	call := func(name, args string) trajectory.Call { return trajectory.Call{Name: name, Arguments: args} }
	f1 := call("f", `{"n":1,"m":1}`)
	f2 := call("f", `{"n":2}`)
	g := call("g", `{"a":[1]}`)
	const loose = `{"expected_tools":[{"name":"f"},{"name":"f","arguments":{"n":1}}]}`
	for _, tt := range []struct {
		spec, row string
		calls     []trajectory.Call
		want      float64
	}{
		{`calls`, loose, []trajectory.Call{f1, f2}, 1}, // the first fits both, the second one only
		{`calls`, loose, []trajectory.Call{f2, f1}, 1},
		{`{kind: calls, ordered: true}`, loose, []trajectory.Call{f1, f2}, 0.5},
		{`{kind: calls, ordered: true, all: true}`, loose, []trajectory.Call{f1, f2}, 0},
		{`{kind: calls, ordered: true}`, loose, []trajectory.Call{f2, g, f1}, 1},
		{`{kind: calls, only: true}`, loose, []trajectory.Call{f2, g, f1}, 0},
		{`{kind: calls, arguments: exact}`, `{"expected_tools":[{"name":"f","arguments":{"n":1}}]}`, []trajectory.Call{f1}, 0},
		{`{kind: calls, arguments: ignore}`, `{"expected_tools":[{"name":"f","arguments":{"n":7}}]}`, []trajectory.Call{f1}, 1},
		{`{kind: calls, field: want}`, `{"want":["g"]}`, []trajectory.Call{g}, 1},
		{`{kind: calls, defaults: true}`, `{"expected_tools":[{"name":"f","arguments":{"unit":"C"}}]}`, []trajectory.Call{f2}, 1},
		{`calls`, `{"expected_tools":[{"name":"f","arguments":{"unit":"C"}}]}`, []trajectory.Call{f2}, 0},
		{`calls`, `{"expected_tools":[{"name":"f","arguments":{"n":1}}]}`, []trajectory.Call{call("f", `{"n":`)}, 0},
		{`calls`, `{"expected_tools":["f"]}`, nil, 0},
		{`sequence`, `{"actions":["f","g"]}`, []trajectory.Call{f1, f2, g}, 1},
		{`sequence`, `{"actions":["g","f"]}`, []trajectory.Call{f1, f2, g}, 0.5},
		{`{kind: sequence, how: exact}`, `{"actions":["f","g"]}`, []trajectory.Call{f1, g}, 1},
		{`{kind: sequence, how: exact}`, `{"actions":["f","g"]}`, []trajectory.Call{f1, g, g}, 0},
		{`{kind: sequence, how: exact, ignore: [f]}`, `{"actions":["g"]}`, []trajectory.Call{f1, g, f2}, 1},
		{`{kind: sequence, how: exact, only: [f]}`, `{"actions":["f","g"]}`, []trajectory.Call{f1, g}, 1},
		{`{kind: sequence, how: prefix}`, `{"actions":["f","g"]}`, []trajectory.Call{f1, f2, g}, 0.5},
		{`{kind: sequence, how: suffix}`, `{"actions":["f","g"]}`, []trajectory.Call{f1, f2, g}, 1},
		{`{kind: sequence, all: true}`, `{"actions":["g","f"]}`, []trajectory.Call{f1, g}, 0},
		{`{kind: sequence, how: exact}`, `{"actions":[]}`, nil, 1},
		{`{kind: sequence, how: exact}`, `{"actions":[]}`, []trajectory.Call{g}, 0},
		{`sequence`, `{"actions":[{"name":"f","arguments":{"n":1,"m":9},"compare_args":["n"]}]}`, []trajectory.Call{f1}, 1},
	} {
		s, err := grade.Parse(tt.spec)
		if err != nil {
			t.Fatal(err)
		}
		gr, err := s.Bind(row(t, tt.row))
		if err != nil {
			t.Fatal(err)
		}
		ep := said(t, "done", tt.calls...)
		ep.Trace.Tools = []trajectory.ToolSpec{{Name: "f", Parameters: json.RawMessage(`{"properties":{"unit":{"default":"C"}}}`)}}
		got, err := gr.Grade(t.Context(), envs.World{}, ep)
		if err != nil || math.Abs(got.Reward-tt.want) > 1e-9 {
			t.Errorf("%s on %s with %v: %g (%v), want %g: %s", tt.spec, tt.row, tt.calls, got.Reward, err, tt.want, got.Detail)
		}
	}
}

// box opens a box on this machine.
func box(t *testing.T) backends.Sandbox {
	t.Helper()
	b, err := local.New(local.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close(context.Background()) })
	x, err := b.Open(t.Context(), backends.Spec{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { x.Close(context.Background()) })
	return x
}

func TestInTheBox(t *testing.T) {
	x := box(t)
	if err := x.WriteFile(t.Context(), "out.txt", []byte("four\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		spec, row string
		want      float64
	}{
		{`command`, `{"checker":"grep -q said"}`, 1},
		{`{kind: command, command: 'test "$(cat out.txt)" = five'}`, `{}`, 0},
		{`{kind: command, command: 'echo "reward: 0.25"'}`, `{}`, 0.25},
		{`{kind: command, command: 'echo "reward: +1"'}`, `{}`, 1},
		{`{kind: command, command: 'echo "reward: 1"; exit 1'}`, `{}`, 0},
		{`state`, `{"checks":[{"kind":"file_equals","path":"out.txt","text":"four"},{"kind":"absent","path":"out.txt"}]}`, 0.5},
		{`state`, `{"checks":[{"kind":"contains","path":"out.txt","text":"fou"}],"forbid":[{"kind":"command","command":"true"}]}`, 0},
		{`{kind: state, checks: [{kind: contains, path: out.txt, text: four}]}`, `{}`, 1},
		{`{kind: tests, command: sh t/run.sh}`, `{"tests":{"t/run.sh":"echo ok 1; echo not ok 2; exit 1"}}`, 0},
		{`{kind: tests, command: sh t/run.sh, share: true}`, `{"tests":{"t/run.sh":"echo ok 1; echo not ok 2; exit 1"}}`, 0.5},
		{`tests`, `{"tests":{"t/run.sh":"grep -q four out.txt"},"test_command":["sh","t/run.sh"]}`, 1},
		{`{kind: tests, share: true, command: cat log; false, files: {log: "=== 3 passed, 1 failed in 0.1s ==="}}`, `{}`, 0.75},
		{`{kind: tests, share: true, command: cat log; false, files: {log: "Ran 4 tests in 0s\n\nFAILED (failures=1, errors=2)"}}`, `{}`, 0.25},
		{`{kind: tests, share: true, command: cat log; false, files: {log: "--- PASS: A (0s)\n--- FAIL: B (0s)"}}`, `{}`, 0.5},
	} {
		s, err := grade.Parse(tt.spec)
		if err != nil {
			t.Fatal(err)
		}
		r := row(t, tt.row)
		g, err := s.Bind(r)
		if err != nil {
			t.Fatal(err)
		}
		if !s.NeedsBox(r) {
			t.Errorf("%s does not ask for a box", tt.spec)
		}
		got, err := g.Grade(t.Context(), envs.World{Box: x}, said(t, "said"))
		if err != nil || math.Abs(got.Reward-tt.want) > 1e-9 {
			t.Errorf("%s on %s: %g (%v), want %g: %s", tt.spec, tt.row, got.Reward, err, tt.want, got.Detail)
		}
	}
}

// What fails of ours is an error, never a zero.
func TestGraderFails(t *testing.T) {
	x := box(t)
	for _, spec := range []string{
		`{kind: command, command: no-such-program-at-all}`, `{kind: command, timeout: 20ms, command: sleep 60}`,
		`{kind: tests, timeout: 20ms, command: sleep 60, files: {a: b}}`,
		`{kind: command, command: 'echo "reward: NaN"'}`, `{kind: command, command: 'echo "reward: 1e999"'}`, `{kind: command, command: 'echo "reward: none"'}`,
		`{kind: tests, files: {a: b}, command: no-such-program-at-all}`, `{kind: state, checks: [{kind: command, command: x}]}`,
		`[exact, {kind: command, command: no-such-program-at-all}]`, `{kind: best, of: [{kind: rubric, rubric: x}]}`,
	} {
		s, err := grade.Parse(spec)
		if err != nil {
			t.Fatal(err)
		}
		g, err := s.Bind(row(t, `{"answer":"x"}`))
		if err != nil {
			t.Fatal(err)
		}
		w := envs.World{Box: x}
		if strings.Contains(spec, "state") {
			w.Box = lost{x}
		}
		if got, err := g.Grade(t.Context(), w, said(t, "x")); err == nil {
			t.Errorf("%s scored %g", spec, got.Reward)
		}
	}
}

// lost is a box that is gone.
type lost struct{ backends.Sandbox }

func (lost) Exec(context.Context, backends.Cmd) (backends.Result, error) {
	return backends.Result{}, backends.ErrLost
}

// bench is a judge that says one thing after the other.
type bench struct {
	says  []string
	asked []string
}

func (b *bench) Ask(_ context.Context, prompt string, _ json.RawMessage) (json.RawMessage, error) {
	b.asked = append(b.asked, prompt)
	if len(b.says) == 0 {
		return nil, errors.New("refused")
	}
	said := b.says[0]
	b.says = b.says[1:]
	return json.RawMessage(said), nil
}

func TestPairwise(t *testing.T) {
	say := func(s string) string { return `{"reason":"so","better":"` + s + `"}` }
	for _, tt := range []struct {
		says                       []string
		want, firstWins, agreement float64
	}{
		{[]string{say("first"), say("second")}, 1, 0.5, 1},
		{[]string{say("second"), say("first")}, 0, 0.5, 1},
		{[]string{say("first"), say("first")}, 0.5, 1, 0},
		{[]string{say("second"), say("second")}, 0.5, 0, 0},
		{[]string{say("tie"), say("tie")}, 0.5, 0.5, 1},
		{[]string{say("first"), say("tie")}, 0.5, 0.75, 0},
	} {
		s, err := grade.Parse(`{kind: pairwise, field: other, rubric: Be short.}`)
		if err != nil {
			t.Fatal(err)
		}
		g, err := s.Bind(row(t, `{"other":"theirs"}`))
		if err != nil {
			t.Fatal(err)
		}
		j := &bench{says: tt.says}
		got, err := g.Grade(t.Context(), envs.World{Judge: j, Rand: rand.New(rand.NewPCG(1, 2))}, said(t, "mine"))
		if err != nil || got.Reward != tt.want || got.Metrics["first_wins"] != tt.firstWins || got.Metrics["consistent"] != tt.agreement {
			t.Errorf("%v: %+v, %v", tt.says, got, err)
		}
		if len(j.asked) != 2 || strings.Index(j.asked[0], "mine") > strings.Index(j.asked[0], "theirs") ||
			strings.Index(j.asked[1], "mine") < strings.Index(j.asked[1], "theirs") {
			t.Fatalf("the places are not changed: %v", j.asked)
		}
	}
	g, err := grade.Pairwise("", "theirs")
	if err != nil {
		t.Fatal(err)
	}
	for _, says := range [][]string{nil, {say("first")}, {`{"reason":"x","better":"both"}`}} {
		if got, err := g.Grade(t.Context(), envs.World{Judge: &bench{says: says}, Rand: rand.New(rand.NewPCG(1, 2))}, said(t, "mine")); err == nil {
			t.Errorf("a judge that says %v scored %g", says, got.Reward)
		}
	}
	if _, err := grade.Pairwise("", " "); err == nil {
		t.Error("a comparison with nothing was taken")
	}
}

func TestPanel(t *testing.T) {
	say := func(f string) string { return `{"reason":"so","score":` + f + `}` }
	for _, tt := range []struct {
		spec                string
		says                []string
		want, spread, moved float64
	}{
		{`{kind: panel, votes: 3}`, []string{say("1"), say("0.5"), say("0")}, 0.5, 1, 0.25},
		{`{kind: panel, votes: 3, rule: majority}`, []string{say("0.9"), say("0.6"), say("0")}, 1, 0.9, 0.5},
		{`{kind: panel, rule: majority, of: [{kind: rubric, rubric: a}, {kind: rubric, rubric: b}]}`, []string{say("1"), say("0")}, 0.5, 1, 0.5},
	} {
		s, err := grade.Parse(tt.spec)
		if err != nil {
			t.Fatal(err)
		}
		r := row(t, `{"rubric":"be right"}`)
		g, err := s.Bind(r)
		if err != nil || !s.NeedsJudge(r) {
			t.Fatal(err)
		}
		j := &bench{says: tt.says}
		got, err := g.Grade(t.Context(), envs.World{Judge: j, Rand: rand.New(rand.NewPCG(1, 2))}, said(t, "x"))
		if err != nil || math.Abs(got.Reward-tt.want) > 1e-9 || math.Abs(got.Metrics["spread"]-tt.spread) > 1e-9 ||
			math.Abs(got.Metrics["drop_one"]-tt.moved) > 1e-9 {
			t.Errorf("%s: %+v, %v", tt.spec, got, err)
		}
		if len(got.Parts) != len(tt.says) || j.asked[0] == j.asked[1] {
			t.Errorf("%s: %d parts; the questions are the same: %v", tt.spec, len(got.Parts), j.asked[0] == j.asked[1])
		}
		if got, err := g.Grade(t.Context(), envs.World{Judge: &bench{says: []string{say("1")}}, Rand: rand.New(rand.NewPCG(1, 2))}, said(t, "x")); err == nil {
			t.Errorf("%s: a panel with a vote missing scored %g", tt.spec, got.Reward)
		}
	}
	s, err := grade.Parse(`{kind: rubric, rubric: [{text: a, weight: 3}, b]}`)
	if err != nil {
		t.Fatal(err)
	}
	g, err := s.Bind(row(t, `{}`))
	if err != nil {
		t.Fatal(err)
	}
	j := &bench{says: []string{`{"criteria":[{"reason":"x","score":1},{"reason":"y","score":0}]}`}}
	if got, err := g.Grade(t.Context(), envs.World{Judge: j, Rand: rand.New(rand.NewPCG(1, 2))}, said(t, "x")); err != nil || got.Reward != 0.75 {
		t.Errorf("criteria of the grader's own: %+v, %v", got, err)
	}
	for _, text := range []string{
		`panel`,
		`{kind: panel, votes: 99}`,
		`{kind: panel, votes: 3, rule: median}`,
		`{kind: panel, of: [{kind: exact, gate: true}, exact]}`,
	} {
		if _, err := grade.Parse(text); err == nil {
			t.Errorf("%s was taken", text)
		}
	}
}
