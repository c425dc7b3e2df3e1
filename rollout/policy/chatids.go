package policy

import (
	"context"
	"encoding/json"

	"hermes/rollout/policy/wire"
	"hermes/trajectory"
)

// NewChatIDs returns the exact policy of a chat server that renders, tokenizes and parses
// by itself and tells the ids of prompt and answer (return_token_ids: vLLM 0.10.2 or
// later). What the server's template changes in the past is a fork. The tokens that a
// turn gives belong to its first message: which of them spell which message is the
// server's knowledge.
func NewChatIDs(w *wire.Client, o ChatOptions) (Policy, error) {
	raw := object{}
	for _, part := range []json.RawMessage{json.RawMessage(`{"logprobs":true,"top_logprobs":0,"return_token_ids":true}`), o.Extra} {
		if err := raw.merge(part); err != nil {
			return nil, err
		}
	}
	o.Stream = false
	all := raw.members([]byte{'{'})
	all[len(all)-1] = '}'
	o.Extra = all
	p, err := NewChat(w, o)
	if err != nil {
		return nil, err
	}
	c := p.(*chat)
	c.neutral = json.RawMessage("{" + neutral + `,"return_weight_versions":true}`)
	return &chatIDs{c}, nil
}

type chatIDs struct{ *chat }

// Info describes the model.
func (p *chatIDs) Info() Info {
	i := p.chat.Info()
	i.Mode, i.Images = trajectory.ModeExact, false
	return i
}

// Open prepares the sampler of one rollout.
func (p *chatIDs) Open(tools []trajectory.ToolSpec, o Options) (Sampler, error) {
	s, err := p.chat.Open(tools, o)
	if err != nil {
		return nil, err
	}
	return &chatIDsSampler{s.(*sampler)}, nil
}

type chatIDsSampler struct{ *sampler }

// Next asks for the next turn; on sees it whole.
func (s *chatIDsSampler) Next(ctx context.Context, p trajectory.Prefix, pending []trajectory.Message, on func(Chunk)) (trajectory.Turn, error) {
	return s.ask(ctx, p, pending, on, false)
}

// Stored answers from the tape or not at all: wire.ErrNotTaped.
func (s *chatIDsSampler) Stored(ctx context.Context, p trajectory.Prefix, pending []trajectory.Message, on func(Chunk)) (trajectory.Turn, error) {
	return s.ask(ctx, p, pending, on, true)
}

func (s *chatIDsSampler) ask(ctx context.Context, p trajectory.Prefix, pending []trajectory.Message, on func(Chunk), taped bool) (trajectory.Turn, error) {
	var ids chatTokens
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
		on(Chunk{Reasoning: m.Reasoning, Content: m.Content(), Tokens: len(ids.sampled)})
	}
	return turn, nil
}

// chatTokens are the tokens of a chat answer.
type chatTokens struct {
	prompt, sampled []trajectory.Token
	logProbs        []float32
	versions        []trajectory.Span // nil: not reported
}

// read takes them out of a raw answer.
func (t *chatTokens) read(raw []byte) error {
	var a struct {
		Prompt  idList          `json:"prompt_token_ids"`
		Usage   json.RawMessage `json:"usage"`
		Choices []struct {
			IDs      idList          `json:"token_ids"`
			Prompt   idList          `json:"prompt_token_ids"`   // SGLang
			Response idList          `json:"response_token_ids"` // SGLang
			LogProbs *chatLogProbs   `json:"logprobs"`
			Versions json.RawMessage `json:"weight_versions"`
		} `json:"choices"`
	}
	if err := json.Unmarshal(raw, &a); err != nil || len(a.Choices) != 1 {
		return malformed("chat: an answer with %d choices (%v)", len(a.Choices), err)
	}
	one := a.Choices[0]
	if a.Prompt == nil {
		a.Prompt = one.Prompt
	}
	if one.IDs == nil {
		one.IDs = one.Response
	}
	if a.Prompt == nil || one.IDs == nil {
		return inexact("chat: the answer has no token ids; start a server that knows return_token_ids (vLLM 0.10.2 or later, SGLang), or choose --wire sglang, vllm or llamacpp")
	}
	if n := len(a.Prompt); n == 0 {
		return inexact("chat: the server's list of the prompt's tokens is empty")
	} else if u := readUsage(a.Usage); u != nil && u.Prompt > 0 && int(u.Prompt) != n {
		return inexact("chat: the server counts %d tokens in the prompt and lists %d", u.Prompt, n)
	}
	c := Completion{Tokens: one.IDs, Prompt: -1, Finish: trajectory.FinishStop}
	if one.LogProbs != nil {
		if err := one.LogProbs.read(&c, Capture{}); err != nil {
			return err
		}
	}
	if err := c.CheckChat(); err != nil {
		return err
	}
	t.prompt, t.sampled, t.logProbs = a.Prompt, c.Tokens, c.LogProbs
	var err error
	t.versions, err = readVersions(one.Versions, len(c.Tokens))
	return err
}

// into gives a turn its tokens: appended where the prompt begins with the trace, else as
// a new root.
func (t *chatTokens) into(turn *trajectory.Turn, p trajectory.Prefix, pending []trajectory.Message) {
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
