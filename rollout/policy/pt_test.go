package policy_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"hermes/internal/fakellm"
	"hermes/parsers"
	"hermes/parsers/chattemplate"
	"hermes/parsers/tokenizer"
	"hermes/parsers/tokenizer/words"
	"hermes/rollout/policy"
	"hermes/rollout/policy/wire"
	"hermes/trajectory"
)

// model is a server that answers with fixed bodies and keeps what it was sent.
type model struct {
	*httptest.Server
	mu      sync.Mutex // guards bodies: nothing but the network orders requests and tests
	bodies  []string
	answers []string // one a request; the last one again
	status  []int
	header  http.Header
}

func serve(t *testing.T, answers ...string) *model {
	t.Helper()
	m := &model{answers: answers, header: http.Header{}}
	m.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		raw, err := io.ReadAll(r.Body)
		if err != nil || r.URL.Path != "/v1/chat/completions" {
			t.Errorf("%s %s: %v", r.Method, r.URL, err)
		}
		m.mu.Lock()
		n := len(m.bodies)
		m.bodies = append(m.bodies, string(raw))
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

// sent are the bodies that came.
func (m *model) sent() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.bodies)
}

func user(s string) []trajectory.Message {
	return []trajectory.Message{trajectory.Text(trajectory.User, s)}
}

func ask(t *testing.T, s policy.Sampler, tr *trajectory.Trace, pending []trajectory.Message, on func(policy.Chunk)) trajectory.Turn {
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

func sse(docs ...string) string {
	var b strings.Builder
	b.WriteString(": hello\n\n")
	for _, d := range docs {
		fmt.Fprintf(&b, "data: %s\n\n", d)
	}
	return b.String() + "data: [DONE]\n\n"
}

func delta(d, finish string) string {
	if finish != "" {
		finish = `,"finish_reason":"` + finish + `"`
	}
	return `{"choices":[{"index":0,"delta":` + d + finish + `}]}`
}

// tape is a Tape in memory. Like the journal's, a look-up with another digest ends it.
type tape struct {
	digests [][32]byte
	answers [][]byte
	next    int
}

func (t *tape) Lookup(d [32]byte) ([]byte, bool) {
	if !t.Peek(d) {
		t.next = len(t.digests)
		return nil, false
	}
	t.next++
	return t.answers[t.next-1], true
}

func (t *tape) Peek(d [32]byte) bool { return t.next < len(t.digests) && t.digests[t.next] == d }

func (t *tape) Store(d [32]byte, a []byte) error {
	t.digests, t.answers = append(t.digests, d), append(t.answers, a)
	t.next = len(t.digests)
	return nil
}

func fake(t *testing.T, o fakellm.Options) (*fakellm.Server, string) {
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

func chatAt(t *testing.T, base string, wo wire.Options, co policy.ChatOptions) policy.Policy {
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
	p, err := policy.NewChat(w, co)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// next asks once, with a fresh trace.
func next(t *testing.T, p policy.Policy, o policy.Options, ask string, on func(policy.Chunk)) (trajectory.Turn, error) {
	t.Helper()
	s, err := p.Open(nil, o)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	return s.Next(t.Context(), trajectory.New(trajectory.ModeText, nil).Prefix(), user(ask), on)
}

func errorKind(err error) policy.ErrorKind {
	var e *policy.Error
	if errors.As(err, &e) {
		return e.Kind
	}
	return ""
}

// canned answers requests with fixed bodies, the last one again, and keeps the requests.
type canned struct {
	answers []string
	sent    []string
}

// RoundTrip answers one request.
func (c *canned) RoundTrip(r *http.Request) (*http.Response, error) {
	raw, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	c.sent = append(c.sent, r.URL.Path+" "+string(raw))
	a := c.answers[min(len(c.sent), len(c.answers))-1]
	return &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(a)), ContentLength: int64(len(a)), Request: r}, nil
}

// exactOver opens a sampler whose server gives canned answers.
func exactOver(t testing.TB, form string, c http.RoundTripper, base string, change func(*policy.Parts, *policy.GeneratorOptions)) policy.Sampler {
	t.Helper()
	tmpl, tok := chatML(t, chattemplate.Options{})
	w, err := wire.New(wire.Options{Bases: []string{base}, Transport: c, Retries: 1, Backoff: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close() })
	parts := policy.Parts{Renderer: tmpl, Tokenizer: tok, Family: parsers.Hermes, Model: "m", MaxTokens: 50}
	o := policy.GeneratorOptions{Model: "m"}
	if change != nil {
		change(&parts, &o)
	}
	o.Capture = parts.Capture
	if parts.Generator, err = policy.NewGenerator(w, form, o); err != nil {
		t.Fatal(err)
	}
	p, err := policy.NewExact(parts)
	if err != nil {
		t.Fatal(err)
	}
	s, err := p.Open(nil, policy.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func first(t testing.TB, s policy.Sampler) (trajectory.Turn, error) {
	t.Helper()
	return s.Next(t.Context(), trajectory.New(trajectory.ModeExact, nil).Prefix(), user("go"), nil)
}

// sgl is an answer of SGLang with the tokens of ids.
func sgl(finish, version string, ids ...int) string {
	var lps []string
	for _, id := range ids {
		lps = append(lps, fmt.Sprintf("[-0.25,%d,null]", id))
	}
	list, _ := json.Marshal(ids)
	return fmt.Sprintf(`{"text":"","output_ids":%s,"meta_info":{"finish_reason":%s,"weight_version":%s,"output_token_logprobs":[%s]}}`, list, finish, version, strings.Join(lps, ","))
}

// fixed answers every request alike.
type fixed struct{ answer string }

// RoundTrip answers one request.
func (f *fixed) RoundTrip(r *http.Request) (*http.Response, error) {
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		return nil, err
	}
	return &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(f.answer)), ContentLength: int64(len(f.answer)), Request: r}, nil
}

// ids adapts a tokenizer for the fake server.
type ids struct {
	tokenizer.Tokenizer
	end string
}

func (t ids) Encode(text string) []int32 {
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

func (t ids) Decode(list []int32) string {
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

func (t ids) End() int32 {
	id, _ := t.ID(t.end)
	return int32(id)
}

func chatML(t testing.TB, o chattemplate.Options) (*chattemplate.Template, tokenizer.Tokenizer) {
	t.Helper()
	src, err := os.ReadFile("testdata/chatml.jinja")
	if err != nil {
		t.Fatal(err)
	}
	tok, err := words.New([]string{"<tool_call>", "</tool_call>", "<think>", "</think>", "assistant", "user", "function", " the"}, []string{"<|im_end|>", "<|im_start|>"})
	if err != nil {
		t.Fatal(err)
	}
	o.Source = string(src)
	tmpl, err := chattemplate.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return tmpl, tok
}

func tokens(tr *trajectory.Trace) []int32 {
	var list []int32
	for ts := range tr.Prefix().Tokens() {
		for _, id := range ts {
			list = append(list, int32(id))
		}
	}
	return list
}

func forms() []string { return []string{"sglang", "vllm", "vllm-completions", "llamacpp"} }

// endings are finish reasons of real servers and what becomes of the answer: a finish, or
// the kind of the failure.
func endings() map[string][]string {
	return map[string][]string{
		string(trajectory.FinishStop):   {"stop", "STOP", "eos", "eos_token", "end_turn", "stop_sequence", "FinishReason.STOP", "COMPLETE", "normal", "endTurn", "FINISH_MATCHED_TOKEN", "stop_token_id"},
		string(trajectory.FinishLength): {"length", "max_tokens", "MAX_TOKENS", "model_length", "model_context_window_exceeded", "max_output_tokens", "repetition", "maxTokens", "FINISH_LENGTH", "contextLength"},
		string(trajectory.FinishFilter): {"content_filter", "refusal", "SAFETY", "RECITATION", "sensitive", "PROHIBITED_CONTENT", "BLOCKLIST", "SPII", "guardrail_intervened"},
		string(policy.Unavailable): {"abort", "cancelled", "pause_turn", "timeout", "insufficient_system_resource", "network_error", "failed", "error",
			"MALFORMED_FUNCTION_CALL", "OTHER", "serverError", "compute_error"},
		string(policy.Malformed): {"no_such_reason", "stopped?", "17"},
	}
}
