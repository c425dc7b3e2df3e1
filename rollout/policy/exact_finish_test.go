package policy_test

import (
	"fmt"
	"testing"

	"hermes/parsers"
	"hermes/parsers/chattemplate"
	"hermes/rollout/policy"
	"hermes/rollout/policy/wire"
	"hermes/trajectory"
)

// With tokens, an answer that was broken off goes on behind them; one of a failed provider
// does not.
func TestExactFinishReasons(t *testing.T) {
	for want, words := range endings() {
		for _, word := range words {
			answer := func(word string) string {
				return fmt.Sprintf(`{"choices":[{"index":0,"token_ids":[72,105],"finish_reason":%q,"logprobs":{"content":[{"logprob":-1},{"logprob":-2}]}}]}`, word)
			}
			c := &canned{answers: []string{answer(word), answer("stop")}}
			tmpl, tok := chatML(t, chattemplate.Options{})
			w, err := wire.New(wire.Options{Bases: []string{"http://judge.invalid/v1"}, Transport: c, Retries: -1})
			if err != nil {
				t.Fatal(err)
			}
			gen, err := policy.NewGenerator(w, "vllm", policy.GeneratorOptions{Model: "m"})
			if err != nil {
				t.Fatal(err)
			}
			p, err := policy.NewExact(policy.Parts{Generator: gen, Renderer: tmpl, Tokenizer: tok, Family: parsers.Hermes, Model: "m", MaxTokens: 50})
			if err != nil {
				t.Fatal(err)
			}
			s, err := p.Open(nil, policy.Options{})
			if err != nil {
				t.Fatal(err)
			}
			turn, err := first(t, s)
			got, want := string(turn.Finish), want
			if err != nil {
				got = string(errorKind(err))
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
