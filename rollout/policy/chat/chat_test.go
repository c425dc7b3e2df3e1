package chat_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"hermes/rollout/policy"
	"hermes/rollout/policy/chat"
	"hermes/rollout/policy/policytest"
	"hermes/rollout/policy/wire"
	"hermes/trajectory"
)

func open(t *testing.T, m *policytest.Model, co chat.Options, o policy.Options, tools ...trajectory.ToolSpec) policy.Sampler {
	t.Helper()
	w, err := wire.New(wire.Options{Bases: []string{m.URL + "/v1"}, Backoff: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close() })
	if co.Model == "" {
		co.Model = "m"
	}
	p, err := chat.New(w, co)
	if err != nil {
		t.Fatal(err)
	}
	s, err := p.Open(tools, o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestChatSendsAndReads(t *testing.T) {
	m := policytest.Serve(t, policytest.Hello)
	zero, seed := 0.0, uint64(7)
	s := open(t, m, chat.Options{Extra: json.RawMessage(`{"chat_template_kwargs":{"a":1}}`)},
		policy.Options{Temperature: &zero, Seed: &seed, MaxTokens: 9, Extra: json.RawMessage(`{"chat_template_kwargs":{"b":2}}`)},
		trajectory.ToolSpec{Name: "ls", Description: "a<b", Parameters: json.RawMessage(`{"type":"object"}`)})
	tr := trajectory.New(trajectory.ModeText, nil)
	turn := policytest.Ask(t, s, tr, []trajectory.Message{{Role: trajectory.System}, trajectory.Text(trajectory.User, "é\n\"<\xff")}, nil)
	if turn.Sampled.Message.Content() != "hi" || turn.Finish != trajectory.FinishStop || turn.Model != "m-1" {
		t.Errorf("turn %+v", turn)
	}
	want := trajectory.Usage{Prompt: 5, Completion: 2, Reasoning: 1, Cached: 3, Cost: 0.25, CostKnown: true}
	if turn.Usage != want {
		t.Errorf("usage %+v, want %+v", turn.Usage, want)
	}
	for _, part := range []string{`"temperature":0,`, `"max_tokens":9`, `{"role":"system","content":""}`, `"content":"é\n\"<\ufffd"`,
		`"chat_template_kwargs":{"a":1,"b":2}`, `"description":"a<b"`, `"seed":`} {
		if !strings.Contains(m.Sent()[0], part) {
			t.Errorf("body lacks %s:\n%s", part, m.Sent()[0])
		}
	}
	if !json.Valid([]byte(m.Sent()[0])) {
		t.Errorf("body is no JSON: %s", m.Sent()[0])
	}
}

// What a turn encodes is exactly what it added, whatever is before it.
func TestChatEncodesOnlyWhatIsNew(t *testing.T) {
	m := policytest.Serve(t, policytest.Hello)
	s := open(t, m, chat.Options{}, policy.Options{})
	tr := trajectory.New(trajectory.ModeText, nil)
	count := s.(policy.Counting)
	answer := int64(len(`,{"role":"assistant","content":"hi"}`))
	for turn := range 20 {
		text := strings.Repeat("x", 100*(turn%3+1))
		before := count.Counts()
		policytest.Ask(t, s, tr, policytest.User(text), nil)
		added := int64(len(`,{"role":"user","content":""}`) + len(text))
		if turn == 0 {
			added-- // no comma
		} else {
			added += answer
		}
		after := count.Counts()
		if got := after.Encoded - before.Encoded; got != added {
			t.Fatalf("turn %d encoded %d bytes, added %d", turn, got, added)
		}
		if sent := after.Sent - before.Sent; sent != int64(len(m.Sent()[turn])) {
			t.Fatalf("turn %d: %d bytes counted, %d sent", turn, sent, len(m.Sent()[turn]))
		}
	}
}

// A rewind drops what was abandoned; what is left is what is sent.
func TestChatFollowsRewind(t *testing.T) {
	m := policytest.Serve(t, policytest.Hello)
	s := open(t, m, chat.Options{}, policy.Options{})
	tr := trajectory.New(trajectory.ModeText, nil)
	policytest.Ask(t, s, tr, policytest.User("one"), nil)
	keep := tr.Head
	policytest.Ask(t, s, tr, policytest.User("two"), nil)
	if err := tr.Rewind(keep, trajectory.Abandoned); err != nil {
		t.Fatal(err)
	}
	policytest.Ask(t, s, tr, policytest.User("three"), nil)
	last := m.Sent()[2]
	if strings.Contains(last, "two") || !strings.Contains(last, `"one"},{"role":"assistant","content":"hi"},{"role":"user","content":"three"}]`) {
		t.Errorf("after the rewind: %s", last)
	}
}

func TestChatStream(t *testing.T) {
	m := policytest.Serve(t,
		policytest.SSE(policytest.Delta(`{"role":"assistant","content":null,"reasoning_content":"hm"}`,
			""), policytest.Delta(`{"content":"he"}`, ""), policytest.Delta(`{"content":"y"}`, ""),
			policytest.Delta(`{"tool_calls":[{"index":0,"id":"c1","function":{"name":"ls","arguments":""}}]}`, ""),
			policytest.Delta(`{"tool_calls":[{"index":0,"function":{"arguments":"{\"a\""}}]}`,
				""), policytest.Delta(`{"tool_calls":[{"index":0,"function":{"arguments":":1}"}}]}`, ""),
			policytest.Delta(`{}`, "tool_calls"), `{"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":4}}`))
	s := open(t, m, chat.Options{}, policy.Options{})
	tr := trajectory.New(trajectory.ModeText, nil)
	var seen strings.Builder
	turn := policytest.Ask(t, s, tr, policytest.User("x"), func(c policy.Chunk) { fmt.Fprintf(&seen, "[%s|%s]", c.Content, c.Reasoning) })
	msg := turn.Sampled.Message
	if msg.Content() != "hey" || msg.Reasoning != "hm" || len(msg.Calls) != 1 || msg.Calls[0] != (trajectory.Call{ID: "c1", Name: "ls", Arguments: `{"a":1}`}) {
		t.Errorf("message %+v", msg)
	}
	if turn.Finish != trajectory.FinishCalls || turn.Usage.Completion != 4 || seen.String() != "[|hm][he|][y|]" {
		t.Errorf("finish %s usage %+v seen %s", turn.Finish, turn.Usage, seen.String())
	}
	policytest.Ask(t, s, tr, []trajectory.Message{{Role: trajectory.Tool, CallID: "c1", Parts: []trajectory.Part{{Kind: trajectory.PartText, Text: "out"}}}},
		nil)
	for _, part := range []string{
		`"reasoning_content":"hm","tool_calls":[{"id":"c1","type":"function","function":{"name":"ls","arguments":"{\"a\":1}"}}]`,
		`{"role":"tool","content":"out","tool_call_id":"c1"}`,
	} {
		if !strings.Contains(m.Sent()[1], part) {
			t.Errorf("body lacks %s: %s", part, m.Sent()[1])
		}
	}
}

// A resumed rollout buys nothing that is stored, and a stored stream serves a plain request.
func TestChatReplaysTape(t *testing.T) {
	m := policytest.Serve(t, policytest.SSE(policytest.Delta(`{"content":"one"}`, "stop")), policytest.Hello)
	tp := &policytest.Tape{}
	run := func(watch bool) string {
		s := open(t, m, chat.Options{}, policy.Options{Tape: tp})
		tr := trajectory.New(trajectory.ModeText, nil)
		var on func(policy.Chunk)
		if watch {
			on = func(policy.Chunk) {}
		}
		a := policytest.Ask(t, s, tr, policytest.User("q"), on).Sampled.Message.Content()
		return a + policytest.Ask(t, s, tr, policytest.User("r"), nil).Sampled.Message.Content()
	}
	first := run(true)
	tp.Next = 0
	second := run(false)
	if len(m.Sent()) != 2 || first != "onehi" || second != first {
		t.Errorf("%d requests, %q then %q", len(m.Sent()), first, second)
	}
}

func TestChatCancelledMidStream(t *testing.T) {
	release := make(chan struct{})
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		io.WriteString(w, "data: "+policytest.Delta(`{"content":"par"}`, "")+"\n\n")
		w.(http.Flusher).Flush()
		<-release
	}))
	defer srv.Close()
	defer close(release)
	s := open(t, &policytest.Model{Server: srv}, chat.Options{}, policy.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	turn, err := s.Next(ctx, trajectory.New(trajectory.ModeText, nil).Prefix(), policytest.User("x"), func(policy.Chunk) { cancel() })
	if err != nil || turn.Finish != trajectory.FinishAborted || turn.Sampled.Message.Content() != "par" {
		t.Errorf("turn %+v, %v", turn, err)
	}
}
