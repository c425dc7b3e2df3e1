package exact_test

import (
	"strings"
	"testing"

	"hermes/parsers"
	"hermes/parsers/chattemplate"
	"hermes/rollout/policy"
	"hermes/rollout/policy/exact"
	"hermes/rollout/policy/policytest"
	"hermes/rollout/policy/servers"
	"hermes/rollout/policy/wire"
)

// TestLeakedTokens: tokens that spell the key are no answer either, nor is a token-exact server's
// answer that holds it in a field.
func TestLeakedTokens(t *testing.T) {
	const key = "sk-q7/Zx&k+22wt=A1b2C3"
	var ids, plain []int
	for _, b := range []byte("it is " + key) {
		ids = append(ids, int(b))
	}
	for _, b := range []byte("it is none") {
		plain = append(plain, int(b))
	}
	for name, tt := range map[string]struct {
		answer string
		leaked bool
	}{
		"no key":           {policytest.SGLang(`{"type":"stop"}`, `"v"`, plain...), false},
		"in tokens":        {policytest.SGLang(`{"type":"stop"}`, `"v"`, ids...), true},
		"as the version":   {policytest.SGLang(`{"type":"stop"}`, `"`+key+`"`, plain...), true},
		"beside the stops": {policytest.SGLang(`{"type":"stop","matched":"`+key+`"}`, `"v"`, plain...), true},
	} {
		w, err := wire.New(wire.Options{
			Bases:     []string{"http://judge.invalid/v1"},
			Transport: &policytest.Fixed{Answer: tt.answer},
			Keys:      []string{key},
			KeyNames:  []string{"MY_KEY"},
		})
		if err != nil {
			t.Fatal(err)
		}
		defer w.Close()
		tmpl, tok := policytest.ChatML(t, chattemplate.Options{})
		gen, err := servers.New(w, "sglang", servers.Options{Model: "m"})
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
		if tt.leaked != (policytest.Kind(err) == policy.Leaked) || !tt.leaked && turn.Sampled.Message.Content() != "it is none" {
			t.Errorf("%s: %v, %q", name, err, turn.Sampled.Message.Content())
		}
		if err != nil && strings.Contains(err.Error(), key) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
