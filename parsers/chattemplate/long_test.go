package chattemplate_test

import (
	"fmt"
	"strings"
	"testing"

	"hermes/parsers/chattemplate"
	"hermes/trajectory"
)

// TestLongConversations: 4 MB of messages in 2,000 turns are rendered within a quarter of the
// steps that a rendering has, also where the template splits and strips what each message says.
func TestLongConversations(t *testing.T) {
	const turns, steps = 2000, 20_000_000 / 4
	words := strings.Repeat("three short words\n", 60)
	talk := []trajectory.Message{asks(words)}
	for i := range turns {
		said := fmt.Sprintf("<think>\n%d %s</think>\n\n%s", i, words[:500], words[:500])
		talk = append(talk, says(said, call(i, "get_weather", `{"city": "Bern"}`)), result(i, "get_weather", words))
	}
	names := []string{
		"Qwen-Qwen3-0.6B", "Qwen-QwQ-32B", "trl_qwen3_5_think", "deepseek-ai-DeepSeek-V3.1", "vllm_tool_deepseekr1", "trl_glm4moe",
		"axolotl_exaone4", "trl_nemotron_3_nano",
	}
	all := map[string]source{}
	for _, s := range sources(t) {
		all[s.name] = s
	}
	for _, name := range names {
		o := options(all[name])
		o.MaxSteps = steps
		tmpl, err := chattemplate.New(o)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		text, err := tmpl.Render(talk, weatherTools(), true)
		if err != nil || !strings.Contains(text, words[:1000]) {
			t.Errorf("%s: %d bytes, %v", name, len(text), err)
		}
	}
}
