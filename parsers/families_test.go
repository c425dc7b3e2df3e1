package parsers_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"hermes/internal/realdata"
	"hermes/parsers"
)

// spelled is a call as tables of tests write it.
func spelled(c parsers.Call) string { return fmt.Sprintf("%s %s %s", c.Name, c.Arguments, c.State) }

// TestLateFamilies reads what the families of late 2026 write.
func TestLateFamilies(t *testing.T) {
	const keys = "<arg_key>path</arg_key><arg_value>/a</arg_value><arg_key>n</arg_key><arg_value>3</arg_value>"
	const ifm = "<ifm|tool_calls><ifm|tool_call>ls<ifm|arg_key>n</ifm|arg_key><ifm|arg_value>3</ifm|arg_value></ifm|tool_call>"
	gcml := func(name string) string {
		return "<｜GCML｜tool_calls>\n<｜GCML｜invoke name=\"" + name + "\">\n<｜GCML｜parameter name=\"path\" string=\"true\">5</｜GCML｜parameter>\n</｜GCML｜invoke>\n</｜GCML｜tool_calls>"
	}
	plamo := func(args string) string {
		return "<|plamo:begin_tool_requests:plamo|><|plamo:begin_tool_request:plamo|><|plamo:begin_tool_name:plamo|>ls<|plamo:end_tool_name:plamo|>" + args +
			"<|plamo:end_tool_request:plamo|><|plamo:end_tool_requests:plamo|>"
	}
	both := []string{`ls {"path": "/a", "n": 3} complete`}
	three := []string{`ls {"n": 3} complete`}
	tests := []struct {
		name, family, in   string
		content, reasoning string
		calls              []string
		faults             bool
	}{
		{
			"a blank in every tag", "deepseek_v41",
			"hm</think>Hi.<｜DSML｜ calls>\n<｜DSML｜ invoke name=\"ls\">\n<｜DSML｜ parameter name=\"n\" string=\"false\">3</｜DSML｜ parameter>\n" +
				"</｜DSML｜ invoke>\n</｜DSML｜ calls>", "Hi.", "hm", three, false,
		},
		{"GCML and the marks behind it", "gigachat35", gcml("ls") + "<|message_sep|></s>", "", "", []string{`ls {"path": "5"} complete`}, false},
		{"marks behind content", "gigachat35", "Hi.<|message_sep|>\n", "Hi.", "", nil, false},
		{"an unknown tool", "gigachat35", gcml("zz"), gcml("zz"), "", nil, true},
		{"no mark behind the name", "hy_v4", "<tool_calls><tool_call>ls" + keys + "</tool_call></tool_calls>", "", "", both, false},
		{
			"a suffix on every token", "hy_v4",
			"<think:6124c78e>hm</think:6124c78e>" + strings.NewReplacer("<tool_calls>", "<tool_calls:6124c78e>", "key>", "key:6124c78e>",
				"value>", "value:6124c78e>", "call>", "call:6124c78e>", "calls>", "calls:6124c78e>").Replace("<tool_calls><tool_call>ls"+keys+"</tool_call></tool_calls>"), "", "hm", both, false,
		},
		{
			"a suffix, no group",
			"hy_v3",
			"Hi.\n<tool_call:ab>ls<tool_sep:ab>\n<arg_key:ab>n</arg_key:ab>\n<arg_value:ab>3</arg_value:ab>\n</tool_call:ab>",
			"Hi.",
			"",
			[]string{`ls {"n": 3} recovered`},
			true,
		},
		{"a call between sentences", "spark25", "Hi.\n<tool_call>ls\n" + keys + "\n</tool_call>\nSo.", "Hi.\n\nSo.", "", both, false},
		{"values verbatim",
			"iquest_q1",
			"<iquest_tool_call>ls\n<arg_key>path</arg_key> <arg_value>  \"1\"\n</arg_value>\n</iquest_tool_call>",
			"",
			"",
			[]string{`ls {"path": "  \"1\"\n"} complete`},
			false},
		{"foreign text in the body", "iquest_q1", "<iquest_tool_call>ls<arg_key>n</arg_key><arg_value>3</arg_value>and so on</iquest_tool_call>",
			"<iquest_tool_call>ls<arg_key>n</arg_key><arg_value>3</arg_value>and so on</iquest_tool_call>", "", nil, true},
		{
			"a call behind one that is none", "iquest_q1",
			"<iquest_tool_call>ls<arg_key>o</arg_key><arg_value>{\"a\": 1, \"a\": 2}</arg_value><arg_key>n</arg_key>oops</iquest_tool_call>" +
				"<iquest_tool_call>ls<arg_key>n</arg_key><arg_value>3</arg_value></iquest_tool_call>", "", "", three, true,
		},
		{"keys and values", "k2_horizon", "Hi." + ifm + "</ifm|tool_calls>", "Hi.", "", three, false},
		{
			"types in the text",
			"k2_horizon",
			"<ifm|tool_calls>\n<ifm|tool_call>ls\n<ifm|arg_key>n</ifm|arg_key>\n<ifm|arg_type>string</ifm|arg_type>\n<ifm|arg_value>3</ifm|arg_value>\n" +
				"<ifm|arg_key>zz</ifm|arg_key>\n<ifm|arg_type>integer</ifm|arg_type>\n<ifm|arg_value>3</ifm|arg_value>\n</ifm|tool_call>\n</ifm|tool_calls>",
			"",
			"",
			[]string{`ls {"n": 3, "zz": 3} complete`},
			false,
		},
		{
			"an object",
			"k2_horizon",
			`<ifm|tool_calls><ifm|tool_call>{"name": "ls", "arguments": {"n": 3}}</ifm|tool_call><ifm|tool_call>now</ifm|tool_call></ifm|tool_calls>`,
			"",
			"",
			[]string{`ls {"n": 3} complete`, `now {} complete`},
			false,
		},
		{"a group that is not closed", "k2_horizon", ifm, "", "", []string{`ls {"n": 3} recovered`}, true},
		{"a call without a group", "k2_horizon", "Hi.\n<ifm|tool_call>now</ifm|tool_call>", "Hi.", "", []string{`now {} recovered`}, true},
		{"an effort", "k2_horizon", "<ifm|think_faster>hm</ifm|think_faster>" + ifm + "</ifm|tool_calls>", "", "hm", three, false},
		{"a group ends reasoning", "k2_horizon", "<ifm|think>hm" + ifm + "</ifm|tool_calls>", "", "hm", []string{`ls {"n": 3} ambiguous`}, true},
		{
			"PLaMo", "plamo3",
			"Hi." + plamo(`<|plamo:begin_tool_arguments:plamo|><|plamo:constrain|>json<|plamo:msg|>{"n": 3}<|plamo:end_tool_arguments:plamo|>`) + "<|plamo:tag|>",
			"Hi.", "", three, false,
		},
		{
			"PLaMo without a constraint", "plamo3",
			plamo(`<|plamo:begin_tool_arguments:plamo|><|plamo:msg|>{"n": 3}<|plamo:end_tool_arguments:plamo|>`), "", "", three, false,
		},
		{"PLaMo without arguments",
			"plamo3",
			plamo(`<|plamo:begin_tool_arguments:plamo|><|plamo:constrain|>json<|plamo:msg|><|plamo:end_tool_arguments:plamo|>`),
			"",
			"",
			[]string{`ls {} complete`},
			false},
		{
			"recipients",
			"muse",
			" to=self<|message|>I need it.<|eom|><|start|>assistant<|message|>Now.<|eom|><|start|>assistant to=commentary<|message|>One moment.<|eom|>" +
				"<|start|>assistant to=developer<|message|>note<|eom|><|start|>assistant to=now<|message|><atem:function_calls>\n<atem:invoke name=\"now\">\n</atem:invoke>\n</atem:function_calls><|eom|>",
			"One moment.",
			"I need it.Now.",
			[]string{`now {} complete`},
			true,
		},
		{
			"elements in a channel",
			"beam",
			"<|channel|>analysis<|message|>hm<|end|><|start|>assistant to=ls<|channel|>analysis <|constrain|>xml<|message|><rfl:parameter name=\"path\">\na\nb\n</rfl:parameter>" +
				"<rfl:parameter name=\"n\">\n3\n</rfl:parameter><|call|>",
			"",
			"hm",
			[]string{`ls {"path": "a\nb", "n": 3} complete`},
			false,
		},
		{
			"an element that the next closes",
			"beam",
			" to=ls<|channel|>analysis <|constrain|>xml<|message|><rfl:parameter name=\"path\">\na\n<rfl:parameter name=\"n\">\n3\n</rfl:parameter><|end|><|start|>assistant",
			"",
			"",
			[]string{`ls {"path": "a", "n": 3} recovered`},
			true,
		},
		{
			"its own id", "solar_open",
			"Hi.<|tool_calls|><|tool_call:begin|>c1<|tool_call:name|>ls<|tool_call:args|>{\"n\": 3}<|tool_call:end|>", "Hi.", "",
			three, false,
		},
		{
			"a list between tags", "nemotron_nano_v2",
			"<think>hm</think><TOOLCALL>[{\"name\": \"ls\", \"arguments\": {\"n\": 3}}]</TOOLCALL>", "", "hm", three, false,
		},
		{"an element around an object", "functionary_v3_1", "Hi.<function=ls>{\"n\": 3}</function>", "Hi.", "", three, false},
		{"the closing tag in a value",
			"functionary_v3_1",
			`<function=ls>{"path": "a</function>b"}</function>`,
			"",
			"",
			[]string{`ls {"path": "a</function>b"} complete`},
			false},
		{"an element that is not closed", "functionary_v3_1", `<function=ls>{"n": 3}`, "", "", []string{`ls {"n": 3} recovered`}, true},
		{"a message to a tool", "functionary_v3_2", ">>>all\nHi.>>>ls\n{\"n\": 3}", "Hi.", "", three, false},
		{"the mark in the prompt", "functionary_v3_2", "ls\n{\"n\": 3}>>>now\n{}", "", "", []string{`ls {"n": 3} complete`, `now {} complete`}, false},
		{"a prompt of Python in prose and in a value",
			"functionary_v3_2",
			"all\nType >>> x\n>>>ls\n{\"path\": \">>>now\\n{}\"}",
			"Type >>> x\n",
			"",
			[]string{`ls {"path": ">>>now\n{}"} complete`},
			false},
		{"a message that is cut", "functionary_v3_2", "all\nHi.>>>ls\n{\"n\": 3", "Hi.", "", []string{`ls {"n": 3 truncated`}, true},
		{"a header that is cut", "functionary_v3_2", "all\nHi.>>>ls", "Hi.", "", nil, true},
		{"no header", "functionary_v3_2", "Paris\nis nice", "Paris\nis nice", "", nil, false},
		{"values as they are",
			"mimo",
			"<tool_call>\n<function=ls>\n<parameter=path>a\n</parameter>\n</function>\n</tool_call>",
			"",
			"",
			[]string{`ls {"path": "a\n"} complete`},
			false},
		{
			"blanks are content", "step5",
			"Hi.\n\n<tool_call>\n<function=ls>\n<parameter=n>\n3\n</parameter>\n</function>\n</tool_call>", "Hi.\n\n", "", three,
			false,
		},
		{
			"Seed with newlines around every value",
			"seed_oss",
			"<seed:tool_call>\n<function=ls>\n<parameter=path>\n/a\n</parameter>\n<parameter=n>\n3\n</parameter>\n</function>\n</seed:tool_call>",
			"",
			"",
			[]string{`ls {"path": "/a", "n": 3} recovered`},
			true,
		},
		{
			"Seed as its template writes",
			"seed_oss",
			"<seed:tool_call>\n<function=ls>\n<parameter=path>\n/a\n</parameter>\n<parameter=n>3</parameter>\n</function>\n</seed:tool_call>",
			"",
			"",
			[]string{`ls {"path": "\n/a\n", "n": 3} complete`},
			false,
		},
	}
	for _, tt := range tests {
		t.Run(tt.family+" "+tt.name, func(t *testing.T) {
			got := familyOf(t, tt.family).Parse(tt.in, parsers.ParseOptions{Tools: probeTools, InReasoning: strings.HasPrefix(tt.in, "hm</think>")})
			var calls []string
			for _, c := range got.Calls {
				calls = append(calls, spelled(c))
			}
			if !reflect.DeepEqual(calls, tt.calls) || strings.TrimSuffix(got.Content, "\n") != strings.TrimSuffix(tt.content, "\n") ||
				got.Reasoning != tt.reasoning || (len(got.Faults) > 0) != tt.faults {
				t.Errorf("%q:\n\tcalls %q, content %q, reasoning %q, faults %+v", tt.in, calls, got.Content, got.Reasoning, got.Faults)
			}
			if err := checkLaws(tt.in, got); err != nil {
				t.Error(err)
			}
		})
	}
}

// lateCase is a case beside the newest servers. accept "exact": the calls and the asserted
// texts are equal; "flagged": what is expected is there or a fault is, and no other call is
// given as complete.
type lateCase struct {
	corpusCase
	Accept string `json:"accept"`
}

// TestCasesOfLate2026 reads the cases beside vLLM 0.33 and SGLang 0.5.23 in our dialect: one of
// each kind and family here, and all of them where the shared data is.
func TestCasesOfLate2026(t *testing.T) {
	t.Run("essential", func(t *testing.T) { lateCases(t, "testdata/late.jsonl") })
	t.Run("all", func(t *testing.T) { lateCases(t, realdata.Path(t, "reports/parsers-new.jsonl")) })
}

func lateCases(t *testing.T, path string) {
	known := knownMisses(t)
	set := parsers.Standard()
	total, hit := 0, 0
	readJSONL(t, path, func(c lateCase) {
		total++
		req := map[string]any{"id": c.ID, "family": c.Parser, "tools": c.Tools, "options": c.Options, "text": c.Text}
		for k, raw := range map[string]json.RawMessage{"tools": c.Tools, "options": c.Options} {
			if len(raw) == 0 || string(raw) == "null" {
				delete(req, k)
			}
		}
		why := lateMiss(c, parseLine(t, set, parsers.Ours, req))
		_, listed := known[c.ID]
		switch {
		case why == "":
			hit++
			if listed {
				t.Errorf("%s passes but is listed as a miss", c.ID)
			}
		case !listed:
			t.Errorf("%s: %q: %s", c.ID, c.Text, why)
		}
	})
	t.Logf("%d of %d cases (%.1f %%)", hit, total, 100*float64(hit)/float64(total))
	if hit*100 < 98*total {
		t.Errorf("%d of %d cases are read right, want 98 %%", hit, total)
	}
}

func lateMiss(c lateCase, a parseAnswer) string {
	trimmed := func(s *string) string { return strings.TrimSpace(text(s)) }
	switch {
	case a.Error != "":
		return "error " + a.Error
	case c.HasText && trimmed(c.Content) != trimmed(a.Content):
		return "content " + text(a.Content)
	case c.HasReason && trimmed(c.Reasoning) != trimmed(a.Reasoning):
		return "reasoning " + text(a.Reasoning)
	}
	if c.Accept == "exact" {
		if c.Calls == nil && len(a.Calls) > 0 {
			return fmt.Sprintf("calls %+v", a.Calls)
		}
		return miss(corpusCase{Calls: c.Calls}, a)
	}
	rest := slices.Clone(c.Calls)
	for _, got := range a.Calls {
		i := slices.IndexFunc(rest, func(want expectedCall) bool {
			return miss(corpusCase{Calls: []expectedCall{want}}, parseAnswer{Calls: []parsers.Call{got}}) == ""
		})
		switch {
		case i >= 0:
			rest = slices.Delete(rest, i, i+1)
		case got.State == parsers.Complete:
			return fmt.Sprintf("complete but not expected: %+v", got)
		}
	}
	if len(rest) > 0 && len(a.Faults) == 0 {
		return "lost without a fault"
	}
	return ""
}

// TestDoubledKeys: an object in the arguments that gives one key two values is never complete
// in any family, and the call beside it is.
func TestDoubledKeys(t *testing.T) {
	doubled := parsers.Call{Name: "ls", Arguments: `{"o": {"a": 1, "a": 2}, "n": 5}`}
	for _, f := range families() {
		for _, calls := range [][]parsers.Call{{doubled, probeCalls[1]}, {probeCalls[1], doubled}, {doubled}} {
			if oneCall[f.Name] && len(calls) > 1 {
				continue
			}
			in := f.Format(parsers.Parsed{Calls: calls})
			if strings.Count(in, `"a"`) != 2 && strings.Count(in, "a:") != 2 { // the family does not write the second one
				continue
			}
			got := f.Parse(in, parsers.ParseOptions{Tools: probeTools})
			for _, c := range got.Calls {
				if (c.State == parsers.Complete) != (c.Name == "now") {
					t.Errorf("%s: %q: %+v", f.Name, in, c)
				}
			}
		}
	}
}

// TestNewestPeers: what vLLM 0.33 and SGLang 0.5.23 make of texts that they read in another way
// than we do.
func TestNewestPeers(t *testing.T) {
	const cutGLM = "<tool_call>ls\n<arg_key>n</arg_key>\n<arg_value>3</arg_value>\n"
	for _, tt := range []struct {
		dialect    parsers.Dialect
		family, in string
		content    string
		calls      []string
	}{
		{parsers.VLLM, "mistral", `[TOOL_CALLS]ls[ARGS]{"o": [{"name": "x"}]}`, "", []string{`ls {"o": [{"name": "x"}]}`}},
		{parsers.VLLM, "reasoning:mistral+mistral", "I think so.[/THINK]\n\n[TOOL_CALLS]now[ARGS]{}", "I think so.\n\n", []string{"now {}"}},
		{parsers.VLLM, "reasoning:qwen3+hermes", `<think>a <tool_call>{"name": "now", "arguments": {}}</tool_call> b</think>c`, "", []string{"now {}"}},
		{parsers.Ours, "reasoning:qwen3+hermes", `<think>a <tool_call>{"name": "now", "arguments": {}}</tool_call> b</think>c`, "c", nil},
		{parsers.VLLM, "granite", `Sure.<|tool_call|>[{"name": "now", "arguments": {}}]`, "Sure.", []string{"now {}"}},
		{parsers.VLLM,
			"muse_glimmer",
			"to=ls<|message|><atem:function_calls><atem:invoke name=\"ls\"><atem:parameter name=\"path\">12</atem:parameter></atem:invoke></atem:function_calls><|eom|>",
			"",
			[]string{`ls {"path": 12}`}},
		{parsers.Ours,
			"muse_glimmer",
			"to=ls<|message|><atem:function_calls><atem:invoke name=\"ls\"><atem:parameter name=\"path\">12</atem:parameter></atem:invoke></atem:function_calls><|eom|>",
			"",
			[]string{`ls {"path": "12"}`}},
		{parsers.VLLM, "poolside_v1", cutGLM, cutGLM, nil},
		{parsers.VLLM, "poolside_v1", "<tool_call>ls\n<arg_key>zz</arg_key>\n<arg_value>5</arg_value>\n</tool_call>", "", []string{`ls {"zz": 5}`}},
		{parsers.SGLang,
			"glm47",
			"<tool_call>ls<arg_key>zz</arg_key><arg_value>5</arg_value><arg_key>path</arg_key><arg_value>null</arg_value></tool_call>",
			"",
			[]string{`ls {"zz": 5, "path": "null"}`}},
		{parsers.VLLM, "hermes", `<tool_call>{"name": "ls", "arguments": "{\"n\": 3}"}</tool_call>`, "", []string{`ls "{\"n\": 3}"`}},
		{parsers.SGLang, "qwen", "<tool_call>\n{\"name\": \"ls\", \"arguments\": \"{}\"}\n</tool_call>", "", []string{`ls "{}"`}},
		{parsers.Ours, "hermes", `<tool_call>{"name": "ls", "arguments": "{\"n\": 3}"}</tool_call>`, "", []string{`ls {"n": 3}`}},
		{parsers.VLLM, "k2_horizon", "<ifm|tool_calls><ifm|tool_call>now</ifm|tool_call>", "<ifm|tool_calls><ifm|tool_call>now</ifm|tool_call>", nil},
		{parsers.SGLang, "k2_horizon", "<ifm|tool_calls><ifm|tool_call>now</ifm|tool_call>", "", []string{"now {}"}},
		{parsers.SGLang, "spark25", "a\n<tool_call>now\n</tool_call>\nb", "a\n\nb", []string{"now {}"}},
		{parsers.Ours, "reasoning:ernie45+ernie45", `hm <tool_call>{"name": "now", "arguments": {}}</tool_call>`, "", []string{"now {}"}},
		{parsers.Ours, "reasoning:step3p5+step3p5", "<think>hm\n<tool_call>\n<function=now>\n</function>\n</tool_call>", "", []string{"now {}"}},
	} {
		p := familyOf(t, tt.family).Parse(tt.in, parsers.ParseOptions{Tools: probeTools, Dialect: tt.dialect})
		var calls []string
		for _, c := range p.Calls {
			calls = append(calls, c.Name+" "+c.Arguments)
		}
		if !reflect.DeepEqual(calls, tt.calls) || p.Content != tt.content {
			t.Errorf("%v %s %q: calls %q, content %q, faults %+v", tt.dialect, tt.family, tt.in, calls, p.Content, p.Faults)
		}
		if err := checkLaws(tt.in, p); err != nil {
			t.Errorf("%v %s %q: %v", tt.dialect, tt.family, tt.in, err)
		}
	}
}

// Functionary writes the code of the tool python as it is.
func TestFunctionaryCode(t *testing.T) {
	tools := append(slices.Clone(probeTools), probeTools[1])
	tools[0].Name = "python"
	for _, tt := range []struct{ family, text, content, want string }{
		{"functionary_v3_1", "So:<|python_tag|>x = \"a\"\nprint(x)", "So:", `{"code": "x = \"a\"\nprint(x)"}`},
		{"functionary_v3_1", `<|python_tag|>{"code": "1"}`, "", `{"code": "1"}`},
		{"functionary_v3_2", "all\nSo:>>>python\nprint(\">>> 1\")\n", "So:", `{"code": "print(\">>> 1\")\n"}`},
		{"functionary_v3_2", "python\n{\"code\": \"1\"}", "", `{"code": "1"}`},
	} {
		f, err := parsers.Standard().Get(tt.family)
		if err != nil {
			t.Fatal(err)
		}
		p := f.Parse(tt.text, parsers.ParseOptions{Tools: tools})
		if p.Content != tt.content || len(p.Calls) != 1 || p.Calls[0].Name != "python" || p.Calls[0].Arguments != tt.want ||
			p.Calls[0].State != parsers.Complete {
			t.Errorf("%s %q: %+v", tt.family, tt.text, p)
		}
	}
}
