package parsers_test

import (
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"hermes/parsers"
)

// responseTemplates are templates in the forms in which models ship them.
var responseTemplates = map[string]string{
	"json": `{"start_anchor": "<|im_start|>assistant\n", "defaults": {"role": "assistant"}, "fields": {
		"thinking": {"open": "<think>", "close": "</think>"},
		"tool_calls": {"open": "<tool_call>", "close": "</tool_call>", "repeats": true, "content": "json", "transform": {"type": "function", "function": "{content}"}},
		"content": {"close": "<|im_end|>"}}}`,
	"elements": `{"start_anchor": "x", "fields": {
		"reasoning_content": {"open_pattern": "(?:<think>\\s*|^)", "close": "</think>"},
		"content": {"open": "<answer>", "close_pattern": "\\n?</answer>"},
		"tool_calls": {"open_pattern": "<call name=(?P<name>\\w+)>", "close": "</call>", "repeats": true, "content": "xml-inline",
			"content_args": {"tag_pattern": "<arg k=(?P<key>\\w+)>(?P<value>.*?)</arg>", "value_parser": {"name": "json", "args": {"allow_non_json": true}}},
			"transform": {"type": "function", "function": {"name": "{name}", "arguments": "{content}"}}}}}`,
	"channels": `{"start_anchor": "<|start|>assistant", "fields": {
		"thinking": {"open": "<|channel|>analysis<|message|>", "close": "<|end|>"},
		"content": {"open": "<|channel|>final<|message|>", "close": ["<|return|>", "<|end|>"]},
		"tool_calls": {"open_pattern": "(?:<\\|start\\|>assistant)?<\\|channel\\|>commentary to=functions\\.(?P<name>\\w+).*?<\\|message\\|>", "close": "<|call|>", "repeats": true,
			"content": "json", "transform": {"type": "function", "function": {"name": "{name}", "arguments": "{content}"}}}}}`,
	"loose": `{"start_anchor": "x", "fields": {
		"tool_calls": {"open_pattern": "<\\|tool_call>call:(?P<name>\\w+)", "close": "<tool_call|>", "repeats": true, "content": "json",
			"content_args": {"unquoted_keys": true, "string_delims": [["<|\"|>", "<|\"|>"]]}, "transform": {"type": "function", "function": {"name": "{name}", "arguments": "{content}"}}},
		"content": {"close": ["<turn|>", "<eos>"]}}}`,
	"list": `{"start_anchor": "x", "fields": {
		"tool_calls": {"open": "<|START_ACTION|>", "close": "<|END_ACTION|>", "content": "json", "transform_each": true,
			"transform": {"type": "function", "function": {"name": "{tool_name}", "arguments": "{parameters}"}}},
		"content": {"open": "<|START_RESPONSE|>", "close": "<|END_RESPONSE|>"}}}`,
	"member": `{"start_anchor": "x", "fields": {
		"tool_calls": {"open": "<|invoke|>", "close": "<|end|>", "repeats": true, "content": "json", "transform": {"function": {"name": "{content.name}", "arguments": "{content.args}"}}},
		"tool_plan": {"open": "<plan>", "close": "</plan>"}}}`,
	"python": `{"start_anchor": "x", "fields": {"tool_calls": {"open": "<|tool_call_start|>", "close": "<|tool_call_end|>", "content": "python-call-list", "transform": {"function": "{content}"}}, "content": {}}}`,
	"pairs": `{"start_anchor": "x", "fields": {"tool_calls": {"open_pattern": "CALL (?P<name>\\w+)\n", "close": "END", "content": "kv-lines", "repeats": true,
		"transform": {"function": {"name": "{name}", "arguments": "{content}"}}}, "content": {}}}`,
}

func templateFamily(t testing.TB, name string) parsers.Family {
	t.Helper()
	f, err := parsers.FromResponseTemplate([]byte(responseTemplates[name]))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestResponseTemplate(t *testing.T) {
	tests := []struct {
		template, in       string
		content, reasoning string
		calls              []string
		faults             bool
	}{
		{
			"json",
			"<think>hm</think>\nHi.\n<tool_call>\n{\"name\": \"ls\", \"arguments\": {\"n\": 12345678901234567890}}\n</tool_call><tool_call>{\"name\": \"now\", \"arguments\": {}}</tool_call><|im_end|>",
			"Hi.",
			"hm",
			[]string{`ls {"n": 12345678901234567890} complete`, `now {} complete`},
			false,
		},
		{"json",
			`<tool_call>{"name": "ls", "arguments": {"path": "</tool_call>"}}</tool_call>`,
			"",
			"",
			[]string{`ls {"path": "</tool_call>"} complete`},
			false},
		{"json", `<tool_call>{"name": "ls", "arguments": {"path": "a"}}`, "", "", []string{`ls {"path": "a"} recovered`}, true},
		{"json", `Hi.<tool_call>{"name": "ls", "argum`, "Hi.", "", nil, true},
		{"json", `<tool_call>{"name": "zz", "arguments": {}}</tool_call>`, `<tool_call>{"name": "zz", "arguments": {}}</tool_call>`, "", nil, true},
		{"json", "<think>hm", "", "hm", nil, true},
		{"elements", "hm</think><call name=ls><arg k=path>007</arg><arg k=n>3</arg><arg k=other>[1]</arg><arg k=word>a b</arg></call>", "", "hm",
			[]string{`ls {"path": "007", "n": 3, "other": [1], "word": "a b"} complete`}, false},
		{"elements", "<think> hm</think><answer>Hi.\n</answer>", "Hi.", "hm", nil, false},
		{"elements", "</think>between<answer>Hi.</answer>", "Hi.", "", nil, true},
		{"elements", "</think><call name=ls><arg k=path>a</arg>b</arg></call>", "", "", []string{`ls {"path": "a"} malformed`}, true},
		{"channels",
			`<|channel|>analysis<|message|>hm<|end|><|start|>assistant<|channel|>commentary to=functions.ls <|constrain|>json<|message|>{"n": 3}<|call|>`,
			"",
			"hm",
			[]string{`ls {"n": 3} complete`},
			false},
		{"channels", `<|channel|>final<|message|>Hi.<|return|>`, "Hi.", "", nil, false},
		{"loose",
			`Hi.<|tool_call>call:ls{path:<|"|>a "b": c<|"|>,n:3}<tool_call|><turn|>`,
			"Hi.",
			"",
			[]string{`ls {"path":"a \"b\": c","n":3} complete`},
			false},
		{
			"list",
			`<|START_ACTION|>[{"tool_call_id": "0", "tool_name": "ls", "parameters": {"n": 3}}, {"tool_call_id": "1", "tool_name": "now", "parameters": {}}]<|END_ACTION|>`,
			"",
			"",
			[]string{`ls {"n": 3} complete`, `now {} complete`},
			false,
		},
		{"member", `<plan>first</plan><|invoke|>{"name": "ls", "args": {"n": 3}}<|end|>`, "", "", []string{`ls {"n": 3} complete`}, true},
		{"member", `<|invoke|>{"name": "ls"}<|end|>`, "", "", []string{`ls {} complete`}, false},
		{"python",
			`Hi.<|tool_call_start|>[ls(path="a", n=3), now()]<|tool_call_end|>`,
			"Hi.",
			"",
			[]string{`ls {"path": "a", "n": 3} complete`, `now {} complete`},
			false},
		{"pairs", "CALL ls\no: {\"a\": 1, \"a\": 2}\nEND", "", "", []string{`ls {"o": {"a": 1, "a": 2}} malformed`}, true},
		{"pairs", "CALL ls\npath: a:b\nn: 3\nEND", "", "", []string{`ls {"path": "a:b", "n": 3} complete`}, false},
	}
	for _, tt := range tests {
		p := templateFamily(t, tt.template).Parse(tt.in, parsers.ParseOptions{Tools: probeTools})
		var calls []string
		for _, c := range p.Calls {
			calls = append(calls, spelled(c))
		}
		if !reflect.DeepEqual(calls, tt.calls) || p.Content != tt.content || p.Reasoning != tt.reasoning || (len(p.Faults) > 0) != tt.faults {
			t.Errorf("%s: %q:\n\tcalls %q, content %q, reasoning %q, faults %+v", tt.template, tt.in, calls, p.Content, p.Reasoning, p.Faults)
		}
		if err := checkLaws(tt.in, p); err != nil {
			t.Errorf("%s: %q: %v", tt.template, tt.in, err)
		}
	}
}

// Damaged texts keep the laws, and chunks change nothing.
func TestResponseTemplateLaws(t *testing.T) {
	texts := []string{
		"<think>hm</think>\nHi.\n<tool_call>\n{\"name\": \"ls\", \"arguments\": {\"n\": 3}}\n</tool_call><|im_end|>",
		"hm</think><answer>Hi.</answer><call name=ls><arg k=path>007</arg><arg k=n>3</arg></call>",
		`<|channel|>analysis<|message|>hm<|end|><|start|>assistant<|channel|>commentary to=functions.ls <|constrain|>json<|message|>{"n": 3}<|call|>`,
		`Hi.<|tool_call>call:ls{path:<|"|>a<|"|>,n:3}<tool_call|><turn|>`,
		`<|START_ACTION|>[{"tool_name": "ls", "parameters": {"n": 3}}, {"tool_name": "now", "parameters": {}}]<|END_ACTION|>`,
		"CALL ls\npath: a\nn: 3\nEND", `<|tool_call_start|>[ls(path="a", n=3), now()]<|tool_call_end|>`,
	}
	r := rand.New(rand.NewPCG(7, 7))
	for name := range responseTemplates {
		f := templateFamily(t, name)
		for _, text := range texts {
			for _, in := range mutations(text, 60) {
				o := parsers.ParseOptions{Tools: probeTools, InReasoning: r.IntN(2) == 0}
				p := f.Parse(in, o)
				if err := checkLaws(in, p); err != nil {
					t.Fatalf("%s: %q: %v", name, in, err)
				}
				if parts := parseChunks(f, o, in, func() int { return 1 + r.IntN(5) }); !reflect.DeepEqual(p, parts) {
					t.Fatalf("%s: %q: chunks change the result", name, in)
				}
			}
		}
	}
}

func TestResponseTemplateRefuses(t *testing.T) {
	for source, want := range map[string]string{
		`[]`:                           "want an object",
		`{"fields": {}}`:               "no fields",
		`{"version": 2, "fields": {}}`: "version 2",
		`{"fields": {"content": {"open": "<a>", "open_pattern": "b"}}}`:                                            "a text and a pattern",
		`{"fields": {"content": {"open": ""}}}`:                                                                    "empty mark",
		`{"fields": {"content": {}, "thinking": {}}}`:                                                              "both lack",
		`{"fields": {"content": {"content": "yaml"}}}`:                                                             "yaml",
		`{"fields": {"content": {"colour": 1}}}`:                                                                   "colour",
		`{"fields": {"content": {"open_pattern": "(?<=a)b"}}}`:                                                     "one pass",
		`{"fields": {"tool_calls": {"open": "a", "content": "xml-inline", "content_args": {"tag_pattern": "x"}}}}`: "key and value",
	} {
		if _, err := parsers.FromResponseTemplate([]byte(source)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", source, err)
		}
	}
	if _, err := parsers.FromResponseTemplate([]byte(`{"chat_template": "x", "response_template": ` + responseTemplates["json"] + `}`)); err != nil {
		t.Errorf("tokenizer_config.json: %v", err)
	}
}
