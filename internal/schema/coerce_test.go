package schema_test

import (
	"encoding/json"
	"strings"
	"testing"

	"hermes/internal/schema"
)

func TestFit(t *testing.T) {
	const ref = `{"type":"object","$defs":{"n":{"type":"integer","minimum":1}},"properties":{"n":{"$ref":"#/$defs/n"},"all":{"allOf":[{"$ref":"#/$defs/n"}]},"opt":{"$ref":"#/$defs/n"},"list":{"type":"array","items":{"$ref":"#/$defs/n"}}},"required":["n"]}`
	const either = `{"type":"object","properties":{"v":{"anyOf":[{"type":"object","properties":{"n":{"type":"integer"}},"required":["x"]},{"type":"object","properties":{"n":{"enum":["5"]},"k":{"type":"integer"}}}]}}}`
	tests := []struct{ schema, in, want string }{
		{ref, `{"n":"5","all":"6","opt":null,"list":"7"}`, `{"all":6,"list":[7],"n":5}`},
		{ref, `{"n":"0"}`, "n: 0 is less than 1"},
		{ref, `{"n":1,"list":[1,"x"]}`, `list[1]: expected integer, got string "x"`},
		{either, `{"v":{"n":"5","k":"1"}}`, `{"v":{"k":1,"n":"5"}}`}, // the first alternative, which does not fit, leaves no trace
		{`{"type":"object","properties":{"n":{"type":"int"}}}`, `{"n":"5"}`, `{"n":5}`},
		{`{"type":"object","properties":{"n":{"type":"integer","nullable":true}}}`, `{"n":null}`, `{"n":null}`},
		{
			`{"type":"object","properties":{"n":{"type":"integer"},"p":{"type":"string","pattern":"(?!x)"}},"required":"n"}`,
			`{"n":"5","p":"x"}`,
			`{"n":5,"p":"x"}`,
		},
		{`{"type":"object","properties":{"n":{"type":"integer","required":true}},"additionalProperties":false}`, `{"n":"x"}`, "n: expected integer"},
		{`{"type":"object","properties":{"n":{"type":"strange"},"m":{"type":"integer"}}}`, `{"n":1,"m":"2"}`, `{"m":2,"n":1}`},
		{`{"type":"object","properties":{"n":{"$ref":"#/$defs/none"},"m":{"type":"integer"}}}`, `{"n":1,"m":"2"}`, `{"m":2,"n":1}`},
		{`{"type":"object","properties":{"n":{"oneOf":[{"type":"integer"},{"type":"number"}]}}}`, `{"n":1}`, "n"},
		{`[1]`, `{"a":1}`, `{"a":1}`},
		{``, `{"a":1}`, `{"a":1}`},
		{`true`, `{"a":1}`, `{"a":1}`},
		{`{"$ref":"#"}`, `{"a":1}`, ``},
	}
	for _, tt := range tests {
		got, err := schema.Lenient([]byte(tt.schema)).Fit("arguments", []byte(tt.in))
		if text := string(got); text != tt.want && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%s of %s:\n got %s %v\nwant %s", tt.in, tt.schema, text, err, tt.want)
		}
	}
}

func TestExampleFits(t *testing.T) {
	for _, raw := range []string{
		`{"type":"object","properties":{"a":{"$ref":"#/$defs/n"},"b":{"type":["null","string"]},"c":{"type":"array","items":{"enum":["x"]}}},"required":["a","b","c"],"$defs":{"n":{"type":"integer","minimum":3}}}`,
		`{"anyOf":[{"type":"integer","maximum":-2},{"type":"string"}]}`,
		`{"type":"object","properties":{"a":{"properties":{"b":{"type":"bool"}},"required":["b"]}},"required":["a"]}`,
		`{"const":7}`,
	} {
		s, err := schema.Compile([]byte(raw))
		if err != nil {
			t.Fatal(err)
		}
		out, err := json.Marshal(schema.Example([]byte(raw)))
		if err != nil {
			t.Fatal(err)
		}
		v, err := schema.Read(out)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Check(v); err != nil {
			t.Errorf("%s: the example %s: %v", raw, out, err)
		}
	}
}

// FuzzLenient: every schema can be read, what Compile takes means the same, and coercing
// twice is coercing once.
func FuzzLenient(f *testing.F) {
	f.Add(`{"type":"object","properties":{"n":{"type":"int","nullable":true}},"required":["n"]}`, `{"n":"5"}`)
	f.Add(`{"items":[{"$ref":"#"}],"oneOf":[{"minimum":"x"}]}`, `[1]`)
	f.Add(`{"type":["any","dict"],"patternProperties":{"(":{}}}`, `{"a":null}`)
	f.Fuzz(func(t *testing.T, raw, value string) {
		l := schema.Lenient([]byte(raw))
		v, err := schema.Read([]byte(value))
		if err != nil {
			return
		}
		why := l.Check(v)
		if s, err := schema.Compile([]byte(raw)); err == nil && strings.HasPrefix(strings.TrimSpace(raw), "{") && (s.Check(v) == nil) != (why == nil) {
			t.Fatalf("%s: %s: strict and lenient disagree: %v", raw, value, why)
		}
		once, err := l.Fit("it", []byte(value))
		if err != nil {
			return
		}
		if twice, err := l.Fit("it", once); err != nil || string(twice) != string(once) {
			t.Fatalf("%s: %s, then %s %v", raw, once, twice, err)
		}
		_ = schema.Example([]byte(raw))
	})
}

func BenchmarkFit(b *testing.B) {
	s := schema.Lenient([]byte(`{"type":"object","properties":{"command":{"type":"string"},"background":{"type":"boolean"},"timeout":{"type":"integer","minimum":1},"workdir":{"type":"string"}},"required":["command"],"additionalProperties":false}`))
	raw := []byte(`{"command":"ls -la /tmp","timeout":5}`)
	for b.Loop() {
		if _, err := s.Fit("arguments", raw); err != nil {
			b.Fatal(err)
		}
	}
}
