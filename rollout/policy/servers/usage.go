package servers

import (
	"encoding/json"

	"hermes/rollout/policy/loose"
	"hermes/trajectory"
)

// Usage is the count of tokens of an answer, in the words of different servers.
type Usage struct {
	Prompt     loose.Count `json:"prompt_tokens"`
	Completion loose.Count `json:"completion_tokens"`
	Input      loose.Count `json:"input_tokens"`  // of servers with Anthropic's words
	Output     loose.Count `json:"output_tokens"` // likewise
	Reasoning  loose.Count `json:"reasoning_tokens"`
	Cached     loose.Count `json:"cached_tokens"`
	Hit        loose.Count `json:"prompt_cache_hit_tokens"`
	PromptMore *struct {
		Cached loose.Count `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`
	CompletionMore *struct {
		Reasoning loose.Count `json:"reasoning_tokens"`
	} `json:"completion_tokens_details"`
	Cost     loose.Amount `json:"cost"`
	CostMore *struct {
		Upstream loose.Amount `json:"upstream_inference_cost"`
	} `json:"cost_details"`
	BYOK bool `json:"is_byok"`
}

// Total is the usage in our words.
func (u *Usage) Total() trajectory.Usage {
	cached, reasoning := max(u.Cached, u.Hit), u.Reasoning
	if u.PromptMore != nil {
		cached = max(cached, u.PromptMore.Cached)
	}
	if u.CompletionMore != nil {
		reasoning = max(reasoning, u.CompletionMore.Reasoning)
	}
	t := trajectory.Usage{Prompt: int64(max(u.Prompt, u.Input)), Completion: int64(max(u.Completion, u.Output)), Reasoning: int64(reasoning), Cached: int64(cached)}
	if u.Cost.Known {
		t.Cost, t.CostKnown = u.Cost.Value, true
		if u.BYOK && u.CostMore != nil && u.CostMore.Upstream.Known {
			t.Cost += u.CostMore.Upstream.Value
		}
	}
	return t
}

// ReadUsage reads the books of an answer as far as they can be read; nil: there are none.
func ReadUsage(raw json.RawMessage) *Usage {
	if !loose.Present(raw) || raw[0] != '{' {
		return nil
	}
	var u Usage
	// The syntax is right, since the answer was read; a member of another type is left out.
	_ = json.Unmarshal(raw, &u)
	return &u
}
