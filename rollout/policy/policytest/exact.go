package policytest

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"hermes/parsers"
	"hermes/parsers/chattemplate"
	"hermes/parsers/tokenizer"
	"hermes/parsers/tokenizer/words"
	"hermes/rollout/policy"
	"hermes/rollout/policy/chat"
	"hermes/rollout/policy/exact"
	"hermes/rollout/policy/servers"
	"hermes/rollout/policy/wire"
	"hermes/trajectory"
)

// Template is the template of [ChatML].
//
//go:embed chatml.jinja
var Template string

// Canned answers requests with fixed bodies, the last one again, and keeps the requests.
type Canned struct {
	Answers []string
	Sent    []string
}

// RoundTrip answers one request.
func (c *Canned) RoundTrip(r *http.Request) (*http.Response, error) {
	raw, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	c.Sent = append(c.Sent, r.URL.Path+" "+string(raw))
	a := c.Answers[min(len(c.Sent), len(c.Answers))-1]
	return &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(a)), ContentLength: int64(len(a)), Request: r}, nil
}

// Exact opens a sampler whose server gives canned answers.
func Exact(t testing.TB, form string, c http.RoundTripper, base string, change func(*exact.Parts, *servers.Options)) policy.Sampler {
	t.Helper()
	tmpl, tok := ChatML(t, chattemplate.Options{})
	w, err := wire.New(wire.Options{Bases: []string{base}, Transport: c, Retries: 1, Backoff: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close() })
	parts := exact.Parts{Renderer: tmpl, Tokenizer: tok, Family: parsers.Hermes, Model: "m", MaxTokens: 50}
	o := servers.Options{Model: "m"}
	if change != nil {
		change(&parts, &o)
	}
	o.Capture = parts.Capture
	parts.Generator, err = servers.New(w, form, o)
	if err != nil {
		t.Fatal(err)
	}
	p, err := exact.New(parts)
	if err != nil {
		t.Fatal(err)
	}
	s, err := p.Open(nil, policy.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// First asks for the first turn of a trace.
func First(t testing.TB, s policy.Sampler) (trajectory.Turn, error) {
	t.Helper()
	return s.Next(t.Context(), trajectory.New(trajectory.ModeExact, nil).Prefix(), User("go"), nil)
}

// SGLang is an answer of SGLang with the tokens of ids.
func SGLang(finish, version string, ids ...int) string {
	var lps []string
	for _, id := range ids {
		lps = append(lps, fmt.Sprintf("[-0.25,%d,null]", id))
	}
	list, _ := json.Marshal(ids)
	return fmt.Sprintf(`{"text":"","output_ids":%s,"meta_info":{"finish_reason":%s,"weight_version":%s,"output_token_logprobs":[%s]}}`, list, finish, version, strings.Join(lps, ","))
}

// Fixed answers every request alike.
type Fixed struct{ Answer string }

// RoundTrip answers one request.
func (f *Fixed) RoundTrip(r *http.Request) (*http.Response, error) {
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		return nil, err
	}
	return &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(f.Answer)), ContentLength: int64(len(f.Answer)), Request: r}, nil
}

// IDs adapts a tokenizer for the fake server.
type IDs struct {
	tokenizer.Tokenizer
	Last string // the spelling of the token that ends a turn
}

// Encode reads the spelling of special tokens as those tokens.
func (t IDs) Encode(text string) []int32 {
	list, err := t.Tokenizer.Encode(text, tokenizer.Options{Special: true})
	if err != nil {
		panic(err)
	}
	out := make([]int32, len(list))
	for i, id := range list {
		out[i] = int32(id)
	}
	return out
}

// Decode leaves out what is no token.
func (t IDs) Decode(list []int32) string {
	var b strings.Builder
	s := t.Stream(tokenizer.StreamOptions{})
	for _, id := range list {
		text, err := s.Push(trajectory.Token(id))
		if err != nil {
			continue // made up by a fault
		}
		b.WriteString(text)
	}
	return b.String() + s.Finish()
}

// End is the token that ends a turn.
func (t IDs) End() int32 {
	id, _ := t.ID(t.Last)
	return int32(id)
}

// ChatML is a template and a tokenizer that fit together.
func ChatML(t testing.TB, o chattemplate.Options) (*chattemplate.Template, tokenizer.Tokenizer) {
	t.Helper()
	tok, err := words.New([]string{"<tool_call>", "</tool_call>", "<think>", "</think>", "assistant", "user", "function", " the"}, []string{"<|im_end|>", "<|im_start|>"})
	if err != nil {
		t.Fatal(err)
	}
	o.Source = Template
	tmpl, err := chattemplate.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return tmpl, tok
}

// Tokens are those of the present path of a trace.
func Tokens(tr *trajectory.Trace) []int32 {
	var list []int32
	for ts := range tr.Prefix().Tokens() {
		for _, id := range ts {
			list = append(list, int32(id))
		}
	}
	return list
}

// Forms are the wire forms of tokens.
func Forms() []string { return []string{"sglang", "vllm", "vllm-completions", "llamacpp"} }

// ChatIDs is a sampler that takes its tokens out of chat answers.
func ChatIDs(t testing.TB, o wire.Options) policy.Sampler {
	t.Helper()
	w, err := wire.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close() })
	p, err := chat.NewIDs(w, chat.Options{Model: "m"})
	if err != nil {
		t.Fatal(err)
	}
	s, err := p.Open(nil, policy.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}
