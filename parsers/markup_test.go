package parsers_test

import (
	"reflect"
	"strings"
	"testing"

	"hermes/parsers"
)

// TestAutoFindsEveryFamily: what any family writes is found and read without its name, right
// behind a sentence or on its own line.
func TestAutoFindsEveryFamily(t *testing.T) {
	for _, f := range families() {
		if f.Name == "functionary_v3_2" {
			continue // a name alone on a line is no mark
		}
		text, want := written(f)
		family, got, found := parsers.Auto(text, parsers.ParseOptions{Tools: probeTools})
		if f.Name == "pythonic" || f.Name == "llama4_pythonic" || f.Name == "llama3_json" || f.Name == "llama4_json" {
			if found { // no marker, and the text begins with a sentence
				t.Errorf("%s: %q is found as %s", f.Name, text, family)
			}
			text = strings.TrimPrefix(text, want.Content)
			family, got, found = parsers.Auto(text, parsers.ParseOptions{Tools: probeTools})
		}
		if !found || len(got.Calls) != len(want.Calls) {
			t.Errorf("%s: %q: found %v as %s, calls %+v, faults %+v", f.Name, text, found, family, got.Calls, got.Faults)
			continue
		}
		for i, c := range got.Calls {
			if c.Name != want.Calls[i].Name || !reflect.DeepEqual(value(c.Arguments), value(want.Calls[i].Arguments)) {
				t.Errorf("%s: %q: call %d is %+v", f.Name, text, i, c)
			}
		}
		if _, _, found, err := parsers.Standard().Look(f.Name, text, parsers.ParseOptions{Tools: probeTools}); !found || err != nil {
			t.Errorf("%s: Look by name: %v, %v", f.Name, found, err)
		}
	}
}

// TestAutoLeavesProseAlone: text about markers, and data without a declared name, is content.
func TestAutoLeavesProseAlone(t *testing.T) {
	for _, text := range []string{
		"", "Fine.", "f(x) = [1, 2] < 3",
		"Write calls between <tool_call> and </tool_call> tags; that is how Hermes does it.",
		"<tool_call> is the tag of Hermes.", "[TOOL_CALLS] is the marker of Mistral.", "<function_calls> is used by Claude.",
		"Use `<tool_call>{\"name\": \"ls\"}` for that.",
		"The marker \"[TOOL_CALLS]\" begins a call, <|python_tag|> too.",
		"An example:\n\n```\n<tool_call>\n{\"name\": \"ls\", \"arguments\": {}}\n</tool_call>\n```\nThat is all.",
		"Kimi has <|tool_calls_section_begin|>, DeepSeek <｜tool▁calls▁begin｜>.",
		"Put it in <tool_call>…</tool_call>.",
		`[{"name": "Bob", "age": 5}, {"name": "Eve", "age": 7}]`,
		`{"name": "Bob", "parameters": {}}`,
		`[sum(x=1)]`,
	} {
		family, p, found := parsers.Auto(text, parsers.ParseOptions{Tools: probeTools})
		if found || family != "" || p.Content != text || len(p.Faults) > 0 || len(p.Calls) > 0 {
			t.Errorf("%q: found as %s: %+v", text, family, p)
		}
	}
}

// TestAutoReportsWhatIsNotRead: markup of a call that no family reads is a fault.
func TestAutoReportsWhatIsNotRead(t *testing.T) {
	for _, text := range []string{
		"<|tool_calls_section_begin|><|tool_call_begin|>functionsterminal5<|tool_call_argument_begin|>{\"command\": \"ls\"}<|tool_call_end|><|tool_calls_section_end|>",
		`<|tool_call>call:terminal(command="ls")<tool_call|>`,
		"<tool_call>\nnonsense",
		"I look.\n<tool_call>\n{\"name\": \"ls\", \"argu",
		"I look.<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>what",
		"[TOOL_CALLS]",
	} {
		_, p, found := parsers.Auto(text, parsers.ParseOptions{Tools: probeTools})
		if !found || len(p.Faults) == 0 {
			t.Errorf("%q: found %v, %+v", text, found, p)
		}
	}
}
