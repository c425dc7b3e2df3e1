package policy

import (
	"fmt"
	"strings"

	"hermes/parsers"
	"hermes/trajectory"
)

// Unread finds calls that stand in an answer's text because the server did not read them.
// It is safe for concurrent use. The zero value looks for the calls of every family.
type Unread struct {
	Family parsers.Family // how the model writes its calls; the zero value: not known
}

// sign ties a family to what its calls begin with.
type sign struct{ mark, family string }

// signs are tried in order; a text is read by all families whose mark it holds.
func signs() []sign {
	return []sign{
		{"<tool_call>", "hermes"}, {"<function=", "qwen3_coder"}, {"<arg_key>", "glm45"},
		{"<｜DSML｜", "deepseek_v4"}, {"<｜DSML｜function_calls", "deepseek_v32"}, {"<｜tool▁call", "deepseek_v3_1"}, {"<｜tool▁call", "deepseek_v3"},
		{"<|tool_calls_section_begin|>", "kimi_k2"}, {"<|tool_call_begin|>", "kimi_k2"},
		{"<|tool_call>", "gemma4"}, {"<start_function_call>", "functiongemma"},
		{"<minimax:tool_call>", "minimax_m2"}, {"<tool_calls>", "minimax"}, {"<invoke name=", "minimax_m2"},
		{"[TOOL_CALLS]", "mistral"}, {"<|channel|>", "openai"}, {"<|python_tag|>", "llama3_json"},
		{"<seed:tool_call>", "seed_oss"}, {"<longcat_tool_call>", "longcat"}, {"<dots_function_call>", "dots"},
		{"<|tool_call_start|>", "lfm2"}, {"<|tools_prefix|>", "apertus"}, {"<|START_ACTION|>", "cohere_command4"},
		{"<|tool_call|>", "granite"}, {"<function_call>", "granite-20b-fc"}, {"<function_calls>", "olmo3"},
		{"<|action_start|>", "internlm"}, {"functools[", "phi4_mini_json"}, {"<|function_call|>", "gigachat3"},
		{"<steptml:invoke", "step3"}, {"<function name=", "minicpm5"}, {"<tool_sep>", "hy_v3"}, {"<|content_invoke_tool_json|>", "inkling"},
	}
}

// unread lists the places of text that look like calls. A tag that prose speaks of is none,
// nor is JSON that names no declared tool.
func (u Unread) unread(text string, tools []trajectory.ToolSpec) []trajectory.Fault {
	if len(tools) == 0 || !strings.ContainsAny(text, "<[") {
		return nil // a model without tools cannot call any
	}
	opt := parsers.ParseOptions{Tools: tools}
	if u.Family.New != nil {
		return unreadBy(u.Family, text, opt)
	}
	set := parsers.Standard()
	for _, s := range signs() {
		if !strings.Contains(text, s.mark) {
			continue
		}
		if f, err := set.Get(s.family); err == nil {
			if faults := unreadBy(f, text, opt); len(faults) > 0 {
				return faults
			}
		}
	}
	return nil
}

// unreadBy reads text as one family would.
func unreadBy(f parsers.Family, text string, opt parsers.ParseOptions) []trajectory.Fault {
	out := f.Parse(text, opt)
	if len(out.Calls) == 0 {
		return faultsOf(out, func() string { return text })
	}
	var faults []trajectory.Fault
	for _, c := range out.Calls {
		switch known := declared(opt.Tools, c.Name); {
		case quoted(text, c.Start) || !known && isJSON(text, c.Start):
		case !known:
			faults = append(faults, trajectory.Fault{Kind: "unknown_tool", Message: fmt.Sprintf("tool %q is not declared", c.Name), From: c.Start, To: c.End})
		default:
			faults = append(faults, trajectory.Fault{Kind: "unread", From: c.Start, To: c.End,
				Message: fmt.Sprintf("a call of %q stands in the text, as the family %s writes it: the server did not read it", c.Name, f.Name)})
		}
	}
	return faults
}

func declared(tools []trajectory.ToolSpec, name string) bool {
	for _, t := range tools {
		if t.Name == name {
			return true
		}
	}
	return false
}
