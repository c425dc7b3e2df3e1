package chat_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"hermes/rollout/policy"
	"hermes/rollout/policy/chat"
	"hermes/rollout/policy/policytest"
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
	m := policytest.Serve(t, answer("[1,2,3]", "[4,5]"), answer("[1,2,3,4,5,6,7]", "[8,9]"), answer("[1,2,6]", "[8,9]"), policytest.Hello)
	w, err := wire.New(wire.Options{Bases: []string{m.URL + "/v1"}, Backoff: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	p, err := chat.NewIDs(w, chat.Options{Model: "m", Extra: json.RawMessage(`{"own":1}`)})
	if err != nil {
		t.Fatal(err)
	}
	s, err := p.Open(nil, policy.Options{})
	if err != nil {
		t.Fatal(err)
	}
	tr := trajectory.New(p.Info().Mode, nil)
	policytest.Ask(t, s, tr, policytest.User("a"), nil)
	policytest.Ask(t, s, tr, policytest.User("b"), nil)
	if got := policytest.Tokens(tr); !slices.Equal(got, []int32{1, 2, 3, 4, 5, 6, 7, 8, 9}) {
		t.Errorf("tokens %v", got)
	}
	if turn := policytest.Ask(t, s, tr, policytest.User("c"), nil); !turn.Fork || len(turn.Given) != 5 {
		t.Errorf("a rewritten past is no fork: %+v", turn)
	}
	if got := policytest.Tokens(tr); !slices.Equal(got, []int32{1, 2, 6, 8, 9}) {
		t.Errorf("tokens of the fork %v", got)
	}
	_, err = s.Next(t.Context(), tr.Prefix(), policytest.User("d"), nil)
	var e *policy.Error
	if !errors.As(err, &e) || e.Kind != policy.Inexact || !strings.Contains(err.Error(), "return_token_ids") {
		t.Errorf("an answer without ids: %v", err)
	}
	for _, part := range []string{`"logprobs":true`, `"return_token_ids":true`, `"own":1`} {
		if !strings.Contains(m.Bodies[0], part) {
			t.Errorf("the request lacks %s: %s", part, m.Bodies[0])
		}
	}
	if strings.Contains(m.Bodies[0], `"stream":true`) {
		t.Error("the request asks for a stream")
	}
}

// SGLang sends the ids of a chat answer in its own fields.
func TestChatIDsOfSGLang(t *testing.T) {
	c := &policytest.Canned{Answers: []string{`{"choices":[{"index":0,"message":{"role":"assistant","content":"Hi"},"finish_reason":"stop","prompt_token_ids":[1,2,3],"response_token_ids":[72,105],` +
		`"logprobs":{"content":[{"token":"H","logprob":-0.5},{"token":"i","logprob":-0.25}]},"weight_versions":[{"version":"3","start":0,"end":2}]}]}`}}
	turn, err := policytest.First(t, policytest.ChatIDs(t, wire.Options{Bases: []string{"http://judge.invalid/v1"}, Transport: c}))
	if err != nil || !slices.Equal(turn.Sampled.Tokens, []trajectory.Token{72, 105}) || !slices.Equal(turn.Given[0].Tokens, []trajectory.Token{1, 2, 3}) ||
		!slices.Equal(turn.Sampled.Versions, []trajectory.Span{{Version: "3"}}) {
		t.Errorf("%+v, %v", turn, err)
	}
}
