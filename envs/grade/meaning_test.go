package grade_test

import (
	"context"
	"encoding/json"
	"testing"

	"hermes/internal/schema"
	"hermes/rollout/tool"
	"hermes/trajectory"
)

// TestOneMeaning holds graders, judges and tools to one meaning of "fits this schema". Each
// line was judged differently by one of them once. Values are written so that a tool need
// not coerce them.
func TestOneMeaning(t *testing.T) {
	tests := []struct {
		name, schema string // of the member v of an object
		fits, not    []string
	}{
		{"references", `{"$ref":"#/$defs/n"}`, []string{`1.5`}, []string{`"x"`, `null`}},
		{"exclusive limits", `{"type":"number","exclusiveMinimum":0,"exclusiveMaximum":1}`, []string{`0.5`}, []string{`0`, `1`}},
		{"exclusive limits of draft 4", `{"type":"number","minimum":0,"exclusiveMinimum":true}`, []string{`0.5`}, []string{`0`}},
		{"multiples", `{"type":"number","multipleOf":0.01}`, []string{`19.99`}, []string{`19.995`}},
		{"large whole numbers", `{"enum":[9007199254740993]}`, []string{`9007199254740993`}, []string{`9007199254740992`}},
		{"unique items", `{"type":"array","uniqueItems":true}`, []string{`[1,2]`}, []string{`[1,1.0]`}},
		{"tuples",
			`{"type":"array","items":[{"type":"integer"},{"type":"string"}],"additionalItems":false}`,
			[]string{`[1,"x"]`},
			[]string{`[1,2]`, `[1,"x",3]`}},
		{"prefix items", `{"type":"array","prefixItems":[{"type":"integer"}]}`, []string{`[1,"x"]`}, []string{`["x"]`}},
		{"one of", `{"oneOf":[{"type":"integer"},{"minimum":5}]}`, []string{`1`, `5.5`}, []string{`6`}},
		{"not", `{"not":{"type":"string"}}`, []string{`1`}, []string{`"x"`}},
		{"conditions", `{"if":{"type":"string"},"then":{"minLength":2}}`, []string{`1`, `"xx"`}, []string{`"x"`}},
		{"a forbidden member", `{"type":"object","properties":{"a":false}}`, []string{`{}`, `{"b":1}`}, []string{`{"a":1}`}},
		{"patterns of names",
			`{"type":"object","patternProperties":{"^x":{"type":"integer"}},"additionalProperties":false}`,
			[]string{`{"x1":1}`},
			[]string{`{"x1":"y"}`, `{"y":1}`}},
		{"counts of members", `{"type":"object","minProperties":1}`, []string{`{"a":1}`}, []string{`{}`}},
		{"const null", `{"const":null}`, []string{`null`}, []string{`1`}},
		{"nullable", `{"type":"string","nullable":true,"enum":["a"]}`, []string{`null`, `"a"`}, []string{`"b"`}},
		{"a nullable reference", `{"$ref":"#/$defs/n","nullable":true}`, []string{`null`, `1`}, []string{`"b"`}},
		{"types of Python", `{"type":"dict","properties":{"a":{"type":"float"}}}`, []string{`{"a":1.5}`}, []string{`{"a":{}}`, `7.5`}},
		{"any", `{"type":"any"}`, []string{`1`, `"x"`, `null`}, nil},
		{"a property called type", `{"type":"object","properties":{"type":{"type":"string"}}}`, []string{`{"type":"dict"}`}, []string{`{"type":[1]}`}},
		{"whole floats", `{"type":"integer"}`, []string{`5.0`, `5`}, []string{`5.5`}},
	}
	for _, tt := range tests {
		raw := `{"type":"object","required":["v"],"$defs":{"n":{"type":"number"}},"properties":{"v":` + tt.schema + `}}`
		for fits, values := range map[bool][]string{true: tt.fits, false: tt.not} {
			for _, v := range values {
				value := `{"v":` + v + `}`
				if got := score(t, "schema", `{"schema":`+raw+`}`, value).Reward == 1; got != fits {
					t.Errorf("%s: grader: %s fits: %v", tt.name, v, got)
				}
				if r := called(t, raw, value); r.Failed == fits {
					t.Errorf("%s: tool: %s: %s", tt.name, v, r.Text)
				}
				s, err := schema.Compile([]byte(raw))
				if err != nil {
					t.Fatalf("%s: %v", tt.name, err)
				}
				x, err := schema.Read([]byte(value))
				if err != nil {
					t.Fatal(err)
				}
				if got := s.Check(x) == nil; got != fits {
					t.Errorf("%s: judge: %s fits: %v", tt.name, v, got)
				}
			}
		}
		if got := schema.Example([]byte(`{"$defs":{"n":{"type":"number"}},"type":"object","required":["v"],"properties":{"v":` + tt.schema + `}}`)); got == nil {
			t.Errorf("%s: no example", tt.name)
		}
	}
}

// called is what a tool with these parameters answers.
func called(t *testing.T, parameters, arguments string) tool.Result {
	t.Helper()
	d := tool.Def{Spec: trajectory.ToolSpec{Name: "f", Parameters: json.RawMessage(parameters)}, Toolset: "t",
		Open: func(*tool.Scope) (tool.Handler, error) {
			return func(_ context.Context, a json.RawMessage) (tool.Result, error) {
				return tool.Result{Text: string(a)}, nil
			}, nil
		}}
	s, err := tool.NewSet([]tool.Def{d}, &tool.Scope{}, tool.SetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	r, err := s.Call(t.Context(), trajectory.Call{ID: "1", Name: "f", Arguments: arguments})
	if err != nil {
		t.Fatal(err)
	}
	return r
}
