package parsers_test

import (
	"encoding/json"
	"strings"
	"testing"

	"hermes/parsers"
	"hermes/trajectory"
)

// A damaged call between two good ones loses neither.
func TestBadCallKeepsItsNeighbours(t *testing.T) {
	// One call a turn; and a Python list whose string is broken has no way back.
	skip := map[string]string{"gigachat3": "", "pythonic": `"}`, "llama4_pythonic": `"}`, "lfm2": `"}`}
	for _, f := range families() {
		three := f.Format(parsers.Parsed{Calls: []parsers.Call{{Name: "ls", Arguments: `{"path": "FIRST"}`},
			{Name: "ls", Arguments: `{"path": "BROKEN"}`}, {Name: "ls", Arguments: `{"path": "LAST"}`}}})
		for _, damage := range []string{`"}`, `{{{`, `x" "y`, `]`, `</x>`} {
			if s, ok := skip[f.Name]; ok && (s == "" || s == damage) {
				continue
			}
			in := strings.Replace(three, "BROKEN", damage, 1)
			got := f.Parse(in, parsers.ParseOptions{Tools: probeTools})
			var args string
			for _, c := range got.Calls {
				args += c.Arguments
			}
			if !strings.Contains(args, "FIRST") || !strings.Contains(args, "LAST") {
				t.Errorf("%s: %q: %s, faults %+v", f.Name, in, args, got.Faults)
			}
		}
	}
}

// TestCutCallsAreNotRun: wherever an answer is cut, a call that may be executed has all the
// arguments that the model was to write.
func TestCutCallsAreNotRun(t *testing.T) {
	want := []parsers.Call{{Name: "ls", Arguments: `{"path": "rm -rf /data/old", "n": 31}`}, {Name: "ls", Arguments: `{"path": "b}]c", "n": 17}`}}
	for _, f := range families() {
		calls := want
		if oneCall[f.Name] {
			calls = want[:1]
		}
		text := f.Format(parsers.Parsed{Calls: calls})
		for end := range text {
			for _, cut := range []bool{false, true} {
				if f.Name == "beam" && !cut {
					continue // servers cut off the token that ends a call
				}
				s := f.New(parsers.ParseOptions{Tools: probeTools})
				s.Feed(text[:end], nil)
				got := s.Finish(cut)
				for i, c := range got.Calls {
					if (c.State == parsers.Complete || c.State == parsers.Recovered) && !sameAs(got.Calls[i:i+1], calls[i:i+1]) {
						t.Fatalf("%s (cut %v): %q: %s %s is %s", f.Name, cut, text[:end], c.Name, c.Arguments, c.State)
					}
				}
			}
		}
	}
}

// TestCallsInsideValues: what any family writes for a call is text inside a value of any
// family, or the call is doubted: the inner call is never executed, the outer one not changed.
func TestCallsInsideValues(t *testing.T) {
	var inner []string
	for _, f := range families() {
		text := f.Format(parsers.Parsed{Calls: []parsers.Call{{Name: "ls", Arguments: `{"path": "x"}`}}})
		inner = append(inner, text, "cat <<EOF\n"+text+"\nEOF\n", text[:len(text)/2])
	}
	wrong := map[string]int{}
	for _, f := range families() {
		for _, v := range inner {
			raw, _ := json.Marshal(v)
			want := []parsers.Call{{Name: "ls", Arguments: `{"path": ` + string(raw) + `, "n": 3}`}, {Name: "now", Arguments: `{}`}}
			if oneCall[f.Name] {
				want = want[:1]
			}
			text := f.Format(parsers.Parsed{Calls: want})
			got := f.Parse(text, parsers.ParseOptions{Tools: probeTools})
			if sameAs(got.Calls, want) {
				continue
			}
			for _, c := range got.Calls {
				known := false
				for _, w := range want {
					known = known || sameAs([]parsers.Call{c}, []parsers.Call{w})
				}
				if c.State == parsers.Complete && !known || len(got.Faults) == 0 {
					wrong[f.Name]++
					if wrong[f.Name] < 3 {
						t.Errorf("%s: %q: %s %s is %s", f.Name, text, c.Name, c.Arguments, c.State)
					}
				}
			}
		}
	}
}

// TestLinesWithCarriageReturns: markup whose lines end with CR LF is read as the one with LF.
func TestLinesWithCarriageReturns(t *testing.T) {
	want := []parsers.Call{{Name: "ls", Arguments: `{"path": "a b", "n": 31}`}}
	for _, f := range families() {
		text := strings.ReplaceAll(f.Format(parsers.Parsed{Calls: want}), "\n", "\r\n")
		if got := f.Parse(text, parsers.ParseOptions{Tools: probeTools}); !sameAs(got.Calls, want) {
			t.Errorf("%s: %q: %+v", f.Name, text, got.Calls)
		}
	}
}

// TestTextsThatMayBeNull: where a text or null is allowed, what looks like a number or a
// boolean is a text.
func TestTextsThatMayBeNull(t *testing.T) {
	for _, schema := range []string{
		`{"type": ["string", "null"]}`,
		`{"type": "string", "nullable": true}`,
		`{"anyOf": [{"$ref": "#/$defs/S"}, {"type": "null"}]}`,
	} {
		tools := []trajectory.ToolSpec{{
			Name:       "f",
			Parameters: json.RawMessage(`{"type": "object", "$defs": {"S": {"type": "string"}}, "properties": {"v": ` + schema + `}}`),
		}}
		for _, v := range []string{`"5"`, `"true"`, `"1.5"`, `"[1]"`, `"x"`, `null`} {
			want := []parsers.Call{{Name: "f", Arguments: `{"v": ` + v + `}`}}
			for _, f := range families() {
				text := f.Format(parsers.Parsed{Calls: want})
				if got := f.Parse(text, parsers.ParseOptions{Tools: tools}); !sameAs(got.Calls, want) {
					t.Errorf("%s, %s: %q: %+v", f.Name, schema, text, got.Calls)
				}
			}
		}
	}
}

// TestNumbersThatAreNone: NaN and Infinity as numbers are no JSON, so that no call with them
// is complete; inside a text they are text.
func TestNumbersThatAreNone(t *testing.T) {
	for _, f := range families() {
		text := f.Format(parsers.Parsed{Calls: []parsers.Call{{Name: "ls", Arguments: `{"path": "NaN and Infinity", "n": 31}`}}})
		if got := f.Parse(text, parsers.ParseOptions{Tools: probeTools}); len(got.Calls) != 1 || got.Calls[0].State != parsers.Complete {
			t.Errorf("%s: %q: %+v", f.Name, text, got.Calls)
		}
		for _, n := range []string{"NaN", "Infinity", "-Infinity"} {
			text := strings.Replace(text, "31", n, 1)
			for _, c := range f.Parse(text, parsers.ParseOptions{Tools: probeTools}).Calls {
				if !json.Valid([]byte(c.Arguments)) && c.State != parsers.Malformed {
					t.Errorf("%s: %q: %s is %s", f.Name, text, c.Arguments, c.State)
				}
			}
		}
	}
}

// TestTagsInTexts: a text of MiniMax M3 that holds its own parameter's tags has another
// reading, and the call says so.
func TestTagsInTexts(t *testing.T) {
	const m3 = "]<]minimax[>["
	f, err := parsers.Standard().Get("minimax_m3")
	if err != nil {
		t.Fatal(err)
	}
	for value, state := range map[string]parsers.State{"plain": parsers.Complete, "a" + m3 + "<path>b" + m3 + "</path>c": parsers.Ambiguous} {
		raw, _ := json.Marshal(value)
		want := []parsers.Call{{Name: "ls", Arguments: `{"path": ` + string(raw) + `}`}}
		text := f.Format(parsers.Parsed{Calls: want})
		got := f.Parse(text, parsers.ParseOptions{Tools: probeTools})
		if !sameAs(got.Calls, want) || got.Calls[0].State != state {
			t.Errorf("%q: %+v, want %s", text, got.Calls, state)
		}
	}
}
