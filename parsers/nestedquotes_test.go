package parsers_test

import (
	"bytes"
	"strings"
	"testing"

	"hermes/parsers"
)

func TestNestedQuotes(t *testing.T) {
	for _, c := range []struct{ name, in, args string }{
		{"a shell command", `[bash(command='sed -n '360,450p' a.py')]`, `{"command": "sed -n '360,450p' a.py"}`},
		{"two arguments", `[bash(command='echo 'a, b'', timeout=5)]`, `{"command": "echo 'a, b'", "timeout": 5}`},
		{"escapes stay escapes", `[bash(command='printf 'a\\n'')]`, `{"command": "printf 'a\\n'"}`},
		{"two readings are none", `[f(a='x', b='y' z', c='w')]`, ""},
		{"no end", `[f(a='x'y]`, ""},
	} {
		for _, d := range []parsers.Dialect{parsers.Ours, parsers.VLLM} {
			got := parsers.LFM2.Parse("<|tool_call_start|>"+c.in+"<|tool_call_end|>", parsers.ParseOptions{Dialect: d})
			switch {
			case c.args == "" && len(got.Calls) != 0:
				t.Errorf("%s, %s: %+v", c.name, d, got.Calls)
			case c.args != "" && (len(got.Calls) != 1 || got.Calls[0].Arguments != c.args || got.Calls[0].State != parsers.Recovered):
				t.Errorf("%s, %s: %+v %+v", c.name, d, got.Calls, got.Faults)
			}
		}
	}
}

// TestNestedQuotesAreBounded: hostile text costs no more than its bounds.
func TestNestedQuotesAreBounded(t *testing.T) {
	one := "<|tool_call_start|>[f(a='" + strings.Repeat("') , b='", 500) + "]<|tool_call_end|>"
	if got := parsers.LFM2.Parse(strings.Repeat(one, 200), parsers.ParseOptions{}); len(got.Calls) != 0 || len(got.Faults) == 0 {
		t.Errorf("%d calls, %d faults", len(got.Calls), len(got.Faults))
	}
}

func TestPromptTailOpensReasoning(t *testing.T) {
	in := `{"id": 1, "family": "qwen3_coder", "text": "because", "options": {"prompt": "<think>a</think>b<think>"}}
{"id": 2, "family": "qwen3_coder", "text": "because", "options": {"prompt_tail": "<think>a</think>"}}`
	var out bytes.Buffer
	if err := parsers.Lines(strings.NewReader(in), &out, parsers.Standard(), parsers.Ours); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(out.String(), "\n")
	if !strings.Contains(lines[0], `"reasoning":"because"`) || !strings.Contains(lines[1], `"content":"because"`) {
		t.Errorf("%s", out.String())
	}
}
