package chattemplate_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"hermes/parsers"
	"hermes/trajectory"
)

func nastyTools() []trajectory.ToolSpec {
	return []trajectory.ToolSpec{
		{
			Name:        "write",
			Description: "Writes.",
			Parameters:  json.RawMessage(`{"type": "object", "properties": {"path": {"type": "string", "description": "p"}, "text": {"type": "string", "description": "t"}}, "required": ["text"]}`),
		},
		{
			Name:        "calc",
			Description: "Computes.",
			Parameters:  json.RawMessage(`{"type": "object", "properties": {"n": {"type": "integer", "description": "n"}, "x": {"type": "number", "description": "x"}, "on": {"type": "boolean", "description": "b"}, "o": {"type": "object", "description": "o"}, "l": {"type": "array", "items": {"type": "string"}, "description": "l"}, "m": {"anyOf": [{"type": "integer"}, {"type": "null"}], "description": "m"}}, "required": []}`),
		},
	}
}

// nastyCalls are answers of one or two calls with the arguments of testdata/nasty.json.
func nastyCalls(t testing.TB) [][]trajectory.Call {
	t.Helper()
	raw, err := os.ReadFile("../testdata/nasty.json")
	if err != nil {
		t.Fatal(err)
	}
	var nasty struct{ Texts, Objects []string }
	if err := json.Unmarshal(raw, &nasty); err != nil {
		t.Fatal(err)
	}
	var out [][]trajectory.Call
	for _, s := range nasty.Texts {
		q, _ := json.Marshal(s)
		out = append(out, []trajectory.Call{call(1, "write", `{"text": `+string(q)+`}`)},
			[]trajectory.Call{call(1, "write", `{"path": "a", "text": `+string(q)+`}`)})
	}
	for _, a := range nasty.Objects {
		out = append(out, []trajectory.Call{call(1, "calc", a)})
		out = append(out, []trajectory.Call{call(1, "calc", a), call(2, "write", `{"text": "then"}`)})
	}
	return out
}

// noCarrier are templates whose form cannot carry the values, or that print another form than
// the model is to write.
var noCarrier = map[string]string{
	"CohereForAI-c4ai-command-r-plus-tool_use": "actions in a Markdown fence: no family",
	"vllm_tool_llama3.2_pythonic":              "strings are printed without quotes",
	"vllm_tool_toolace":                        "strings are printed without quotes",
	"vllm_tool_phi4_mini":                      "the history has another form than the model writes",
	"axolotl_llama4":                           "objects after empty Python tags",
	"vllm_tool_gemma3_pythonic":                "no comma between arguments, strings are not escaped",
	"vllm_tool_llama4_pythonic":                "quotes in strings are not escaped",
}

// TestNastyRoundTrip: what templates print for calls with nasty arguments is read back; what a
// form cannot carry is at least doubted.
func TestNastyRoundTrip(t *testing.T) {
	type count struct{ right, doubted, wrong int }
	counts := map[string]*count{}
	total, shown := count{}, 0
	for _, s := range sources(t) {
		if noCarrier[s.name] != "" {
			continue
		}
		tmpl := open(t, s)
		v := tmpl.Verdict()
		if !v.Calls {
			continue
		}
		c := counts[v.Family]
		if c == nil {
			c = &count{}
			counts[v.Family] = c
		}
		for _, calls := range nastyCalls(t) {
			if len(calls) > 1 && v.ParallelRefused {
				continue
			}
			calls = slices.Clone(calls)
			if v.Family == "kimi_k2" {
				for i := range calls {
					calls[i].ID = fmt.Sprintf("functions.%s:%d", calls[i].Name, i)
				}
			}
			text, inReasoning, ok := tmpl.Written(says("", calls...), nastyTools())
			if !ok {
				continue
			}
			got := tmpl.Family().Parse(text, parsers.ParseOptions{Tools: nastyTools(), InReasoning: inReasoning})
			why := differs(got, calls)
			if s.name == "trl_lfm2_2_5" && strings.Contains(calls[0].Arguments, `\\`) { // this template escapes no backslash
				why = ""
			}
			switch {
			case why == "":
				c.right++
				total.right++
			case doubted(got):
				c.doubted++
				total.doubted++
				if testing.Verbose() {
					t.Logf("doubted %s (%s): %.300q %.200s want %.200s faults %.300v", s.name, v.Family, text, why, calls[0].Arguments, got.Faults)
				}
			default:
				c.wrong++
				total.wrong++
				shown++
				if shown < 60 {
					t.Errorf("%s (%s): %.400q: %.300s, want %.200s", s.name, v.Family, text, why, calls[0].Arguments)
				}
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		t.Logf("%-18s %+v", name, *counts[name])
	}
	all := total.right + total.doubted + total.wrong
	t.Logf("%d texts in %d families: %.2f %% right, %d doubted, %d wrong", all, len(counts), 100*float64(total.right)/float64(all), total.doubted, total.wrong)
	if total.wrong > 0 || total.right*100 < all*96 {
		t.Errorf("%+v", total)
	}
}

// doubted says that the reading is not given as a good one.
func doubted(p parsers.Parsed) bool {
	if len(p.Calls) == 0 {
		return len(p.Faults) > 0
	}
	for _, c := range p.Calls {
		if c.State != parsers.Complete {
			return true
		}
	}
	return len(p.Faults) > 0
}
