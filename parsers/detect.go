package parsers

import (
	"slices"
	"strings"
)

// clue ties a family to what its chat templates contain.
type clue struct {
	family string
	all    []string // the template contains each of these
	none   []string // and none of these
}

// clues are tried in order: the first that fits counts, so the more special ones stand
// before those whose markers they share.
var clues = []clue{
	{family: "beam", all: []string{"<rfl:parameter"}},
	{family: "openai", all: []string{"<|channel|>", "<|message|>", "analysis"}},
	{family: "inkling", all: []string{"<|content_invoke_tool_json|>"}},
	{family: "kimi_k3", all: []string{"<|open|>", "<|sep|>", "<|close|>"}},
	{family: "muse", all: []string{"atem:function_calls", "commentary"}},
	{family: "muse_glimmer", all: []string{"atem:function_calls"}},
	{family: "plamo3", all: []string{"begin_tool_request"}},
	{family: "k2_horizon", all: []string{"<ifm|tool_call"}},
	{family: "solar_open", all: []string{"<|tool_call:begin|>"}},
	{family: "nemotron_nano_v2", all: []string{"<TOOLCALL>"}},
	{family: "iquest_q1", all: []string{"<iquest_tool_call>"}},
	{family: "gigachat35", all: []string{"｜GCML｜"}},
	{family: "deepseek_v41", all: []string{"｜DSML｜ "}},
	{family: "kimi_k2", all: []string{"<|tool_calls_section_begin|>"}},
	{family: "deepseek_v4", all: []string{"｜DSML｜", "tool_calls"}, none: []string{"function_calls"}},
	{family: "deepseek_v32", all: []string{"｜DSML｜"}},
	{family: "deepseek_v3", all: []string{"<｜tool▁calls▁begin｜>", "```json"}},
	{family: "deepseek_v3_1", all: []string{"<｜tool▁calls▁begin｜>"}},
	{family: "step3", all: []string{"steptml:invoke"}},
	{family: "minimax_m3", all: []string{"]<]minimax[>["}},
	{family: "minimax_m2", all: []string{"minimax:tool_call"}},
	{family: "seed_oss", all: []string{"<seed:tool_call>"}},
	{family: "longcat", all: []string{"<longcat_tool_call>"}},
	{family: "dots", all: []string{"<dots_function_call>"}},
	{family: "functiongemma", all: []string{"<start_function_call>"}},
	{family: "gemma4", all: []string{"<|tool_call>", "<tool_call|>"}},
	{family: "lfm2", all: []string{"<|tool_call_start|>"}},
	{family: "lfm2", all: []string{"<|tool_list_start|>"}},
	{family: "apertus", all: []string{"<|tools_prefix|>"}},
	{family: "cohere_command4", all: []string{"<|START_ACTION|>", "<|START_TEXT|>"}},
	{family: "cohere_command3", all: []string{"<|START_ACTION|>"}},
	{family: "mistral", all: []string{"[TOOL_CALLS]"}},
	{family: "granite", all: []string{"<|tool_call|>"}},
	{family: "internlm", all: []string{"<|action_start|>"}},
	{family: "gigachat3", all: []string{"<|role_sep|>", "function call"}},
	{family: "gigachat3", all: []string{"<|function_call|>"}},
	{family: "minicpm5", all: []string{"<function name=", "<param name="}},
	{family: "hy_v3", all: []string{"<tool_sep>"}},
	{family: "hy_v3", all: []string{"<tool_sep{}>"}},
	{family: "hy_v4", all: []string{"<arg_key{}>"}},
	{family: "hy_v4", all: []string{"<tool_calls>", "<arg_key>"}},
	{family: "phi4_mini_json", all: []string{"functools["}},
	{family: "olmo3", all: []string{"<function_calls>"}},
	{family: "poolside_v1", all: []string{"<arg_key>", "laguna"}},
	{family: "ling3", all: []string{"<arg_key>", "<role>"}},
	{family: "spark25", all: []string{"<arg_key>", "<tool_call>", "</arg_key><arg_value>"}, none: []string{"[gMASK]", "<|assistant|>", "laguna"}},
	{family: "glm47", all: []string{"<arg_key>", "</tool_call>"}, none: []string{"\n<arg_key>", `\n<arg_key>`}},
	{family: "glm45", all: []string{"<arg_key>"}},
	{family: "nemotron_v3", all: []string{"<function=", "<parameter=", "truncate_history_thinking"}},
	{family: "qwen3_coder", all: []string{"<function=", "<parameter="}},
	{family: "functionary_v3_2", all: []string{">>>${recipient}"}},
	{family: "functionary_v3_1", all: []string{"<function=", "{start_tag}={function_name}"}},
	{family: "jamba", all: []string{"<tool_calls>", "<|bom|>"}},
	{family: "hunyuan_a13b", all: []string{"<tool_calls>", "助手"}},
	{family: "hunyuan_a13b", all: []string{"<tool_calls>", "<answer>"}},
	{family: "hunyuan_a13b", all: []string{"<tool_calls>", "<|startoftext|>"}},
	{family: "minimax", all: []string{"<tool_calls>", "<beginning_of_sentence>"}},
	{family: "jamba", all: []string{"<tool_calls>"}},
	{family: "ernie45", all: []string{"<tool_call>", "<response>", "<think>"}, none: []string{"tool_response"}},
	{family: "granite4", all: []string{"<tool_call>", "<|start_of_role|>"}},
	{family: "hermes", all: []string{"<tool_call>"}},
	{family: "granite-20b-fc", all: []string{"<function_call>"}},
	{family: "phi4_mini_json", all: []string{"<|tool|>", "<|/tool|>"}},
	{family: "granite", all: []string{"<|start_of_role|>"}},
	{family: "xlam", all: []string{`[{"name": "tool_call_name"`}},
	{family: "llama4_pythonic", all: []string{"[func_name1(", "<|header_start|>"}},
	{family: "pythonic", all: []string{"[func_name1("}},
	{family: "llama4_json", all: []string{"<|header_start|>", `"parameters": `}},
	{family: "llama3_json", all: []string{"ipython", `"parameters": `}},
}

// DetectFamily guesses the family from the source of a chat template: from the markers
// with which it writes the calls of earlier turns or tells the model how to write them.
// why is the marker that decided. ok is false where no clue fits; a template that prints
// no calls gives none.
func DetectFamily(template string) (family, why string, ok bool) {
	for _, c := range clues {
		if c.fits(template) {
			return c.family, c.all[0], true
		}
	}
	return "", "", false
}

func (c clue) fits(template string) bool {
	for _, m := range c.all {
		if !strings.Contains(template, m) {
			return false
		}
	}
	return !slices.ContainsFunc(c.none, func(m string) bool { return strings.Contains(template, m) })
}
