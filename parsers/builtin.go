package parsers

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"hermes/internal/nearest"
)

// ErrUnknown says that no family has the name.
var ErrUnknown = errors.New("unknown family")

// Builtin lists the families that ship with hermes. A new one is its own file and its lines in
// the lists of this file.
func Builtin() []Family {
	return []Family{
		Hermes, Qwen, Granite4, Longcat, Ernie45, Minimax, Jamba, HunyuanA13B, XLAM, Apertus, Dots, Cohere3, Cohere4, JSONArray,
		Llama3, Llama4, Mistral, Phi4Mini, Granite, Granite20bFC, InternLM, Gigachat3, Gigachat35, Plamo3, SolarOpen, NemotronV2, FunctionaryV31, FunctionaryV32,
		DeepSeekV3, DeepSeekV31, DeepSeekV32, DeepSeekV4, DeepSeekV41, KimiK2, KimiK3,
		Qwen3Coder, Qwen3XML, NemotronV3, MiMo, SeedOSS, Step3p5, Step5, GLM45, GLM47, Ling3, Spark25, IQuestQ1, K2Horizon, PoolsideV1, HyV3, HyV4, MinimaxM2, MinimaxM3, Step3, MiniCPM5,
		Gemma4, FunctionGemma, MuseGlimmer, Muse, Pythonic, Llama4Pythonic, Olmo3, LFM2, Harmony, Beam, Inkling, Plain,
	}
}

// openings lists the markers that no ordinary text holds by chance. Where several begin
// at one place, the first in the list that fits counts.
var openings = []opening{
	{"<tool_call>", []string{"hermes", "qwen3_coder", "glm47", "glm45"}},
	{"<function=", []string{"qwen3_coder", "functionary_v3_1"}},
	{"<tool_calls>", []string{"minimax", "jamba", "hy_v3", "hy_v4", "minimax_m2"}},
	{"<tool_calls:", []string{"hy_v3", "hy_v4"}},
	{"<tool_call:", []string{"hy_v3", "hy_v4"}},
	{"<iquest_tool_call>", []string{"iquest_q1"}},
	{"<ifm|tool_calls>", []string{"k2_horizon"}},
	{"<ifm|tool_call>", []string{"k2_horizon"}},
	{"<TOOLCALL>", []string{"nemotron_nano_v2"}},
	{"<|tool_calls|>", []string{"solar_open"}},
	{"<longcat_tool_call>", []string{"longcat"}},
	{"<seed:tool_call>", []string{"seed_oss"}},
	{"<minimax:tool_call>", []string{"minimax_m2"}},
	{"<invoke name=", []string{"minimax_m2"}},
	{"<dots_function_call>", []string{"dots"}},
	{"<function_calls>", []string{"olmo3", "minimax_m2"}},
	{"<function_call>", []string{"granite-20b-fc"}},
	{"<function name=", []string{"minicpm5"}},
	{"<functionname=", []string{"minicpm5"}},
	{"<start_function_call>", []string{"functiongemma"}},
	{"<atem:function_calls>", []string{"muse_glimmer"}},
	{"<atem:invoke", []string{"muse_glimmer"}},
	{"<steptml:invoke", []string{"step3"}},
	{"<|tool_call>", []string{"gemma4"}},
	{"<|tool_call|>", []string{"granite"}},
	{"<|tool_call_start|>", []string{"lfm2"}},
	{"<|tool_calls_section_begin|>", []string{"kimi_k2"}},
	{"<|tool_call_section_begin|>", []string{"kimi_k2"}},
	{"<|tool_call_begin|>", []string{"kimi_k2"}},
	{"<|tools_prefix|>", []string{"apertus"}},
	{"<|START_ACTION|>", []string{"cohere_command4", "cohere_command3"}},
	{"<|action_start|><|plugin|>", []string{"internlm"}},
	{"<|action_start|> <|plugin|>", []string{"internlm"}},
	{"<|function_call|>", []string{"gigachat3"}},
	{"<|python_tag|>", []string{"llama3_json"}},
	{"<|python_start|>", []string{"llama4_pythonic"}},
	{"<|open|>tools", []string{"kimi_k3"}},
	{"<|open|>call ", []string{"kimi_k3"}},
	{"<|content_invoke_tool_json|>", []string{"inkling"}},
	{"<|channel|>commentary to=", []string{"openai"}},
	{"<|channel|>commentary <|constrain|>", []string{"openai"}},
	{"<|channel|>commentary json", []string{"openai"}},
	{"<|channel|>commentary<|message|>{", []string{"openai"}},
	{"<|start|>assistant to=", []string{"openai", "muse_glimmer", "beam"}},
	{"<｜DSML｜tool_calls>", []string{"deepseek_v4"}},
	{"<｜DSML｜_tool_calls>", []string{"deepseek_v4"}},
	{"<｜DSML｜function_calls>", []string{"deepseek_v32"}},
	{"<｜DSML｜invoke", []string{"deepseek_v4"}},
	{"<｜DSML｜ calls>", []string{"deepseek_v41"}},
	{"<｜DSML｜ invoke", []string{"deepseek_v41"}},
	{"<｜GCML｜tool_calls>", []string{"gigachat35"}},
	{"<｜GCML｜invoke", []string{"gigachat35"}},
	{"<|plamo:begin_tool_requests:plamo|>", []string{"plamo3"}},
	{"<｜tool▁calls▁begin｜>", []string{"deepseek_v3", "deepseek_v3_1"}},
	{"<｜tool▁call▁begin｜>", []string{"deepseek_v3", "deepseek_v3_1"}},
	{"<｜tool_calls_begin｜>", []string{"step3"}},
	{"<｜tool_call_begin｜>", []string{"step3"}},
	{mistralMark, []string{"mistral", "xlam"}},
	{m3 + "<tool_call>", []string{"minimax_m3"}},
	{m3 + "<invoke", []string{"minimax_m3"}},
	{"functools[", []string{"phi4_mini_json"}},
	{"function call<|role_sep|>", []string{"gigachat3"}},
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

// aliases are the names that servers and upstream use for the same families.
var aliases = map[string]string{
	"qwen25": "qwen", "qwen2_5": "qwen", "trinity": "hermes", "chatml": "hermes",
	"llama3": "llama3_json", "llama": "llama3_json", "phi4": "phi4_mini_json",
	"deepseekv3": "deepseek_v3", "deepseek_v31": "deepseek_v3_1", "deepseekv31": "deepseek_v3_1", "deepseekv32": "deepseek_v32",
	"deepseek_v3_2": "deepseek_v32", "deepseekv4": "deepseek_v4", "deepseekv41": "deepseek_v41", "deepseek_v4_1": "deepseek_v41", "nanbeige": "qwen3_coder", "qwen3coder": "qwen3_coder",
	"nemotron_3": "nemotron_v3", "nemotron": "nemotron_v3", "glm": "glm45", "hunyuan": "hy_v3",
	"apertus2509": "apertus", "granite_20b_fc": "granite-20b-fc", "qwen3_json": "hermes", "musespark1x": "muse", "muse_spark": "muse", "openai_gptoss": "openai",
	"hyv4": "hy_v4", "hunyuan4": "hy_v4", "spark_25": "spark25", "iquest": "iquest_q1", "k2horizon": "k2_horizon", "k2_v3": "k2_horizon", "ifm": "k2_horizon", "gigachat_35": "gigachat35", "interns1": "internlm", "gpt_oss": "openai", "harmony": "openai",
	"cohere": "cohere_command4", "kimi": "kimi_k2", "ernie": "ernie45", "poolside": "poolside_v1",
	"functionary_v3.1": "functionary_v3_1", "functionary_v3.2": "functionary_v3_2", "functionary": "functionary_v3_2", "hyv3": "hy_v3", "olmo": "olmo3", "none": "plain", "identity": "plain",
}

// Plain reads nothing: the text is the content.
var Plain = grammar{
	name:   "plain",
	read:   func(p *parse) { p.content(p.pos, len(p.text)) },
	format: func(content string, _ []Call) string { return content },
}.family()

// Set finds families by name. It does not change and is safe for concurrent use.
type Set struct {
	list   []Family
	byName map[string]Family
}

// NewSet makes a set of families; a name that occurs twice is an error.
func NewSet(families ...Family) (*Set, error) {
	s := &Set{list: slices.Clone(families), byName: map[string]Family{}}
	for _, f := range families {
		if _, ok := s.byName[f.Name]; ok || f.Name == "" || f.New == nil {
			return nil, fmt.Errorf("family %q: no name, no parser, or there twice", f.Name)
		}
		s.byName[f.Name] = f
	}
	return s, nil
}

// Standard is the set of the built-in families.
func Standard() *Set {
	s, err := NewSet(Builtin()...)
	if err != nil {
		panic(err) // a mistake in Builtin, which every test would meet
	}
	return s
}

// Families lists the set in its order.
func (s *Set) Families() []Family { return slices.Clone(s.list) }

// Get finds a family by its name, an alias, reasoning:NAME, reasoning:NAME+FAMILY or
// NAME_reasoning+FAMILY; what follows a slash is dropped. The error wraps
// [ErrUnknown] and lists the nearest names.
func (s *Set) Get(name string) (Family, error) {
	if base, rest, ok := strings.Cut(name, "_reasoning+"); ok {
		name = "reasoning:" + base + "+" + rest
	}
	if r, ok := strings.CutPrefix(name, "reasoning:"); ok {
		return s.reasoning(r)
	}
	name, _, _ = strings.Cut(name, "/")
	if f, ok := s.byName[name]; ok {
		return f, nil
	}
	for _, other := range []string{plainName(name), aliases[plainName(name)]} {
		if f, ok := s.byName[other]; ok {
			return f, nil
		}
	}
	names := make([]string, 0, len(s.list))
	for _, f := range s.list {
		names = append(names, f.Name)
	}
	return Family{}, fmt.Errorf("%w %q (nearest: %s)", ErrUnknown, name, strings.Join(nearest.Names(name, names, 5), ", "))
}

// plainName is a name as the aliases have it: small letters, and no hyphens, which some servers
// write for underscores.
func plainName(name string) string { return strings.ReplaceAll(strings.ToLower(name), "-", "_") }
