// Package policytest has model servers and policies for the tests of the rooms of
// rollout/policy: chat servers with fixed answers, an exact policy over a small template
// and tokenizer, a tape in memory.
package policytest

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"hermes/internal/fakellm"
	"hermes/rollout/policy"
	"hermes/rollout/policy/chat"
	"hermes/rollout/policy/wire"
	"hermes/trajectory"
)

// Model is a chat server that answers with fixed bodies and keeps what it was sent.
type Model struct {
	*httptest.Server
	mu      sync.Mutex // guards bodies: nothing but the network orders requests and tests
	Bodies  []string
	answers []string // one a request; the last one again
	status  []int
	header  http.Header
}

// Serve starts a chat server that gives these answers.
func Serve(t *testing.T, answers ...string) *Model {
	t.Helper()
	m := &Model{answers: answers, header: http.Header{}}
	m.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		raw, err := io.ReadAll(r.Body)
		if err != nil || r.URL.Path != "/v1/chat/completions" {
			t.Errorf("%s %s: %v", r.Method, r.URL, err)
		}
		m.mu.Lock()
		n := len(m.Bodies)
		m.Bodies = append(m.Bodies, string(raw))
		m.mu.Unlock()
		a := m.answers[min(n, len(m.answers)-1)]
		if !strings.HasPrefix(a, "{") {
			w.Header().Set("Content-Type", "text/event-stream")
		}
		if n < len(m.status) && m.status[n] != 0 {
			w.WriteHeader(m.status[n])
		}
		io.WriteString(w, a)
	}))
	t.Cleanup(m.Close)
	return m
}

// Sent are the bodies that came.
func (m *Model) Sent() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.Bodies)
}

// User is one message of a user.
func User(s string) []trajectory.Message {
	return []trajectory.Message{trajectory.Text(trajectory.User, s)}
}

// Ask asks for the next turn and commits it.
func Ask(t *testing.T, s policy.Sampler, tr *trajectory.Trace, pending []trajectory.Message, on func(policy.Chunk)) trajectory.Turn {
	t.Helper()
	turn, err := s.Next(t.Context(), tr.Prefix(), pending, on)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tr.Commit(turn); err != nil {
		t.Fatal(err)
	}
	return turn
}

// SSE is an event stream with these documents.
func SSE(docs ...string) string {
	var b strings.Builder
	b.WriteString(": hello\n\n")
	for _, d := range docs {
		fmt.Fprintf(&b, "data: %s\n\n", d)
	}
	return b.String() + "data: [DONE]\n\n"
}

// Delta is a document of a stream with one delta; finish may be empty.
func Delta(d, finish string) string {
	if finish != "" {
		finish = `,"finish_reason":"` + finish + `"`
	}
	return `{"choices":[{"index":0,"delta":` + d + finish + `}]}`
}

// Tape is a policy.Tape in memory. Like the journal's, a look-up with another digest ends it.
type Tape struct {
	Digests [][32]byte
	answers [][]byte
	Next    int
}

// Lookup returns the next answer.
func (t *Tape) Lookup(d [32]byte) ([]byte, bool) {
	if !t.Peek(d) {
		t.Next = len(t.Digests)
		return nil, false
	}
	t.Next++
	return t.answers[t.Next-1], true
}

// Peek reports whether the next answer is that of d.
func (t *Tape) Peek(d [32]byte) bool { return t.Next < len(t.Digests) && t.Digests[t.Next] == d }

// Store appends an answer.
func (t *Tape) Store(d [32]byte, a []byte) error {
	t.Digests, t.answers = append(t.Digests, d), append(t.answers, a)
	t.Next = len(t.Digests)
	return nil
}

// Fake starts a fake server that records, and returns its base URL.
func Fake(t *testing.T, o fakellm.Options) (*fakellm.Server, string) {
	t.Helper()
	o.Record = true
	s, err := fakellm.New(o)
	if err != nil {
		t.Fatal(err)
	}
	h := httptest.NewServer(s)
	t.Cleanup(h.Close)
	return s, h.URL + "/v1"
}

// Chat is a chat policy of the server at base.
func Chat(t *testing.T, base string, wo wire.Options, co chat.Options) policy.Policy {
	t.Helper()
	wo.Bases, wo.Backoff = []string{base}, time.Millisecond
	w, err := wire.New(wo)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close() })
	if co.Model == "" {
		co.Model = "fake"
	}
	p, err := chat.New(w, co)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// Next asks once, with a fresh trace.
func Next(t *testing.T, p policy.Policy, o policy.Options, ask string, on func(policy.Chunk)) (trajectory.Turn, error) {
	t.Helper()
	s, err := p.Open(nil, o)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	return s.Next(t.Context(), trajectory.New(trajectory.ModeText, nil).Prefix(), User(ask), on)
}

// Kind is the kind of a failed request; empty: of none.
func Kind(err error) policy.ErrorKind {
	if e, ok := errors.AsType[*policy.Error](err); ok {
		return e.Kind
	}
	return ""
}

// Endings are finish reasons of real servers and what becomes of the answer: a finish, or
// the kind of the failure.
func Endings() map[string][]string {
	return map[string][]string{
		string(trajectory.FinishStop):   {"stop", "STOP", "eos", "eos_token", "end_turn", "stop_sequence", "FinishReason.STOP", "COMPLETE", "normal", "endTurn", "FINISH_MATCHED_TOKEN", "stop_token_id"},
		string(trajectory.FinishLength): {"length", "max_tokens", "MAX_TOKENS", "model_length", "model_context_window_exceeded", "max_output_tokens", "repetition", "maxTokens", "FINISH_LENGTH", "contextLength"},
		string(trajectory.FinishFilter): {"content_filter", "refusal", "SAFETY", "RECITATION", "sensitive", "PROHIBITED_CONTENT", "BLOCKLIST", "SPII", "guardrail_intervened"},
		string(policy.Unavailable): {"abort", "cancelled", "pause_turn", "timeout", "insufficient_system_resource", "network_error", "failed", "error",
			"MALFORMED_FUNCTION_CALL", "OTHER", "serverError", "compute_error"},
		string(policy.Malformed): {"no_such_reason", "stopped?", "17"},
	}
}

// Hello is a plain chat answer with usage.
const Hello = `{"model":"m-1","choices":[{"index":0,"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}],"usage":{"prompt_tokens":5,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":3},"completion_tokens_details":{"reasoning_tokens":1},"cost":0.25}}`
