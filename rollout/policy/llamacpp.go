package policy

import (
	"encoding/json"

	"hermes/trajectory"
)

// llamacppForm is llama.cpp's POST /completion beside the OpenAI routes. The server
// stops at its model's own end tokens; its log-probs are raw.
func llamacppForm() *form {
	return &form{
		name: "llamacpp", path: "//completion", prompt: "prompt", limit: "n_predict", seed: "seed",
		fixed: `"stream":false,"return_tokens":true,"n_probs":1,"cache_prompt":true`,
		capture: func(c Capture, body, _ *object) error {
			return body.set("n_probs", max(1, c.TopK))
		},
		read:  readLlamacpp,
		start: "update llama-server: it must know return_tokens and n_probs",
	}
}

type llamacppAnswer struct {
	Model     string `json:"model"`
	IDs       idList `json:"tokens"`
	Prompt    *int   `json:"tokens_evaluated"`
	Cached    int64  `json:"tokens_cached"`
	Truncated bool   `json:"truncated"`
	Stop      string `json:"stop_type"`
	LogProbs  []struct {
		ID      trajectory.Token `json:"id"`
		LogProb *float32         `json:"logprob"`
		Top     []struct {
			ID      trajectory.Token `json:"id"`
			LogProb *float32         `json:"logprob"`
		} `json:"top_logprobs"`
	} `json:"completion_probabilities"`
}

func readLlamacpp(raw []byte, want Capture) (Completion, error) {
	var a llamacppAnswer
	if err := json.Unmarshal(raw, &a); err != nil {
		return Completion{}, malformed("llama.cpp: %v", err)
	}
	c := Completion{Prompt: -1, Model: a.Model, Tokens: a.IDs}
	if a.Prompt != nil {
		c.Prompt = *a.Prompt
	}
	if a.Truncated {
		return c, inexact("llama.cpp: the server dropped a part of the prompt (truncated); start it with a larger --ctx-size and --no-context-shift")
	}
	var err error
	if c.Finish, err = finishOf(a.Stop); err != nil {
		return c, err
	}
	if a.IDs == nil {
		return c, inexact("llama.cpp: the answer has no tokens; update llama-server: it must know return_tokens")
	}
	for i, p := range a.LogProbs {
		if i >= len(a.IDs) || p.ID != a.IDs[i] {
			return c, inexact("llama.cpp: tokens and completion_probabilities differ at token %d", i)
		}
		c.LogProbs = append(c.LogProbs, known(p.LogProb))
		var list []top
		for _, t := range p.Top {
			list = append(list, top{t.ID, known(t.LogProb)})
		}
		if want.TopK > 0 {
			c.Top = append(c.Top, best(list, want.TopK)...)
		}
	}
	return c, nil
}
