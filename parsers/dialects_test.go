package parsers_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"hermes/parsers"
	"hermes/trajectory"
)

// What vLLM 0.33 and SGLang 0.5.23 make of texts, written out by hand: their dialects say the
// same. A call is its name and arguments.
func TestDialectsAsTheirPeers(t *testing.T) {
	const granite = `<|tool_call|>[{"name": "ls", "arguments": {"n": 3}}`
	glm := func(value string) string {
		return "<tool_call>ls\n<arg_key>path</arg_key>\n<arg_value>" + value + "</arg_value>\n</tool_call>"
	}
	glm47 := func(value string) string {
		return "<tool_call>ls<arg_key>path</arg_key><arg_value>" + value + "</arg_value></tool_call>"
	}
	coder := func(value string) string {
		return "<tool_call>\n<function=ls>\n<parameter=path>\n" + value + "\n</parameter>\n</function>\n</tool_call>"
	}
	step := func(value string) string {
		return `<｜tool_calls_begin｜><｜tool_call_begin｜>function<｜tool_sep｜><steptml:invoke name="ls"><steptml:parameter name="path">` + value +
			"</steptml:parameter></steptml:invoke><｜tool_call_end｜><｜tool_calls_end｜>"
	}
	const inkling = `<|content_invoke_tool_json|>{"name": "ls", "args": `
	tests := []struct {
		family  string
		dialect parsers.Dialect
		schema  string // of the parameter path of ls
		text    string
		content string
		calls   []string
	}{
		// Granite's engine: text in front, lists that are cut or not closed, a second call that is bad.
		{"granite", parsers.VLLM, "", "Sure.\n" + granite + "]", "Sure.", []string{`ls {"n": 3}`}},
		{"granite", parsers.VLLM, "", "Sure.\n<tool_call>[{\"name\": \"ls\", \"arguments\": {\"n\": 3}}]", "Sure.", []string{`ls {"n": 3}`}},
		{"granite", parsers.VLLM, "", granite, "", []string{`ls {"n": 3}`}},
		{"granite", parsers.VLLM, "", `<|tool_call|>[{"name": "ls", "arguments": {"path": "/t`, "", []string{`ls {"path": "/t`}},
		{"granite", parsers.VLLM, "", `<|tool_call|>[{"name": "ls", "argu`, "", []string{`ls {}`}},
		{"granite", parsers.VLLM, "", granite + `, {"name": "now", "arguments": {"a": tru}}]`, "", []string{`ls {"n": 3}`, `now {"a": tru}`}},
		{"granite", parsers.VLLM, "", granite + `, {"name": "now"`, "", []string{`ls {"n": 3}`, `now {}`}},
		{"granite", parsers.VLLM, "", `<|tool_call|>[{"name": "ls", "arguments": "{\"n\": 3}"}]`, "", []string{`ls {"n": 3}`}},
		// Calls that are cut.
		{"granite4", parsers.VLLM, "", "<tool_call>\n{\"name\": \"ls\", \"arguments\": {}}\n", "<tool_call>\n{\"name\": \"ls\", \"arguments\": {}}\n", nil},
		{
			"kimi_k3", parsers.VLLM, "",
			`<|open|>response<|sep|>Hi<|close|>response<|sep|><|open|>tools<|sep|><|open|>call tool="ls" index="1"<|sep|><|open|>argument key="n" type="object"<|sep|>3<|close|>argument<|sep|>`,
			"Hi", nil,
		},
		{
			"dots", parsers.VLLM, "", `Hi<dots_function_call>{"name": "ls", "arguments": {}}</dots_func`,
			`Hi<dots_function_call>{"name": "ls", "arguments": {}}</dots_func`, nil,
		},
		{"lfm2", parsers.VLLM, "", "Hi<|tool_call_start|>[ls(n=3), now(", "Hi<|tool_call_start|>[ls(n=3), now(", nil},
		{"lfm2", parsers.VLLM, "", "Hi<|tool_call_start|>[ls(n=3)]", "Hi", []string{`ls {"n": 3}`}},
		{"inkling", parsers.VLLM, "", inkling + `{"path": "/t`, "", []string{`ls {"path": "/t`}},
		{"inkling", parsers.VLLM, "", inkling + `{"n": tru}}<|end_message|>`, "", []string{`ls {"n": tru}`}},
		{"functiongemma",
			parsers.VLLM,
			"",
			"Hi<start_function_call>call:ls{path:<escape>/tmp<escape>,n:<escape>12<escape>,deep:true}<end_function_call>",
			"Hi",
			[]string{`ls {"path": "/tmp", "n": 12}`}},
		{"functiongemma", parsers.VLLM, "", "Hi<start_function_call>call:ls{path:<escape>/t", "Hi", []string{`ls {}`}},
		// Arguments that are a text.
		{"granite4", parsers.VLLM, "", `<tool_call>{"name": "ls", "arguments": "{\"n\": 3}"}</tool_call>`, "", []string{`ls {"n": 3}`}},
		{"hermes", parsers.VLLM, "", `<tool_call>{"name": "ls", "arguments": "{\"n\": 3}"}</tool_call>`, "", []string{`ls "{\"n\": 3}"`}},
		{
			"kimi_k2", parsers.SGLang, "",
			`<|tool_calls_section_begin|><|tool_call_begin|>functions.ls:0<|tool_call_argument_begin|>"5"<|tool_call_end|><|tool_calls_section_end|>`,
			"", nil,
		},
		// Values by the schema: vLLM's engine.
		{"qwen3_coder", parsers.VLLM, `{"type": "integer"}`, coder("true"), "", []string{`ls {"path": true}`}},
		{"qwen3_coder", parsers.VLLM, `{"type": "boolean"}`, coder("[1]"), "", []string{`ls {"path": [1]}`}},
		{"qwen3_coder", parsers.VLLM, `{"type": "array"}`, coder("null"), "", []string{`ls {"path": null}`}},
		{"qwen3_coder", parsers.VLLM, `{"type": "integer"}`, coder("abc"), "", []string{`ls {"path": "abc"}`}},
		{"qwen3_coder", parsers.VLLM, `{"$ref": "#/$defs/N"}`, coder("5"), "", []string{`ls {"path": "5"}`}},
		{"glm47", parsers.VLLM, `{"anyOf": [{"type": "integer"}, {"type": "null"}]}`, glm47("[1]"), "", []string{`ls {"path": [1]}`}},
		{"inkling", parsers.VLLM, `{"type": "string"}`, inkling + `{"path": 5}}<|end_message|>`, "", []string{`ls {"path": "5"}`}},
		{"inkling", parsers.VLLM, `{"type": ["string", "null"]}`, inkling + `{"path": "null"}}<|end_message|>`, "", []string{`ls {"path": null}`}},
		{"poolside_v1", parsers.VLLM, `{"type": ["string", "null"]}`, glm("5"), "", []string{`ls {"path": 5}`}},
		{"poolside_v1", parsers.VLLM, `{"type": "string"}`, glm("5"), "", []string{`ls {"path": "5"}`}},
		// SGLang 0.5.23.
		{"glm47", parsers.SGLang, `{"type": "boolean"}`, glm47("5"), "", []string{`ls {"path": 5}`}},
		{"glm47", parsers.SGLang, `{"type": "boolean"}`, glm47("abc"), "", []string{`ls {"path": "abc"}`}},
		{"glm45", parsers.SGLang, `{}`, glm("5"), "", []string{`ls {"path": 5}`}},
		{"glm47", parsers.SGLang, `{"type": "string"}`, glm47("null"), "", []string{`ls {"path": "null"}`}},
		{"poolside_v1", parsers.SGLang, `{"type": ["string", "number"]}`, glm("5"), "", []string{`ls {"path": 5}`}},
		{"poolside_v1", parsers.SGLang, `{"type": "string"}`, glm("null"), "", []string{`ls {"path": "null"}`}},
		{"step3", parsers.SGLang, `{"type": ["string", "number"]}`, step("5"), "", []string{`ls {"path": 5}`}},
		{"step3", parsers.SGLang, `{"type": "string"}`, step("null"), "", []string{`ls {"path": "null"}`}},
		{"step3", parsers.SGLang, `{"anyOf": [{"type": "integer"}, {"type": "null"}]}`, step("5"), "", []string{`ls {"path": "5"}`}},
		{"muse_glimmer",
			parsers.SGLang,
			`{"type": "string"}`,
			"to=ls<|message|><atem:function_calls>\n<atem:invoke name=\"ls\">\n<atem:parameter name=\"path\">5</atem:parameter>\n</atem:invoke>\n</atem:function_calls><|eom|>",
			"",
			[]string{`ls {"path": 5}`}},
	}
	for _, tt := range tests {
		f, err := parsers.Standard().Get(tt.family)
		if err != nil {
			t.Fatal(err)
		}
		tools := probeTools
		if tt.schema != "" {
			tools = []trajectory.ToolSpec{{
				Name:       "ls",
				Parameters: json.RawMessage(`{"type": "object", "properties": {"path": ` + tt.schema + `}, "$defs": {"N": {"type": "integer"}}}`),
			}}
		}
		p := f.Parse(tt.text, parsers.ParseOptions{Tools: tools, Dialect: tt.dialect})
		var calls []string
		for _, c := range p.Calls {
			calls = append(calls, fmt.Sprint(c.Name, " ", c.Arguments))
		}
		if !slices.Equal(calls, tt.calls) || p.Content != tt.content {
			t.Errorf("%s %v %s %s\ncalls %q, want %q\ncontent %q, want %q", tt.family, tt.dialect, tt.schema, tt.text, calls, tt.calls, p.Content, tt.content)
		}
	}
}
