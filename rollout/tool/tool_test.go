package tool_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"

	"go.yaml.in/yaml/v3"

	"hermes/backends"
	"hermes/rollout/tool"
	"hermes/trajectory"
)

func TestRepairArguments(t *testing.T) {
	tests := []struct{ in, want string }{
		{"", "{}"}, {" null ", "{}"}, {`{"a": 1}`, `{"a": 1}`}, {`"{\"a\":1}"`, `{"a":1}`},
		{"```json\n{\"a\":1}\n```", `{"a":1}`}, {"{\"a\":\"x\ny\",}", `{"a":"x\ny"}`},
		{`{'a': 'it\'s', "b": [True, None,],}`, `{"a":"it's","b":[true,null]}`}, {`{"re": "\d+\."}`, `{"re":"\\d+\\."}`},
		{"{\"u\": \"\\ud83d\\ude00\t\"}", `{"u":"😀\t"}`},
		{`{"a": "cut of`, ""}, {`{"a": 1`, ""}, {`{"a": [1, 2`, ""}, {`[1]`, ""}, {`5`, ""}, {`{"a": 1} x`, ""}, {`{a: 1}`, ""}, {`{"a": undefined}`, ""},
	}
	for _, tt := range tests {
		got, err := tool.RepairArguments(tt.in)
		if string(got) != tt.want || (err != nil) != (tt.want == "") {
			t.Errorf("%q: got %s, %v; want %s", tt.in, got, err, tt.want)
		}
	}
}

func FuzzRepairArguments(f *testing.F) {
	for _, s := range []string{`{"a":1}`, `{'a': "b\q",}`, "```{}```", `"{\"a\":\"\n\"}"`, `{"a":[1,{"b":None}]}`, "{\"\\u12\":\"\xff\"}"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, err := tool.RepairArguments(text)
		if err != nil {
			return
		}
		var m map[string]any
		if json.Unmarshal(got, &m) != nil {
			t.Fatalf("%q: %q is not an object", text, got)
		}
		if again, err := tool.RepairArguments(string(got)); err != nil || string(again) != string(got) {
			t.Fatalf("%q: repairing twice: %q, %v", text, again, err)
		}
		var direct map[string]any
		if json.Unmarshal([]byte(text), &direct) == nil && direct != nil && !reflect.DeepEqual(direct, m) {
			t.Fatalf("%q: valid JSON was changed to %q", text, got)
		}
	})
}

const schema = `{"type":"object","properties":{"n":{"type":"integer","minimum":1},"f":{"type":"number"},"b":{"type":"boolean"},"s":{"type":"string"},
 "l":{"type":"array","items":{"type":"string"}},"o":{"type":"object","properties":{"k":{"type":"integer"}}},"z":{"type":["string","null"]},"e":{"type":"string","enum":["list","poll"]},
 "m":{"type":"string","default":"dm"}},"required":["s","m"],"additionalProperties":false}`

func echo(name string, traits tool.Traits, f tool.Handler) tool.Def {
	if f == nil {
		f = func(_ context.Context, a json.RawMessage) (tool.Result, error) {
			return tool.Result{Text: string(a)}, nil
		}
	}
	return tool.Def{Spec: trajectory.ToolSpec{Name: name, Parameters: json.RawMessage(schema)}, Toolset: "t", Traits: traits,
		Open: func(*tool.Scope) (tool.Handler, error) { return f, nil }}
}

func set(t *testing.T, o tool.SetOptions, defs ...tool.Def) *tool.Set {
	t.Helper()
	s, err := tool.NewSet(defs, &tool.Scope{}, o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestArguments(t *testing.T) {
	s := set(t, tool.SetOptions{}, echo("echo", tool.Traits{}, nil))
	tests := []struct{ in, want string }{
		{`{"s":"x","n":"5"}`, `{"m":"dm","n":5,"s":"x"}`}, {`{"s":"x","n":5.0,"f":"1.5","b":"True"}`, `{"b":true,"f":1.5,"m":"dm","n":5,"s":"x"}`},
		{`{"s":"x","l":"[\"a\"]"}`, `{"l":["a"],"m":"dm","s":"x"}`},
		{`{"s":"x","l":"a"}`, `{"l":["a"],"m":"dm","s":"x"}`},
		{`{"s":"x","o":"{\"k\":\"1\"}"}`, `{"m":"dm","o":{"k":1},"s":"x"}`},
		{`{"s":"x","z":"null","n":null}`, `{"m":"dm","s":"x","z":"null"}`},
		{`{"s":"5"}`, `{"m":"dm","s":"5"}`},
		{`{"s":"x","n":12345678901234567890}`, `{"m":"dm","n":12345678901234567890,"s":"x"}`},
		{`{"n":1}`, "s: missing"},
		{`{"s":"x","n":0}`, "n: 0 is less than 1"},
		{`{"s":"x","n":"abc"}`, "n: expected integer, got string"},
		{`{"s":1}`, "s: expected string, got integer 1"},
		{`{"s":"x","o":{"k":"y"}}`, "o.k: expected integer"},
		{`{"s":"x","l":[1]}`, "l[0]: expected string"},
		{`{"s":"x","e":"polls"}`, "did you mean \\\"poll\\\""},
		{`{"s":"x","nn":1}`, "did you mean n?"},
		{`{"s":`, "Invalid JSON"},
	}
	for _, tt := range tests {
		r, err := s.Call(t.Context(), trajectory.Call{Name: "echo", Arguments: tt.in})
		if ok := err == nil && (r.Text == tt.want || r.Failed && strings.Contains(r.Text, tt.want)); !ok {
			t.Errorf("%s:\n got %s %v\nwant %s", tt.in, r.Text, err, tt.want)
		}
	}
}

func FuzzArguments(f *testing.F) {
	f.Add(schema, `{"s":"x","n":"5","l":"[1]"}`)
	f.Add(`{"anyOf":[{"type":"integer"},{"type":"object"}]}`, `{}`)
	f.Fuzz(func(t *testing.T, schema, args string) {
		d := echo("echo", tool.Traits{}, nil)
		d.Spec.Parameters = json.RawMessage(schema)
		s, err := tool.NewSet([]tool.Def{d}, &tool.Scope{}, tool.SetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		r, err := s.Call(t.Context(), trajectory.Call{Name: "echo", Arguments: args})
		if err != nil || !json.Valid([]byte(r.Text)) || r.Fault == tool.FaultPanic {
			t.Fatalf("%s %s: %q %v", schema, args, r.Text, err)
		}
		if r.Failed {
			return
		}
		again, _ := s.Call(t.Context(), trajectory.Call{Name: "echo", Arguments: r.Text})
		if again.Text != r.Text {
			t.Fatalf("%s: coerced twice: %s, then %s", args, r.Text, again.Text)
		}
	})
}

func TestSetAnswersEveryFault(t *testing.T) {
	lost := fmt.Errorf("exec: %w", backends.ErrLost)
	s := set(t, tool.SetOptions{}, echo("terminal", tool.Traits{}, nil),
		echo("boom", tool.Traits{}, func(context.Context, json.RawMessage) (tool.Result, error) { panic(errors.New("bang")) }),
		echo("gone", tool.Traits{}, func(context.Context, json.RawMessage) (tool.Result, error) { return tool.Result{}, lost }))
	call := func(name string) (tool.Result, error) {
		return s.Call(t.Context(), trajectory.Call{Name: name, Arguments: `{"s":"x"}`})
	}
	if r, _ := call("termnal"); !r.Failed || r.Fault != tool.FaultUnknown || !strings.Contains(r.Text, "Unknown tool: termnal (did you mean terminal?)") {
		t.Errorf("unknown: %+v", r)
	}
	if r, _ := call("boom"); r.Fault != tool.FaultPanic || !strings.Contains(r.Text, "Tool execution failed: *errors.errorString: bang") {
		t.Errorf("panic: %+v", r)
	}
	if _, err := call("gone"); !errors.Is(err, backends.ErrLost) {
		t.Errorf("lost: %v", err)
	}
	_, _ = call("terminal")
	want := map[string]trajectory.ToolCount{"terminal": {Count: 1, Success: 1}, "boom": {Count: 1, Failure: 1}, "gone": {}}
	if got := s.Counts(); !reflect.DeepEqual(got, want) {
		t.Errorf("counts: %v", got)
	}
}

func TestCallAllOrder(t *testing.T) {
	var together, most atomic.Int32
	gate := make(chan struct{})
	read := func(ctx context.Context, a json.RawMessage) (tool.Result, error) {
		if n := together.Add(1); n == 3 {
			close(gate)
		}
		<-gate // opens only when three run at once
		most.Store(max(most.Load(), together.Load()))
		together.Add(-1)
		return tool.Result{Text: string(a)}, nil
	}
	alone := func(context.Context, json.RawMessage) (tool.Result, error) {
		if together.Load() != 0 {
			return tool.Errorf("not alone"), nil
		}
		return tool.Result{Text: "alone"}, nil
	}
	s := set(t, tool.SetOptions{}, echo("read", tool.Traits{ReadOnly: true, Parallel: true}, read), echo("run", tool.Traits{}, alone))
	c := func(name, arg string) trajectory.Call {
		return trajectory.Call{Name: name, Arguments: `{"m":"","s":"` + arg + `"}`}
	}
	rs, err := s.CallAll(t.Context(), []trajectory.Call{c("read", "1"), c("read", "2"), c("read", "3"), c("run", "")})
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{`{"m":"","s":"1"}`, `{"m":"","s":"2"}`, `{"m":"","s":"3"}`, "alone"} {
		if rs[i].Text != want {
			t.Errorf("result %d: %s, want %s", i, rs[i].Text, want)
		}
	}
}

func TestOverlappingPathsRunInOrder(t *testing.T) {
	paths := func(a json.RawMessage) []string {
		var p struct{ S string }
		_ = json.Unmarshal(a, &p)
		return []string{p.S}
	}
	var order []string
	write := func(_ context.Context, a json.RawMessage) (tool.Result, error) {
		order = append(order, string(a)) // a race if two ran at once
		return tool.Result{}, nil
	}
	s := set(t, tool.SetOptions{}, echo("write", tool.Traits{Parallel: true, Paths: paths}, write))
	var calls []trajectory.Call
	for _, p := range []string{"d", "d/f", "./d/f", "/x/d/f", "d/"} {
		calls = append(calls, trajectory.Call{Name: "write", Arguments: `{"m":"","s":"` + p + `"}`})
	}
	if _, err := s.CallAll(t.Context(), calls); err != nil {
		t.Fatal(err)
	}
	for i, c := range calls {
		if order[i] != c.Arguments {
			t.Fatalf("order %v", order)
		}
	}
}

func TestTurnBudgetCutsTheLargest(t *testing.T) {
	long := func(_ context.Context, a json.RawMessage) (tool.Result, error) {
		var p struct{ N int }
		_ = json.Unmarshal(a, &p)
		return tool.Result{Text: strings.Repeat("é", p.N)}, nil
	}
	s := set(t, tool.SetOptions{TurnLimit: 1000, Preview: 10}, echo("say", tool.Traits{}, long))
	rs, err := s.CallAll(t.Context(), []trajectory.Call{{Name: "say", Arguments: `{"s":"","n":300}`}, {Name: "say", Arguments: `{"s":"","n":5000}`}})
	if err != nil || rs[0].Text != strings.Repeat("é", 300) || !strings.Contains(rs[1].Text, "4500 of 5000 characters left out") {
		t.Errorf("%v: %.80s", err, rs[1].Text)
	}
}

// builtin is a catalogue of the names that hermes has.
func builtin(t *testing.T) *tool.Catalog {
	t.Helper()
	var defs []tool.Def
	for set, names := range map[string]string{
		"terminal":       "terminal process",
		"file":           "read_file write_file patch search_files",
		"todo":           "todo",
		"code_execution": "execute_code",
	} {
		for _, name := range strings.Fields(names) {
			d := echo(name, tool.Traits{}, nil)
			d.Toolset = set
			defs = append(defs, d)
		}
	}
	c, err := tool.NewCatalog(nil, defs...)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestToolsets(t *testing.T) {
	sets := builtin(t).Toolsets()
	for name, n := range map[string]int{"hermes-cli": 48, "hermes-acp": 29, "hermes-api-server": 35, "debugging": 8, "file": 4, "browser": 13, "web_tools": 2} {
		if tools, err := sets.Tools(name); err != nil || len(tools) != n {
			t.Errorf("%s: %d tools, %v", name, len(tools), err)
		}
	}
	if _, err := sets.Tools("termnal"); err == nil || !strings.Contains(err.Error(), "did you mean terminal?") {
		t.Errorf("unknown: %v", err)
	}
	own := func(y string) ([]tool.Toolset, error) {
		var n yaml.Node
		if err := yaml.Unmarshal([]byte(y), &n); err != nil {
			t.Fatal(err)
		}
		return tool.DecodeToolsets(n.Content[0])
	}
	cycle, err := own("a: {includes: [b]}\nb: {includes: [c]}\nc: {includes: [a], tools: [x]}")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tool.NewToolsets(cycle...); err == nil || !strings.Contains(err.Error(), "a → b → c → a") {
		t.Errorf("cycle: %v", err)
	}
	if _, err := own("a: {tolls: [x]}"); err == nil {
		t.Error("unknown key accepted")
	}
	if _, err := tool.NewToolsets(tool.Toolset{Name: "x", Includes: []string{"y"}}); err == nil {
		t.Error("unknown include accepted")
	}
}

func TestPlan(t *testing.T) {
	in := func(set string, d tool.Def) tool.Def { d.Toolset = set; return d }
	vision := echo("vision_analyze", tool.Traits{}, nil)
	vision.Ready = func(context.Context) error { return errors.New("no key") }
	c, err := tool.NewCatalog(nil, in("terminal", echo("terminal", tool.Traits{}, nil)), in("terminal", echo("process", tool.Traits{}, nil)),
		in("vision", vision))
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.Plan(t.Context(), []string{"terminal", "web", "vision"}, tool.MissingFail)
	if !errors.Is(err, tool.ErrMissing) || !strings.Contains(err.Error(), "web: web_search, web_extract: not built") ||
		!strings.Contains(err.Error(), "no key") {
		t.Errorf("fail: %v", err)
	}
	p, err := c.Plan(t.Context(), []string{"terminal", "web", "vision", "debugging"}, tool.MissingDrop)
	if err != nil || fmt.Sprint(p.Toolsets) != "[terminal debugging]" || len(p.Defs) != 2 || len(p.Dropped) != 4 {
		t.Errorf("drop: %+v %v", p.Dropped, err)
	}
	var out bytes.Buffer
	if hidden, err := c.WriteToolsets(t.Context(), &out, false, false); err != nil || hidden < 40 || !strings.Contains(out.String(), "terminal") {
		t.Errorf("%v\n%s", err, out.String())
	}
}

func TestDistributions(t *testing.T) {
	ds, err := tool.NewDistributions(builtin(t).Toolsets(), tool.BuiltinDistributions()...)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(ds.All()); n != 17 {
		t.Errorf("%d distributions", n)
	}
	d, err := ds.Get("science")
	if err != nil {
		t.Fatal(err)
	}
	draw := func() string {
		var b bytes.Buffer
		if err := tool.WriteSamples(&b, d, 7, 20); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	if first, again := draw(), draw(); first != again {
		t.Error("the same seed gave other sets")
	}
	r, n := rand.New(rand.NewPCG(1, 2)), map[string]int{}
	for range 20_000 {
		for _, s := range d.Sample(r) {
			n[s]++
		}
	}
	for _, c := range d.Chances {
		if got := float64(n[c.Toolset]) / 200; got < c.Percent-2 || got > c.Percent+2 {
			t.Errorf("%s: %.1f %%, want %v", c.Toolset, got, c.Percent)
		}
	}
	rare := tool.Distribution{Chances: []tool.Chance{{"a", 0}, {"b", 1e-9}, {"c", 1e-9}}}
	if got := rare.Sample(r); fmt.Sprint(got) != "[b]" {
		t.Errorf("none drawn: %v", got)
	}
	for _, bad := range []string{
		"x: {toolsets: {web: 101}}",
		"x: {toolsets: {web: 1, web: 2}}",
		"x: {toolset: {web: 1}}",
		"x: {toolsets: {web: 0}}",
		"x: {toolsets: {web: .nan}}",
	} {
		var doc yaml.Node
		if err := yaml.Unmarshal([]byte(bad), &doc); err != nil {
			continue // not even YAML
		}
		if _, err := tool.DecodeDistributions(doc.Content[0]); err == nil {
			t.Errorf("%s was accepted", bad)
		}
	}
}
