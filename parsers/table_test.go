package parsers_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"hermes/parsers"
	"hermes/trajectory"
)

// TestFamilies reads one text a row in our dialect.
func TestFamilies(t *testing.T) {
	const o, c = `<tool_call>{"name": "ls", "arguments": {"path": "/a"}}</tool_call>`, `<tool_call>{"name": "now", "arguments": {}}</tool_call>`
	tests := []struct {
		name, family, in, content, reasoning string
		calls                                []string // name arguments state
	}{
		{"two calls", "hermes", "I look.\n" + o + "\n" + c, "I look.\n", "", []string{`ls {"path": "/a"} complete`, `now {} complete`}},
		{"a bad call between good ones", "hermes", o + "<tool_call>{oops}</tool_call>" + c, "", "", []string{`ls {"path": "/a"} complete`, `now {} complete`}},
		{"closing tag inside a string",
			"hermes",
			`<tool_call>{"name": "ls", "arguments": {"path": "</tool_call>"}}</tool_call>`,
			"",
			"",
			[]string{`ls {"path": "</tool_call>"} complete`}},
		{"closing tag is missing", "hermes", `<tool_call>{"name": "now", "arguments": {}}`, "", "", []string{`now {} recovered`}},
		{"cut JSON is content", "hermes", `<tool_call>{"name": "now", "arg`, `<tool_call>{"name": "now", "arg`, "", nil},
		{"single quotes and a comma too many",
			"hermes",
			`<tool_call>{'name': 'ls', 'arguments': {'path': '/a',}}</tool_call>`,
			"",
			"",
			[]string{`ls {"path": "/a"} recovered`}},
		{"raw newline in a string",
			"hermes",
			"<tool_call>{\"name\": \"ls\", \"arguments\": {\"path\": \"a\nb\"}}</tool_call>",
			"",
			"",
			[]string{`ls {"path": "a\nb"} recovered`}},
		{"thinking", "qwen", "<think>\n" + o + "</think>" + c, "", "\n" + o, []string{`now {} complete`}},
		{"lists of Mistral", "mistral", `[TOOL_CALLS] [{"name": "ls", "arguments": {"path": "]"}}]`, "", "", []string{`ls {"path": "]"} complete`}},
		{"Mistral v11 cut", "mistral", `[TOOL_CALLS]ls[ARGS]{"path": "/a`, "", "", []string{`ls {"path": "/a truncated`}},
		{"llama",
			"llama3_json",
			`{"name": "ls", "parameters": {"n": 1e5}}; {"name": "now", "parameters": {}}`,
			"",
			"",
			[]string{`ls {"n": 1e5} complete`, `now {} complete`}},
		{"DeepSeek V3",
			"deepseek_v3",
			"<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>ls\n```json\n{\"path\":\n\"/a\"}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
			"",
			"",
			[]string{"ls {\"path\":\n\"/a\"} complete"}},
		{"Kimi without a section's end",
			"kimi_k2",
			`<|tool_calls_section_begin|><|tool_call_begin|>functions.ls:3<|tool_call_argument_begin|>{"path": "<|tool_call_end|>"}<|tool_call_end|>`,
			"",
			"",
			[]string{`ls {"path": "<|tool_call_end|>"} complete`}},
		{"types by the schema",
			"qwen3_coder",
			"<tool_call>\n<function=ls>\n<parameter=path>\n007\n</parameter>\n<parameter=n>\n3\n</parameter>\n<parameter=other>\n3\n</parameter>\n</function>\n</tool_call>",
			"",
			"",
			[]string{`ls {"path": "007", "n": 3, "other": "3"} complete`}},
		{"closing tag inside a value",
			"qwen3_coder",
			"<tool_call><function=ls><parameter=path>a</parameter>b</parameter></function></tool_call>",
			"",
			"",
			[]string{`ls {"path": "a</parameter>b"} ambiguous`}},
		{"GLM", "glm45", "<tool_call>ls\n<arg_key>n</arg_key>\n<arg_value>4</arg_value>\n</tool_call>", "", "", []string{`ls {"n": 4} complete`}},
		{"GLM in open reasoning", "reasoning:glm45+glm45", "<think>so <tool_call>now</tool_call>", "", "so ", []string{`now {} ambiguous`}},
		{"channels",
			"openai",
			`<|channel|>analysis<|message|>hm<|end|><|start|>assistant<|channel|>commentary to=functions.ls <|constrain|>json<|message|>{"n": 1}<|call|>`,
			"",
			"hm",
			[]string{`ls {"n": 1} complete`}},
		{"Python",
			"pythonic",
			`[ls(path='a', n=-1, deep=True), now()]`,
			"",
			"",
			[]string{`ls {"path": "a", "n": -1, "deep": true} complete`, `now {} complete`}},
		{"Gemma", "gemma4", `<|tool_call>call:ls{path:<|"|>a}b<|"|>,n:2}<tool_call|>`, "", "", []string{`ls {"path": "a}b", "n": 2} complete`}},
		{"DSML says the type",
			"deepseek_v32",
			`<｜DSML｜function_calls><｜DSML｜invoke name="ls"><｜DSML｜parameter name="path" string="true">5</｜DSML｜parameter></｜DSML｜invoke></｜DSML｜function_calls>`,
			"",
			"",
			[]string{`ls {"path": "5"} complete`}},
		{"reasoning alone", "reasoning:qwen3", "<think>\na\n</think>b", "b", "\na\n", nil},
	}
	set := parsers.Standard()
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f, err := set.Get(tt.family)
			if err != nil {
				t.Fatal(err)
			}
			p := f.Parse(tt.in, parsers.ParseOptions{Tools: probeTools})
			var calls []string
			for _, c := range p.Calls {
				calls = append(calls, spelled(c))
			}
			if p.Content != tt.content || p.Reasoning != tt.reasoning || strings.Join(calls, "|") != strings.Join(tt.calls, "|") {
				t.Errorf("%q\ncontent %q\nreasoning %q\ncalls %q\nfaults %+v", tt.in, p.Content, p.Reasoning, calls, p.Faults)
			}
		})
	}
}

func TestIDs(t *testing.T) {
	kimi := parsers.KimiK2.Parse(`<|tool_calls_section_begin|><|tool_call_begin|>functions.ls:7<|tool_call_argument_begin|>{}<|tool_call_end|><|tool_calls_section_end|>`,
		parsers.ParseOptions{})
	if len(kimi.Calls) != 1 || kimi.Calls[0].ID != "functions.ls:7" {
		t.Errorf("kimi: %+v", kimi.Calls)
	}
	m := parsers.Mistral.Parse(`[TOOL_CALLS]a[ARGS]{}[TOOL_CALLS]a[ARGS]{}`, parsers.ParseOptions{})
	nine := regexp.MustCompile(`^[A-Za-z0-9]{9}$`)
	if len(m.Calls) != 2 || !nine.MatchString(m.Calls[0].ID) || m.Calls[0].ID == m.Calls[1].ID {
		t.Errorf("mistral: %+v", m.Calls)
	}
}

// Where ids are at hand, only special tokens are markers.
func TestSpelledMarkersAreText(t *testing.T) {
	special := func(id trajectory.Token) (string, bool) {
		s, ok := map[trajectory.Token]string{1: "<tool_call>", 2: "</tool_call>"}[id]
		return s, ok
	}
	body := `{"name": "now", "arguments": {}}`
	s := parsers.Hermes.New(parsers.ParseOptions{Special: special})
	s.Feed("write <tool_call>"+body+"</tool_call> so: ", []trajectory.Token{9, 9, 9})
	s.Feed("<tool_call>", []trajectory.Token{1})
	s.Feed(body, []trajectory.Token{9, 9})
	s.Feed("</tool_call>", []trajectory.Token{2})
	p := s.Finish(false)
	if len(p.Calls) != 1 || p.Content != "write <tool_call>"+body+"</tool_call> so: " {
		t.Errorf("content %q, calls %+v", p.Content, p.Calls)
	}
}

// A special token is a marker everywhere, also amid a sentence.
func TestSpecialTokensAreMarkers(t *testing.T) {
	special := func(id trajectory.Token) (string, bool) {
		s, ok := map[trajectory.Token]string{1: "<tool_call>"}[id]
		return s, ok
	}
	s := parsers.Hermes.New(parsers.ParseOptions{Special: special})
	s.Feed("I use ", []trajectory.Token{9})
	s.Feed("<tool_call>", []trajectory.Token{1})
	s.Feed(" and so on", []trajectory.Token{9})
	if p := s.Finish(false); len(p.Faults) == 0 {
		t.Errorf("%+v", p)
	}
	if p := parsers.Hermes.Parse("I use <tool_call> and so on", parsers.ParseOptions{}); len(p.Faults) > 0 {
		t.Errorf("without ids: %+v", p)
	}
}

func TestSetGet(t *testing.T) {
	set := parsers.Standard()
	for name, want := range map[string]string{
		"deepseek_v31":                   "deepseek_v3_1",
		"gpt-oss":                        "openai",
		"mimo":                           "mimo",
		"qwen3_json":                     "hermes",
		"openai_gptoss":                  "openai",
		"nanbeige":                       "qwen3_coder",
		"deepseek-v4":                    "deepseek_v4",
		"deepseek-v41":                   "deepseek_v41",
		"minimax-m2":                     "minimax_m2",
		"musespark1x":                    "muse",
		"reasoning:deepseek-r1":          "reasoning:deepseek-r1",
		"reasoning:qwen3-thinking":       "reasoning:qwen3-thinking",
		"reasoning:minimax-append-think": "reasoning:minimax-append-think",
		"glm":                            "glm45",
		"hermes":                         "hermes",
		"qwen3_reasoning+hermes":         "reasoning:qwen3+hermes",
		"reasoning:deepseek_v3/holo2":    "reasoning:deepseek_v3",
	} {
		if f, err := set.Get(name); err != nil || f.Name != want {
			t.Errorf("%s: %q, %v", name, f.Name, err)
		}
	}
	for _, name := range []string{"hermse", "reasoning:qwen33", "reasoning:qwen3+hermse"} {
		if _, err := set.Get(name); !errors.Is(err, parsers.ErrUnknown) || !strings.Contains(err.Error(), "nearest") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := parsers.NewSet(parsers.Hermes, parsers.Hermes); err == nil {
		t.Error("a name twice is accepted")
	}
}

// TestBuiltinIsComplete reads the folder: every exported family must be in the list.
func TestBuiltinIsComplete(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	list, err := os.ReadFile("builtin.go")
	if err != nil {
		t.Fatal(err)
	}
	_, body, _ := strings.Cut(string(list), "[]Family{")
	body, _, _ = strings.Cut(body, "\n\t}\n")
	family := regexp.MustCompile(`(?m)^(?:var|\t)\s*([A-Z]\w*)\s*=\s*(?:grammar\{|\w+(?:Grammar|XML)?\(|dsml\()`)
	n := 0
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		for _, m := range family.FindAllStringSubmatch(string(b), -1) {
			n++
			if !regexp.MustCompile(`\b` + m[1] + `\b`).MatchString(body) {
				t.Errorf("%s: %s is missing in Builtin", file, m[1])
			}
		}
	}
	if n != len(parsers.Builtin()) {
		t.Errorf("%d families in the files, %d in Builtin", n, len(parsers.Builtin()))
	}
}

func TestLines(t *testing.T) {
	in := strings.Join([]string{
		`{"id": "a", "family": "hermes", "chunks": ["<tool_", "call>{\"name\": \"now\", \"arguments\": {}}</tool_call>"]}`,
		`{"id": "b", "family": "nope", "text": ""}`,
		`not json`,
		`{"id": 4, "family": "reasoning:qwen3", "text": "x</think>y", "starts_in_reasoning": true}`,
		`{"id": "e", "family": "hermes"}`,
		`{"id": "f", "family": "auto", "text": "<tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n</tool_call>"}`,
		`{"id": "g", "family": "auto", "text": "Fine."}`,
		`{"id": "h", "text": "Fine."}`,
	}, "\n")
	var out bytes.Buffer
	if err := parsers.Lines(strings.NewReader(in), &out, parsers.Standard(), parsers.Ours); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	want := []string{
		`"state":"complete"}],"faults":[]}`, `{"id":"b","error":"unknown family`, `{"id":null,"error":`,
		`{"id":4,"content":"y","reasoning":"x","calls":[],"faults":[]}`, `text or chunks`,
		`{"id":"f","family":"hermes","content":null,`, `{"id":"g","content":"Fine.",`, `family is missing`,
	}
	if len(lines) != len(want) {
		t.Fatalf("%d lines: %s", len(lines), out.String())
	}
	for i, w := range want {
		if !strings.Contains(lines[i], w) || !json.Valid([]byte(lines[i])) {
			t.Errorf("line %d: %s, want %s", i, lines[i], w)
		}
	}
}

func TestParseDialect(t *testing.T) {
	for _, name := range []string{"ours", "vllm", "sglang", "upstream"} {
		if d, err := parsers.ParseDialect(name); err != nil || d.String() != name {
			t.Errorf("%s: %v, %v", name, d, err)
		}
	}
	if _, err := parsers.ParseDialect("hf"); err == nil || !strings.Contains(err.Error(), "sglang") {
		t.Errorf("hf: %v", err)
	}
}

// TestDialects reads texts that the peers' tests contain and that we read otherwise.
func TestDialects(t *testing.T) {
	for _, tt := range []struct {
		dialect                        parsers.Dialect
		family, in, content, reasoning string
		calls                          int
	}{
		{parsers.VLLM, "dots", "some text </dots_function_call>", "some text ", "", 0},
		{parsers.Ours, "dots", "some text </dots_function_call>", "some text </dots_function_call>", "", 0},
		{parsers.VLLM, "dots", "<dots_function_call>words</dots_function_call>more", "wordsmore", "", 0},
		{parsers.VLLM, "reasoning:step3p5", "a\n\n</think>\n\nb", "\nb", "a\n", 0},
		{parsers.Ours, "reasoning:step3p5", "a\n\n</think>\n\nb", "b", "a", 0},
		{parsers.VLLM, "reasoning:holo2", "a</think>b", "b", "a", 0},
		{parsers.VLLM, "reasoning:holo2", "b", "b", "", 0},
		{parsers.VLLM, "reasoning:deepseek_v4", "<think>a<｜DSML｜tool_calls>b", "", "a", 0},
		{parsers.Ours, "reasoning:deepseek_v4", "<think>a<｜DSML｜tool_calls>\nb", "<｜DSML｜tool_calls>\nb", "a", 0},
		{parsers.Ours, "reasoning:deepseek_v4", "<think>a <｜DSML｜tool_calls> b", "", "a <｜DSML｜tool_calls> b", 0}, // quoted: it ends nothing
		{parsers.SGLang, "kimi_k2", `<|tool_calls_section_begin|><|tool_call_begin|>functions.ls:0<|tool_call_argument_begin|>{"path`, "", "", 1},
	} {
		p := familyOf(t, tt.family).Parse(tt.in, parsers.ParseOptions{Dialect: tt.dialect})
		if p.Content != tt.content || p.Reasoning != tt.reasoning || len(p.Calls) != tt.calls {
			t.Errorf("%v %s %q: content %q, reasoning %q, %d calls", tt.dialect, tt.family, tt.in, p.Content, p.Reasoning, len(p.Calls))
		}
		for _, c := range p.Calls {
			if c.State == parsers.Complete {
				t.Errorf("%v %s %q: a cut call is complete", tt.dialect, tt.family, tt.in)
			}
		}
		if err := checkLaws(tt.in, p); err != nil {
			t.Errorf("%v %s %q: %v", tt.dialect, tt.family, tt.in, err)
		}
	}
}

func familyOf(t *testing.T, name string) parsers.Family {
	t.Helper()
	f, err := parsers.Standard().Get(name)
	if err != nil {
		t.Fatal(err)
	}
	return f
}
