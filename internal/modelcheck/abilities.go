package modelcheck

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"hermes/parsers/tokenizer"
	"hermes/parsers/tokenizer/remote"
	"hermes/trajectory"
)

// The probe conversation. The tool is spelled as templates print it (Python's JSON), so
// that servers which copy it and servers which print it again show the model the same.
const (
	question  = "Look up what wörld means; use the tool if you have one."
	probeTool = `{"type": "function", "function": {"name": "lookup", "description": "Looks a word up.", "parameters": {"type": "object", "properties": {"word": {"type": "string", "description": "The word."}}, "required": ["word"]}}}`
)

// tokens that an answer to the probe may have.
const probeTokens = 256

type message map[string]any

// chatBody is a request for a chat completion with all that exact runs want.
func (c *check) chatBody(messages []message, tools bool) map[string]any {
	body := map[string]any{"model": c.Model, "messages": messages, "max_tokens": probeTokens, "temperature": 0, "logprobs": true, "return_token_ids": true}
	if tools {
		body["tools"] = []json.RawMessage{json.RawMessage(probeTool)}
	}
	if len(c.Vars) > 0 {
		body["chat_template_kwargs"] = c.Vars
	}
	return body
}

func (c *check) add(name string, ok bool, note string) {
	c.gives[name] = ok
	c.report.Abilities = append(c.report.Abilities, Ability{name, ok, note})
}

// abilities asks for each thing once. Only a server that cannot chat at all is an error.
func (c *check) abilities(ctx context.Context) error {
	c.gives = map[string]bool{}
	ask := []message{{"role": "user", "content": question}}
	chat, err := c.chat(ctx, ask, false)
	if err != nil {
		return fmt.Errorf("chat with %s at %s: %w", c.Model, c.Base, err)
	}
	c.add("chat", true, "")
	c.streaming(ctx, ask)
	c.tools(ctx, ask)
	ids := chat.prompt()
	c.add("token ids", ids != nil && chat.Choices[0].IDs != nil, "return_token_ids of chat completions")
	c.add("log-probs", len(chat.Choices[0].Logprobs.Content) > 0, "")
	served, err := remote.New(ctx, remote.Options{Base: c.root, Model: c.Model, Key: c.Key, Specials: c.Stops, Timeout: c.Timeout, Client: c.Client})
	if err == nil {
		c.served = served
		c.add("/tokenize", true, "in the form of "+string(served.Form()))
	} else {
		c.add("/tokenize", false, reason(err))
	}
	if ids == nil { // any ids will do to see whether the door opens
		ids, err = c.someIDs()
		if err != nil {
			return err
		}
	}
	c.tokensIn(ctx, ids)
	return ctx.Err()
}

// ask posts a body for a chat completion; a server that refuses an unknown field is asked
// without what only exact runs want.
func (c *check) ask(ctx context.Context, body map[string]any, to any) error {
	err := c.post(ctx, "/v1/chat/completions", body, to)
	var s *statusError
	if errors.As(err, &s) && (s.status == 400 || s.status == 422) {
		delete(body, "return_token_ids")
		delete(body, "logprobs")
		err = c.post(ctx, "/v1/chat/completions", body, to)
	}
	return err
}

// chat asks for a completion.
func (c *check) chat(ctx context.Context, messages []message, tools bool) (*answer, error) {
	a := new(answer)
	err := c.ask(ctx, c.chatBody(messages, tools), a)
	if err == nil && len(a.Choices) == 0 {
		err = errors.New("the answer has no choices")
	}
	return a, err
}

func (c *check) streaming(ctx context.Context, ask []message) {
	body := c.chatBody(ask, false)
	delete(body, "logprobs")
	body["stream"], body["max_tokens"] = true, 16
	var raw []byte
	err := c.ask(ctx, body, &raw)
	// transformers serve ends with the reason and no [DONE].
	ended := bytes.Contains(raw, []byte("data: [DONE]")) || bytes.Contains(raw, []byte(`"finish_reason":"`))
	ok := err == nil && bytes.Contains(raw, []byte("data: {")) && ended
	c.add("streaming", ok, reason(err))
}

func (c *check) tools(ctx context.Context, ask []message) {
	a, err := c.chat(ctx, ask, true)
	switch {
	case err != nil:
		c.add("tools", false, reason(err))
	case len(a.Choices[0].Message.Calls) > 0:
		c.add("tools", true, "the server parses calls")
	default:
		c.add("tools", true, "takes tools; no call came back, so whether it parses them is not known")
	}
}

func (c *check) someIDs() ([]trajectory.Token, error) {
	t := c.Tokenizer
	if t == nil && c.served != nil {
		t = c.served
	}
	if t == nil {
		return []trajectory.Token{1, 2, 3}, nil
	}
	return t.Encode(question, tokenizer.Options{})
}

// tokensIn looks for a way to send tokens and get tokens.
func (c *check) tokensIn(ctx context.Context, ids []trajectory.Token) {
	for _, d := range doors() {
		out, err := c.through(ctx, d, ids, 4)
		note := reason(err)
		if err == nil && out.ids == nil {
			note = "answers, but without token ids"
		}
		c.add(d.path, err == nil && out.ids != nil, note)
		if c.gives[d.path] && c.report.Wire == "chat" {
			c.report.Wire = d.wire
		}
	}
}

// door is one way of sending tokens and getting tokens.
type door struct {
	path, wire string
	body       func(model string, ids []trajectory.Token, tokens int) map[string]any
}

func doors() []door {
	return []door{
		{"/inference/v1/generate", "vllm", func(model string, ids []trajectory.Token, n int) map[string]any {
			return map[string]any{"model": model, "token_ids": ids, "sampling_params": map[string]any{"max_tokens": n, "temperature": 0, "logprobs": 0}}
		}},
		{"/v1/completions", "vllm-completions", func(model string, ids []trajectory.Token, n int) map[string]any {
			return map[string]any{"model": model, "prompt": ids, "max_tokens": n, "temperature": 0, "return_token_ids": true}
		}},
		{"/generate", "sglang", func(_ string, ids []trajectory.Token, n int) map[string]any {
			return map[string]any{"input_ids": ids, "sampling_params": map[string]any{"max_new_tokens": n, "temperature": 0}, "return_logprob": true}
		}},
		{"/completion", "llamacpp", func(_ string, ids []trajectory.Token, n int) map[string]any {
			return map[string]any{"prompt": ids, "n_predict": n, "temperature": 0, "return_tokens": true}
		}},
	}
}

// sampled is what came through a door. ids is nil where the server gives none.
type sampled struct {
	ids  []trajectory.Token
	text *string // as the server decodes it, where it does
}

func (c *check) through(ctx context.Context, d door, ids []trajectory.Token, tokens int) (sampled, error) {
	var a struct {
		answer
		Output []trajectory.Token `json:"output_ids"`
		Tokens []trajectory.Token `json:"tokens"`
		Text   *string
		Body   *string `json:"content"`
	}
	if err := c.post(ctx, d.path, d.body(c.Model, ids, tokens), &a); err != nil {
		return sampled{}, err
	}
	out := sampled{ids: a.Output, text: a.Text}
	switch {
	case d.path == "/completion":
		out = sampled{a.Tokens, a.Body}
	case len(a.Choices) > 0:
		out = sampled{ids: a.Choices[0].IDs}
		if d.path == "/v1/completions" {
			out.text = &a.Choices[0].Text
		}
	}
	return out, nil
}

// reason is an error in one short line.
func reason(err error) string {
	var s *statusError
	switch {
	case err == nil:
		return ""
	case errors.Is(err, remote.ErrNone):
		return "not there"
	case errors.As(err, &s) && (s.status == 404 || s.status == 405 || s.status == 501):
		return "not there"
	case errors.As(err, &s) && s.status == 403:
		return "closed: " + s.text[:min(len(s.text), 160)]
	}
	text, _, _ := strings.Cut(err.Error(), "\n")
	return text[:min(len(text), 160)]
}
