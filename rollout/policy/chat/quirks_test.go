package chat_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"hermes/internal/fakellm"
	"hermes/rollout/policy"
	"hermes/rollout/policy/chat"
	"hermes/rollout/policy/policytest"
	"hermes/rollout/policy/servers"
	"hermes/rollout/policy/wire"
	"hermes/trajectory"
)

// quirk is what a server's ways must come to behind the chat policy.
type quirk struct {
	like     string
	profile  string // the profile that the probe finds; openrouter and openai are known by their address
	told     bool
	replay   string // what of the reasoning is sent back with the history; empty: nothing
	blind    bool   // reasoning is not shown
	cost     bool
	cached   bool
	context  int // that the list of models tells
	maxField string
}

var quirks = []quirk{
	{like: "", profile: "generic", replay: `"reasoning_content":"I must look."`, context: 1500, maxField: "max_tokens"},
	{like: "openai", profile: "openai", told: true, blind: true, cached: true, maxField: "max_completion_tokens"},
	{like: "openrouter", profile: "openrouter", told: true, replay: `"signature":"sig-`, cost: true, cached: true, context: 1500, maxField: "max_tokens"},
	{like: "vllm", profile: "vllm", replay: `"reasoning_content":"I must look."`, context: 1500, maxField: "max_tokens"},
	{like: "sglang", profile: "sglang", replay: `"reasoning_content":"I must look."`, context: 1500, maxField: "max_tokens"},
	{like: "llamacpp", profile: "llamacpp", replay: `"reasoning_content":"I must look."`, context: 1500, maxField: "max_tokens"},
	{like: "ollama", profile: "ollama", replay: `"reasoning":"I must look."`, maxField: "max_tokens"},
	{like: "anthropic", profile: "generic", replay: `\u003cthink>`, maxField: "max_tokens"},
}

func TestQuirksAreComplete(t *testing.T) {
	have := map[string]bool{}
	for _, q := range quirks {
		have[q.like] = true
	}
	for _, name := range fakellm.LikeNames() {
		if !have[name] {
			t.Errorf("server %s is not tested", name)
		}
	}
}

// Each kind of server, plain and streamed, comes to the same turn; only what a server
// does not tell may differ.
func TestQuirksOfServers(t *testing.T) {
	script := []fakellm.Turn{
		{Reasoning: "I must look.", Calls: []fakellm.Call{
			{Name: "look", Arguments: json.RawMessage(`{"at": "ä <b>", "n": 12345678901234567890}`)},
			{Name: "look", Arguments: json.RawMessage(`{}`)}, {Name: "wait", Arguments: json.RawMessage(`{"s": 1}`)}}},
		{Content: "Seen, <b>all</b>."},
	}
	for _, q := range quirks {
		for _, stream := range []bool{false, true} {
			name := q.like + map[bool]string{false: "/plain", true: "/stream"}[stream]
			t.Run(name, func(t *testing.T) { q.converse(t, script, stream) })
		}
	}
}

func (q quirk) converse(t *testing.T, script []fakellm.Turn, stream bool) {
	s, err := fakellm.New(fakellm.Options{Like: q.like, Models: []string{"m"}, Default: script, ContextLength: 1500})
	if err != nil {
		t.Fatal(err)
	}
	var server atomic.Pointer[fakellm.Server]
	server.Store(s)
	var body atomic.Pointer[[]byte]
	last := func() []byte { return *body.Load() } // the request sent last
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			b, err := io.ReadAll(r.Body)
			if err != nil {
				t.Errorf("read a request: %v", err)
			}
			body.Store(&b)
			r.Body = io.NopCloser(bytes.NewReader(b))
		}
		server.Load().ServeHTTP(w, r)
	}))
	defer web.Close()
	w, err := wire.New(wire.Options{Bases: []string{web.URL + "/v1"}, Retries: -1, LimitedRetries: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	found, err := servers.Probe(t.Context(), w, servers.Auto)
	if err != nil || found.Model != "m" || found.Context != q.context {
		t.Fatalf("probe: %+v, %v", found, err)
	}
	profile := found.Profile
	if q.told {
		profile, err = servers.Named(q.profile)
		if err != nil {
			t.Fatal(err)
		}
	}
	if profile.Name != q.profile {
		t.Fatalf("taken for %s", profile.Name)
	}
	p, err := chat.New(w, chat.Options{Model: "m", Profile: &profile, Stream: stream, MaxTokens: 500})
	if err != nil {
		t.Fatal(err)
	}
	sampler, err := p.Open([]trajectory.ToolSpec{{Name: "look", Parameters: json.RawMessage(`{"type":"object"}`)}}, policy.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer sampler.Close()
	tr := trajectory.New(trajectory.ModeText, nil)
	ask := func(pending ...trajectory.Message) trajectory.Turn {
		t.Helper()
		turn, err := sampler.Next(t.Context(), tr.Prefix(), pending, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tr.Commit(turn); err != nil {
			t.Fatal(err)
		}
		return turn
	}
	first := ask(trajectory.Text(trajectory.User, "Look around."))
	m := first.Sampled.Message
	if !bytes.Contains(last(), []byte(`"`+q.maxField+`":500`)) {
		t.Errorf("the limit was sent as %s", last())
	}
	if len(m.Calls) != 3 || first.Finish != trajectory.FinishCalls || m.Content() != "" {
		t.Fatalf("first turn %+v, %s", m, first.Finish)
	}
	want := []string{`{"at": "ä <b>", "n": 12345678901234567890}`, `{}`, `{"s": 1}`}
	ids := map[string]bool{}
	results := make([]trajectory.Message, len(m.Calls))
	for i, c := range m.Calls {
		if c.Name != []string{"look", "look", "wait"}[i] || !sameJSON(t, c.Arguments, want[i]) {
			t.Errorf("call %d: %s %s", i, c.Name, c.Arguments)
		}
		ids[c.ID] = true
		results[i] = trajectory.Text(trajectory.Tool, "a wall")
		results[i].CallID, results[i].Name = c.ID, c.Name
	}
	if len(ids) != 3 || ids[""] {
		t.Errorf("ids %v", ids)
	}
	if got := strings.TrimSpace(m.Reasoning); (got == "I must look.") == q.blind {
		t.Errorf("reasoning %q", got)
	}
	second := ask(results...)
	if second.Sampled.Message.Content() != "Seen, <b>all</b>." || second.Finish != trajectory.FinishStop {
		t.Errorf("second turn %+v, %s", second.Sampled.Message, second.Finish)
	}
	if q.replay != "" && !bytes.Contains(last(), []byte(strings.ReplaceAll(q.replay, `\u003c`, "<"))) ||
		q.replay == "" && bytes.Contains(last(), []byte("must look")) {
		t.Errorf("the history was sent back as %s", last())
	}
	u := second.Usage
	if u.Prompt == 0 || u.Completion == 0 || u.CostKnown != q.cost || (u.Cached > 0) != q.cached {
		t.Errorf("usage %+v", u)
	}
	// what is too long, unknown, or too much
	_, err = sampler.Next(t.Context(), tr.Prefix(), []trajectory.Message{trajectory.Text(trajectory.User, strings.Repeat("long ", 2000))}, nil)
	if kindOf(err) != policy.Overlong {
		t.Errorf("a full context: %v", err)
	}
	other, err := chat.New(w, chat.Options{Model: "none", Profile: &profile, Stream: stream})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := policytest.Next(t, other, policy.Options{}, "x", nil); kindOf(err) != policy.NoModel {
		t.Errorf("an unknown model: %v", err)
	}
	for fault, kind := range map[string]policy.ErrorKind{"429": policy.Limited, "503": policy.Limited, "500": policy.Unavailable, "error_in_200": ""} {
		sick, err := fakellm.New(fakellm.Options{Like: q.like, Models: []string{"m"}, Faults: map[string]float64{fault: 1}})
		if err != nil {
			t.Fatal(err)
		}
		server.Store(sick)
		if _, err := policytest.Next(t, p, policy.Options{}, "x", nil); kindOf(err) != kind && (kind != "" || !retryable(err)) {
			t.Errorf("%s: %v", fault, err)
		}
	}
}

func kindOf(err error) policy.ErrorKind {
	var e *policy.Error
	if errors.As(err, &e) {
		return e.Kind
	}
	return ""
}

func retryable(err error) bool {
	var e *policy.Error
	return errors.As(err, &e) && e.Retryable()
}

func sameJSON(t *testing.T, a, b string) bool {
	t.Helper()
	var x, y bytes.Buffer
	if json.Compact(&x, []byte(a)) != nil || json.Compact(&y, []byte(b)) != nil {
		return false
	}
	return x.String() == y.String()
}
