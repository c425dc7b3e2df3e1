package servers

import (
	"encoding/json"

	"hermes/rollout/policy"
	"hermes/rollout/policy/encode"
	"hermes/rollout/policy/finish"
	"hermes/rollout/policy/loose"
	"hermes/trajectory"
)

// llamacppForm is llama.cpp's POST /completion beside the OpenAI routes. The server
// stops at its model's own end tokens; its log-probs are raw.
func llamacppForm() *form {
	return &form{
		name: LlamaCpp, path: "//completion", prompt: "prompt", limit: "n_predict", seed: "seed",
		fixed:   `"stream":false,"return_tokens":true,"n_probs":1,"cache_prompt":true`,
		neutral: `"temperature":1,"top_p":1,"top_k":0,"min_p":0,"typical_p":1,"top_n_sigma":-1,"xtc_probability":0,"dynatemp_range":0,"mirostat":0,"repeat_penalty":1,"presence_penalty":0,"frequency_penalty":0,"dry_multiplier":0`,
		capture: func(c Capture, body, _ *encode.Object) error {
			return body.Set("n_probs", max(1, c.TopK))
		},
		read:  readLlamacpp,
		start: "update llama-server: it must know return_tokens and n_probs",
	}
}

type llamacppAnswer struct {
	Model     string      `json:"model"`
	IDs       IDs         `json:"tokens"`
	Prompt    *int        `json:"tokens_evaluated"`
	Held      loose.Count `json:"tokens_cached"` // in the context at the end
	Truncated bool        `json:"truncated"`
	Stop      string      `json:"stop_type"`
	Timings   struct {
		Cached loose.Count `json:"cache_n"` // of the prompt, taken from the cache
	} `json:"timings"`
	LogProbs []llamacppProb `json:"completion_probabilities"`
}

type llamacppProb struct {
	ID      trajectory.Token `json:"id"`
	LogProb *float32         `json:"logprob"`
	Top     []struct {
		ID      trajectory.Token `json:"id"`
		LogProb *float32         `json:"logprob"`
	} `json:"top_logprobs"`
}

func readLlamacpp(raw []byte, want Capture) (Completion, error) {
	var a llamacppAnswer
	if err := json.Unmarshal(raw, &a); err != nil {
		return Completion{}, policy.Malformedf("llama.cpp: %v", err)
	}
	c := Completion{Prompt: -1, Model: a.Model, Tokens: a.IDs, Cached: int64(a.Timings.Cached)}
	if a.Prompt != nil {
		c.Prompt = *a.Prompt
	}
	var err error
	c.Finish, err = finish.Parse(a.Stop)
	if err != nil {
		return c, err
	}
	// A context that is full while the answer is written ends it, as a limit does. A server
	// that shifts its context drops a part of the prompt instead and goes on.
	full := c.Finish == trajectory.FinishLength && (a.Held == 0 || int(a.Held)+1 >= c.Prompt+len(a.IDs))
	if a.Truncated && !full {
		return c, policy.Inexactf("llama.cpp: the server dropped a part of the context to go on writing (truncated); start it with a larger --ctx-size and --no-context-shift")
	}
	if a.IDs == nil {
		return c, policy.Inexactf("llama.cpp: the answer has no tokens; update llama-server: it must know return_tokens")
	}
	return c, a.align(&c, want)
}

// partial tokens: a character has at most four bytes, so at most three tokens before its last.
const mostPartial = 3

// align gives the tokens their log-probs. The server tells them of the last token of a
// character only, and not of those that a stop string took away, so that the list may be
// shorter. A token is given the log-prob that must be its own; where the ids do not say
// which of two it belongs to, neither has one.
func (a *llamacppAnswer) align(c *Completion, want Capture) error {
	n, m := len(a.IDs), len(a.LogProbs)
	if m == 0 && (n > mostPartial || c.Finish == trajectory.FinishStop) {
		return nil // none at all: the check says so
	}
	first, last := make([]int, m), make([]int, m)
	at := 0
	for k := range m {
		for at < n && a.IDs[at] != a.LogProbs[k].ID {
			at++
		}
		if at == n {
			return policy.Inexactf("llama.cpp: entry %d of completion_probabilities is of the token %d, which does not follow in tokens", k, a.LogProbs[k].ID)
		}
		first[k] = at
		at++
	}
	at = n - 1
	for k := m - 1; k >= 0; k-- {
		for a.IDs[at] != a.LogProbs[k].ID {
			at--
		}
		last[k] = at
		at--
	}
	c.LogProbs = make([]float32, n)
	none := make([]top, want.TopK)
	for i := range none {
		none[i] = top{id: -1, logProb: 0}
	}
	k := 0
	for i := range n {
		for k < m && (first[k] < i || first[k] != last[k]) {
			k++
		}
		if k == m || first[k] != i {
			if r := len(c.Masked); r > 0 && c.Masked[r-1].To == i {
				c.Masked[r-1].To++
			} else {
				c.Masked = append(c.Masked, trajectory.Run{From: i, To: i + 1})
			}
			c.Top = append(c.Top, none...)
			continue
		}
		p := a.LogProbs[k]
		c.LogProbs[i] = known(p.LogProb)
		if want.TopK == 0 {
			continue
		}
		list := make([]top, 0, len(p.Top))
		for _, t := range p.Top {
			list = append(list, top{t.ID, known(t.LogProb)})
		}
		c.Top = append(c.Top, best(list, want.TopK)...)
	}
	return nil
}
