package chat

import (
	"encoding/json"

	"hermes/rollout/policy/loose"
	"hermes/rollout/policy/servers"
)

// books are the books of a document, where it has them.
func (r *reply) books() *servers.Usage {
	if r.Usage != nil {
		return r.Usage
	}
	for i := range r.Choices {
		if u := servers.ReadUsage(r.Choices[i].Usage); u != nil {
			return u
		}
	}
	if !loose.Present(r.Groq) || r.Groq[0] != '{' {
		return nil
	}
	var groq struct {
		Usage json.RawMessage `json:"usage"`
	}
	_ = json.Unmarshal(r.Groq, &groq) // the syntax is right, since the document was read
	return servers.ReadUsage(groq.Usage)
}

// books takes over books. Servers that send them more than once count up, or leave out what
// they said before: a zero takes nothing back.
func (a *answer) books(u *servers.Usage) {
	if old := a.usage; u != nil && old != nil {
		for _, f := range [][2]*loose.Count{{&u.Prompt, &old.Prompt}, {&u.Completion, &old.Completion}, {&u.Input, &old.Input}, {&u.Output, &old.Output},
			{&u.Reasoning, &old.Reasoning}, {&u.Cached, &old.Cached}, {&u.Hit, &old.Hit}} {
			if *f[0] == 0 {
				*f[0] = *f[1]
			}
		}
		if u.PromptMore == nil {
			u.PromptMore = old.PromptMore
		}
		if u.CompletionMore == nil {
			u.CompletionMore = old.CompletionMore
		}
		if !u.Cost.Known || u.Cost.Value == 0 {
			u.Cost = old.Cost
		}
		if u.CostMore == nil {
			u.CostMore, u.BYOK = old.CostMore, old.BYOK || u.BYOK
		}
	}
	if u != nil {
		a.usage = u
	}
}
