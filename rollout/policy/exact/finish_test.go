package exact_test

import (
	"fmt"
	"testing"

	"hermes/parsers"
	"hermes/parsers/chattemplate"
	"hermes/rollout/policy"
	"hermes/rollout/policy/exact"
	"hermes/rollout/policy/policytest"
	"hermes/rollout/policy/servers"
	"hermes/rollout/policy/wire"
	"hermes/trajectory"
)

// With tokens, an answer that was broken off goes on behind them; one of a failed provider
// does not.
func TestExactFinishReasons(t *testing.T) {
	for want, words := range policytest.Endings() {
		for _, word := range words {
			answer := func(word string) string {
				return fmt.Sprintf(`{"choices":[{"index":0,"token_ids":[72,105],"finish_reason":%q,"logprobs":{"content":[{"logprob":-1},{"logprob":-2}]}}]}`,
					word)
			}
			c := &policytest.Canned{Answers: []string{answer(word), answer("stop")}}
			tmpl, tok := policytest.ChatML(t, chattemplate.Options{})
			w, err := wire.New(wire.Options{Bases: []string{"http://judge.invalid/v1"}, Transport: c, Retries: -1})
			if err != nil {
				t.Fatal(err)
			}
			gen, err := servers.New(w, "vllm", servers.Options{Model: "m"})
			if err != nil {
				t.Fatal(err)
			}
			p, err := exact.New(exact.Parts{Generator: gen, Renderer: tmpl, Tokenizer: tok, Family: parsers.Hermes, Model: "m", MaxTokens: 50})
			if err != nil {
				t.Fatal(err)
			}
			s, err := p.Open(nil, policy.Options{})
			if err != nil {
				t.Fatal(err)
			}
			turn, err := policytest.First(t, s)
			got, want := string(turn.Finish), want
			if err != nil {
				got = string(policytest.Kind(err))
			}
			tokens := 2
			switch word {
			case "abort", "cancelled", "pause_turn", "timeout":
				want, tokens = string(trajectory.FinishStop), 4
			}
			if got != want || err == nil && len(turn.Sampled.Tokens) != tokens {
				t.Errorf("%s: %s with %d tokens (%v), want %s with %d", word, got, len(turn.Sampled.Tokens), err, want, tokens)
			}
			w.Close()
		}
	}
}
