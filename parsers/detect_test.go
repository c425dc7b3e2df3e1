package parsers_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"hermes/internal/realdata"
	"hermes/parsers"
)

func TestDetectFamily(t *testing.T) {
	for _, c := range []struct{ template, want string }{
		{`<tool_call>{"name": "f"}</tool_call>`, "hermes"},
		{"<tool_call>\n<function=f>\n<parameter=a>", "qwen3_coder"},
		{`<tool_call>{{ name }}\n<arg_key>k</arg_key></tool_call>`, "glm45"},
		{`<tool_call>{{ name }}<arg_key>k</arg_key></tool_call>`, "glm47"},
		{"<｜tool▁calls▁begin｜> ```json", "deepseek_v3"},
		{"<｜tool▁calls▁begin｜>", "deepseek_v3_1"},
		{"<|im_start|>{{ content }}<|im_end|>", ""},
		{"<｜DSML｜ calls>", "deepseek_v41"},
		{"<｜GCML｜tool_calls>", "gigachat35"},
		{"<ifm|tool_calls><ifm|tool_call>", "k2_horizon"},
		{"<iquest_tool_call>{{ name }}<arg_key>", "iquest_q1"},
		{"<|plamo:begin_tool_requests:plamo|>", "plamo3"},
		{"<|channel|>analysis <|message|><rfl:parameter name=", "beam"},
		{"<atem:function_calls> to=commentary", "muse"},
		{`<function name="f"><param name="k"> never <tool_sep>`, "minicpm5"},
		{`{{ '<tool_sep{}>'.format(HYTK) }}`, "hy_v3"},
		{`{{ '<arg_key{}>'.format(HYTK) }}`, "hy_v4"},
		{"<role>ASSISTANT</role><tool_call>{{ name }}<arg_key>{{ k }}</arg_key>", "ling3"},
	} {
		got, why, ok := parsers.DetectFamily(c.template)
		if got != c.want || ok != (c.want != "") || ok && !strings.Contains(c.template, why) {
			t.Errorf("%q: %q by %q, want %q", c.template, got, why, c.want)
		}
	}
}

// TestDetectedFamiliesOfRealTemplates: the table names families of the set only, and the
// right one for templates whose model is known.
func TestDetectedFamiliesOfRealTemplates(t *testing.T) {
	set, seen := parsers.Standard(), map[string]int{}
	files, _ := filepath.Glob(filepath.Join(realdata.Path(t, "chat-templates"), "templates", "*.jinja"))
	for _, f := range files {
		source, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		name, _, ok := parsers.DetectFamily(string(source))
		if !ok {
			continue
		}
		if _, err := set.Get(name); err != nil {
			t.Errorf("%s: %v", f, err)
		}
		seen[name]++
	}
	for file, want := range map[string]string{
		"ByteDance-Seed-OSS": "seed_oss", "Qwen-Qwen3-0.6B": "hermes", "trl_qwen3_6": "qwen3_coder", "moonshotai-Kimi-K2": "kimi_k2",
		"openai-gpt-oss-120b": "openai", "deepseek-ai-DeepSeek-V3.1": "deepseek_v3_1", "vllm_tool_deepseekr1": "deepseek_v3", "trl_glm4moe": "glm45",
		"meta-llama-Llama-3.1-8B-Instruct": "llama3_json", "vllm_tool_llama4_json": "llama4_json", "vllm_tool_llama4_pythonic": "llama4_pythonic",
		"vllm_tool_llama3.2_pythonic": "pythonic", "vllm_tool_xlam_qwen": "xlam", "vllm_tool_gemma4": "gemma4", "vllm_tool_functiongemma": "functiongemma",
		"Mistral-Small-3.2-24B-Instruct-2506": "mistral", "vllm_tool_apertus": "apertus", "vllm_tool_muse_glimmer": "muse_glimmer", "trl_lfm2": "lfm2",
		"ibm-granite-granite-3.3-2B-Instruct": "granite", "vllm_tool_granite_20b_fc": "granite-20b-fc", "vllm_tool_internlm2_tool": "internlm",
		"vllm_tool_hunyuan_a13b": "hunyuan_a13b", "vllm_tool_minimax_m1": "minimax", "axolotl_jamba": "jamba", "meetkai-functionary-medium-v3.1": "functionary_v3_1", "meetkai-functionary-medium-v3.2": "functionary_v3_2", "trl_nemotron_3_nano": "nemotron_v3",
		"CohereForAI-c4ai-command-r7b-12-2024-tool_use": "cohere_command3", "vllm_tool_phi4_mini": "phi4_mini_json", "vllm_template_chatml": "", "trl_gemma3": "",
	} {
		source, err := os.ReadFile(filepath.Join(realdata.Path(t, "chat-templates"), "templates", file+".jinja"))
		if err != nil {
			t.Fatal(err)
		}
		if got, why, _ := parsers.DetectFamily(string(source)); got != want {
			t.Errorf("%s: %q by %q, want %q", file, got, why, want)
		}
	}
	t.Logf("%d templates: %v", len(files), seen)
}
