package policy

import (
	"encoding/json"

	"hermes/trajectory"
)

type usage struct {
	Prompt     count `json:"prompt_tokens"`
	Completion count `json:"completion_tokens"`
	Input      count `json:"input_tokens"`  // of servers with Anthropic's words
	Output     count `json:"output_tokens"` // likewise
	Reasoning  count `json:"reasoning_tokens"`
	Cached     count `json:"cached_tokens"`
	Hit        count `json:"prompt_cache_hit_tokens"`
	PromptMore *struct {
		Cached count `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`
	CompletionMore *struct {
		Reasoning count `json:"reasoning_tokens"`
	} `json:"completion_tokens_details"`
	Cost     amount `json:"cost"`
	CostMore *struct {
		Upstream amount `json:"upstream_inference_cost"`
	} `json:"cost_details"`
	BYOK bool `json:"is_byok"`
}

func (u *usage) total() trajectory.Usage {
	cached, reasoning := max(u.Cached, u.Hit), u.Reasoning
	if u.PromptMore != nil {
		cached = max(cached, u.PromptMore.Cached)
	}
	if u.CompletionMore != nil {
		reasoning = max(reasoning, u.CompletionMore.Reasoning)
	}
	t := trajectory.Usage{Prompt: int64(max(u.Prompt, u.Input)), Completion: int64(max(u.Completion, u.Output)), Reasoning: int64(reasoning), Cached: int64(cached)}
	if u.Cost.known {
		t.Cost, t.CostKnown = u.Cost.v, true
		if u.BYOK && u.CostMore != nil && u.CostMore.Upstream.known {
			t.Cost += u.CostMore.Upstream.v
		}
	}
	return t
}

// readUsage reads the books of an answer as far as they can be read; nil: there are none.
func readUsage(raw json.RawMessage) *usage {
	if !present(raw) || raw[0] != '{' {
		return nil
	}
	var u usage
	// The syntax is right, since the answer was read; a member of another type is left out.
	_ = json.Unmarshal(raw, &u)
	return &u
}
