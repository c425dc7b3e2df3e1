package policy_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"hermes/rollout/policy"
	"hermes/rollout/policy/wire"
	"hermes/trajectory"
)

// A chat server that tells its ids: appended where its prompt begins with the trace, else
// a fork.
func TestChatIDs(t *testing.T) {
	answer := func(prompt, ids string) string {
		return `{"model":"m","prompt_token_ids":` + prompt + `,"choices":[{"index":0,"finish_reason":"stop","token_ids":` + ids +
			`,"message":{"role":"assistant","content":"hi"},"logprobs":{"content":[{"token":"a","logprob":-0.5},{"token":"b","logprob":-0.25}]}}]}`
	}
	m := serve(t, answer("[1,2,3]", "[4,5]"), answer("[1,2,3,4,5,6,7]", "[8,9]"), answer("[1,2,6]", "[8,9]"), hello)
	w, err := wire.New(wire.Options{Bases: []string{m.URL + "/v1"}, Backoff: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	p, err := policy.NewChatIDs(w, policy.ChatOptions{Model: "m", Extra: json.RawMessage(`{"own":1}`)})
	if err != nil {
		t.Fatal(err)
	}
	s, err := p.Open(nil, policy.Options{})
	if err != nil {
		t.Fatal(err)
	}
	tr := trajectory.New(p.Info().Mode, nil)
	ask(t, s, tr, user("a"), nil)
	ask(t, s, tr, user("b"), nil)
	if got := tokens(tr); !slices.Equal(got, []int32{1, 2, 3, 4, 5, 6, 7, 8, 9}) {
		t.Errorf("tokens %v", got)
	}
	if turn := ask(t, s, tr, user("c"), nil); !turn.Fork || len(turn.Given) != 5 {
		t.Errorf("a rewritten past is no fork: %+v", turn)
	}
	if got := tokens(tr); !slices.Equal(got, []int32{1, 2, 6, 8, 9}) {
		t.Errorf("tokens of the fork %v", got)
	}
	_, err = s.Next(t.Context(), tr.Prefix(), user("d"), nil)
	var e *policy.Error
	if !errors.As(err, &e) || e.Kind != policy.Inexact || !strings.Contains(err.Error(), "return_token_ids") {
		t.Errorf("an answer without ids: %v", err)
	}
	for _, part := range []string{`"logprobs":true`, `"return_token_ids":true`, `"own":1`} {
		if !strings.Contains(m.bodies[0], part) {
			t.Errorf("the request lacks %s: %s", part, m.bodies[0])
		}
	}
	if strings.Contains(m.bodies[0], `"stream":true`) {
		t.Error("the request asks for a stream")
	}
}

// overChatIDs is a sampler that takes its tokens out of chat answers.
func overChatIDs(t *testing.T, o wire.Options) policy.Sampler {
	t.Helper()
	w, err := wire.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close() })
	p, err := policy.NewChatIDs(w, policy.ChatOptions{Model: "m"})
	if err != nil {
		t.Fatal(err)
	}
	s, err := p.Open(nil, policy.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// SGLang tells the ids of a chat answer in fields of its own.
func TestChatIDsOfSGLang(t *testing.T) {
	c := &canned{answers: []string{`{"choices":[{"index":0,"message":{"role":"assistant","content":"Hi"},"finish_reason":"stop","prompt_token_ids":[1,2,3],"response_token_ids":[72,105],` +
		`"logprobs":{"content":[{"token":"H","logprob":-0.5},{"token":"i","logprob":-0.25}]},"weight_versions":[{"version":"3","start":0,"end":2}]}]}`}}
	turn, err := first(t, overChatIDs(t, wire.Options{Bases: []string{"http://judge.invalid/v1"}, Transport: c}))
	if err != nil || !slices.Equal(turn.Sampled.Tokens, []trajectory.Token{72, 105}) || !slices.Equal(turn.Given[0].Tokens, []trajectory.Token{1, 2, 3}) ||
		!slices.Equal(turn.Sampled.Versions, []trajectory.Span{{Version: "3"}}) {
		t.Errorf("%+v, %v", turn, err)
	}
}
