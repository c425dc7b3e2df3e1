// Package servers knows the model servers: the requests and answers of those that take
// tokens (SGLang, vLLM, llama.cpp; see [New]), how chat servers differ ([Profile]), and
// which models a server offers ([Probe], [Discover]).
//
// An answer of tokens is checked to the last one: its ids, its log-probs and the prompt
// that the server says it read. What does not agree is an error of kind Inexact.
//
// All values are safe for concurrent use, but for a [Line], which belongs to one rollout.
package servers

import (
	"context"
	"fmt"
	"slices"
	"time"

	"hermes/rollout/policy"
	"hermes/rollout/policy/wire"
	"hermes/trajectory"
)

// Generator reaches servers that take tokens and return tokens. It is safe for
// concurrent use.
type Generator interface {
	// Open prepares the requests of one rollout: what does not change is encoded once.
	Open(o policy.Options, stops []trajectory.Token) (Line, error)
	// Form names the wire form; it is part of a request's digest, because a stored answer
	// can be read in its own form only.
	Form() string
}

// Line asks for one rollout; it is used by one goroutine at a time.
type Line interface {
	// Generate returns what follows the prompt. An answer whose tokens, log-probs and
	// prompt cannot be trusted to the last one is an *Error of kind Inexact.
	Generate(ctx context.Context, p Prompt, a Ask) (Completion, error)
}

// Prompt is the growing sequence of one rollout.
type Prompt interface {
	Len() int                // tokens
	IDs() []trajectory.Token // a copy
	// Body makes readers of a request: head, the ids as a JSON list without its brackets, tail.
	Body(head, tail []byte) func() wire.Body
}

// Ask is what differs from request to request.
type Ask struct {
	Limit  int     // tokens to write at most; above 0
	Seed   *uint64 // nil: none is sent
	Digest [32]byte
	Taped  bool // answer from the tape or not at all
}

// Completion is what a server sampled. LogProbs are natural logarithms, one a token.
type Completion struct {
	Tokens   []trajectory.Token
	LogProbs []float32
	Masked   []trajectory.Run  // tokens whose log-prob the server does not tell: 0 there
	Finish   trajectory.Finish // stop, length, filter or aborted
	Version  string            // of the weights; empty: not reported
	Versions []trajectory.Span // of the weights, where they changed within the answer; nil: not reported
	Model    string
	Prompt   int                // tokens of the prompt as the server counts them; -1: not reported
	Echo     []trajectory.Token // the prompt as the server read it; nil: not reported
	Cached   int64
	Top      []top   // with a capture: the likeliest tokens at each place
	Experts  experts // likewise
	Took     time.Duration
	Replayed bool
}

// top is one of the likeliest tokens at a place.
type top struct {
	id      trajectory.Token
	logProb float32
}

// experts are the experts to which tokens were routed, as the server encodes them: rows
// of raw numbers, one for each token of prompt and answer but the last.
type experts struct {
	raw   []byte
	dtype string
	row   []int // the shape of one row; nil: not reported
}

// The wire forms of servers that take tokens: the names that [New] takes.
const (
	SGLang          = "sglang"
	VLLM            = "vllm"
	VLLMCompletions = "vllm-completions"
	LlamaCpp        = "llamacpp"
)

// CheckChat compares the answer of a chat server, which made the prompt itself, with itself.
func (c *Completion) CheckChat() error {
	return c.check(nil, &form{name: "chat", start: "the server must honour logprobs"}, Capture{})
}

// check compares an answer with the prompt and with itself.
func (c *Completion) check(p Prompt, f *form, want Capture) error {
	switch {
	case p == nil: // a chat server made the prompt
	case c.Prompt >= 0 && c.Prompt != p.Len():
		return policy.Inexactf("%s: the server counts %d tokens in the prompt, %d were sent: it does not answer to this prompt (does it add a token at the beginning?)", f.name, c.Prompt, p.Len())
	case c.Echo != nil && !slices.Equal(c.Echo, p.IDs()):
		return policy.Inexactf("%s: the server's prompt differs from the one that was sent at token %d", f.name, FirstDifference(c.Echo, p.IDs()))
	}
	switch {
	case c.Finish == trajectory.FinishAborted && len(c.Tokens) == 0:
		return &policy.Error{Kind: policy.Unavailable, Err: fmt.Errorf("%s: the server aborted the request before its first token", f.name)}
	case len(c.Tokens) == 0:
		return policy.Malformedf("%s: the answer holds no tokens", f.name)
	case len(c.LogProbs) != len(c.Tokens):
		return policy.Inexactf("%s: %d tokens but %d log-probs; %s", f.name, len(c.Tokens), len(c.LogProbs), f.start)
	}
	for i, v := range c.LogProbs {
		if v != v || v > 1e-3 || v < -1e30 {
			return policy.Inexactf("%s: log-prob %d is %v, where a finite number up to 0 should stand", f.name, i, v)
		}
	}
	for i, id := range c.Tokens {
		if id < 0 {
			return policy.Inexactf("%s: token %d is %d", f.name, i, id)
		}
	}
	if want.TopK > 0 && len(c.Top) != want.TopK*len(c.Tokens) {
		return policy.Inexactf("%s: %d of the likeliest tokens for %d places, want %d each", f.name, len(c.Top), len(c.Tokens), want.TopK)
	}
	if want.Experts && len(c.Experts.raw) == 0 {
		return policy.Inexactf("%s: the answer has no routed experts; start the server with --enable-return-routed-experts", f.name)
	}
	return nil
}

// FirstDifference is the first place at which two lists differ: the length of the shorter one
// where they do not.
func FirstDifference(a, b []trajectory.Token) int {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return i
		}
	}
	return min(len(a), len(b))
}
