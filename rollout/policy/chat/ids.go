package chat

import (
	"context"
	"encoding/json"

	"hermes/rollout/policy"
	"hermes/rollout/policy/encode"
	"hermes/rollout/policy/servers"
	"hermes/rollout/policy/wire"
	"hermes/trajectory"
)

// NewIDs returns the exact policy of a chat server that renders, tokenizes and parses
// by itself and tells the ids of prompt and answer (return_token_ids: vLLM 0.10.2 or
// later). What the server's template changes in the past is a fork. The tokens that a
// turn gives belong to its first message: which of them spell which message is the
// server's knowledge.
func NewIDs(w *wire.Client, o Options) (policy.Policy, error) {
	raw := encode.Object{}
	for _, part := range []json.RawMessage{json.RawMessage(`{"logprobs":true,"top_logprobs":0,"return_token_ids":true}`), o.Extra} {
		if err := raw.Merge(part); err != nil {
			return nil, err
		}
	}
	o.Stream = false
	all := raw.Members([]byte{'{'})
	all[len(all)-1] = '}'
	o.Extra = all
	p, err := New(w, o)
	if err != nil {
		return nil, err
	}
	c := p.(*chat)
	c.neutral = json.RawMessage("{" + servers.Neutral + `,"return_weight_versions":true}`)
	return &withIDs{c}, nil
}

type withIDs struct{ *chat }

// Info describes the model.
func (p *withIDs) Info() policy.Info {
	i := p.chat.Info()
	i.Mode, i.Images = trajectory.ModeExact, false
	return i
}

// Open prepares the sampler of one rollout.
func (p *withIDs) Open(tools []trajectory.ToolSpec, o policy.Options) (policy.Sampler, error) {
	s, err := p.chat.Open(tools, o)
	if err != nil {
		return nil, err
	}
	return &idsSampler{s.(*sampler)}, nil
}

type idsSampler struct{ *sampler }

// Next asks for the next turn; on sees it whole.
func (s *idsSampler) Next(ctx context.Context, p trajectory.Prefix, pending []trajectory.Message, on func(policy.Chunk)) (trajectory.Turn, error) {
	return s.ask(ctx, p, pending, on, false)
}

// Stored answers from the tape or not at all: wire.ErrNotTaped.
func (s *idsSampler) Stored(ctx context.Context, p trajectory.Prefix, pending []trajectory.Message, on func(policy.Chunk)) (trajectory.Turn, error) {
	return s.ask(ctx, p, pending, on, true)
}

func (s *idsSampler) ask(ctx context.Context, p trajectory.Prefix, pending []trajectory.Message, on func(policy.Chunk), taped bool) (trajectory.Turn, error) {
	var ids tokens
	s.sampler.look = func(raw []byte) error { return ids.read(raw) }
	got, err := s.get(ctx, p, pending, nil, taped)
	if err != nil {
		return trajectory.Turn{}, err
	}
	turn, err := s.finish(got, pending)
	if err != nil {
		return turn, err
	}
	ids.into(&turn, p, pending)
	if on != nil {
		m := turn.Sampled.Message
		on(policy.Chunk{Reasoning: m.Reasoning, Content: m.Content()})
	}
	return turn, nil
}

// tokens are the tokens of a chat answer.
type tokens struct {
	prompt, sampled []trajectory.Token
	logProbs        []float32
	versions        []trajectory.Span // nil: not reported
}

// read takes them out of a raw answer.
func (t *tokens) read(raw []byte) error {
	var a struct {
		Prompt  servers.IDs     `json:"prompt_token_ids"`
		Usage   json.RawMessage `json:"usage"`
		Choices []struct {
			IDs      servers.IDs           `json:"token_ids"`
			Prompt   servers.IDs           `json:"prompt_token_ids"`   // SGLang
			Response servers.IDs           `json:"response_token_ids"` // SGLang
			LogProbs *servers.ChatLogProbs `json:"logprobs"`
			Versions json.RawMessage       `json:"weight_versions"`
		} `json:"choices"`
	}
	if err := json.Unmarshal(raw, &a); err != nil || len(a.Choices) != 1 {
		return policy.Malformedf("chat: an answer with %d choices (%v)", len(a.Choices), err)
	}
	one := a.Choices[0]
	if a.Prompt == nil {
		a.Prompt = one.Prompt
	}
	if one.IDs == nil {
		one.IDs = one.Response
	}
	if a.Prompt == nil || one.IDs == nil {
		return policy.Inexactf("chat: the answer has no token ids; start a server that knows return_token_ids (vLLM 0.10.2 or later, SGLang), or choose --wire sglang, vllm or llamacpp")
	}
	if n := len(a.Prompt); n == 0 {
		return policy.Inexactf("chat: the server's list of the prompt's tokens is empty")
	} else if u := servers.ReadUsage(a.Usage); u != nil && u.Prompt > 0 && int(u.Prompt) != n {
		return policy.Inexactf("chat: the server counts %d tokens in the prompt and lists %d", u.Prompt, n)
	}
	c := servers.Completion{Tokens: one.IDs, Prompt: -1, Finish: trajectory.FinishStop}
	if one.LogProbs != nil {
		if err := one.LogProbs.Read(&c, servers.Capture{}); err != nil {
			return err
		}
	}
	if err := c.CheckChat(); err != nil {
		return err
	}
	t.prompt = a.Prompt
	t.sampled = c.Tokens
	t.logProbs = c.LogProbs
	var err error
	t.versions, err = servers.ReadVersions(one.Versions, len(c.Tokens))
	return err
}

// into gives a turn its tokens: appended where the prompt begins with the trace, else as
// a new root.
func (t *tokens) into(turn *trajectory.Turn, p trajectory.Prefix, pending []trajectory.Message) {
	at := 0
	for list := range p.Tokens() {
		for _, id := range list {
			if at >= len(t.prompt) || t.prompt[at] != id {
				turn.Fork = true
				break
			}
			at++
		}
		if turn.Fork {
			break
		}
	}
	turn.Fork = turn.Fork || len(pending) == 0 && at < len(t.prompt)
	if turn.Fork {
		turn.Given = turn.Given[:0]
		for m := range p.Messages() {
			turn.Given = append(turn.Given, trajectory.Delta{Message: m})
		}
		for _, m := range pending {
			turn.Given = append(turn.Given, trajectory.Delta{Message: m})
		}
		at = 0
	}
	if len(turn.Given) > 0 {
		new := t.prompt[at:]
		turn.Given[0].Tokens, turn.Given[0].Given = new, len(new)
	}
	turn.Sampled.Tokens, turn.Sampled.LogProbs, turn.Sampled.Versions = t.sampled, t.logProbs, t.versions
}
