package policy_test

import (
	"strings"
	"testing"

	"hermes/parsers"
	"hermes/parsers/chattemplate"
	"hermes/rollout/policy"
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
		"no key":           {sgl(`{"type":"stop"}`, `"v"`, plain...), false},
		"in tokens":        {sgl(`{"type":"stop"}`, `"v"`, ids...), true},
		"as the version":   {sgl(`{"type":"stop"}`, `"`+key+`"`, plain...), true},
		"beside the stops": {sgl(`{"type":"stop","matched":"`+key+`"}`, `"v"`, plain...), true},
	} {
		w, err := wire.New(wire.Options{Bases: []string{"http://judge.invalid/v1"}, Transport: &fixed{tt.answer}, Keys: []string{key}, KeyNames: []string{"MY_KEY"}})
		if err != nil {
			t.Fatal(err)
		}
		defer w.Close()
		tmpl, tok := chatML(t, chattemplate.Options{})
		gen, err := policy.NewGenerator(w, "sglang", policy.GeneratorOptions{Model: "m"})
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
		if tt.leaked != (errorKind(err) == policy.Leaked) || !tt.leaked && turn.Sampled.Message.Content() != "it is none" {
			t.Errorf("%s: %v, %q", name, err, turn.Sampled.Message.Content())
		}
		if err != nil && strings.Contains(err.Error(), key) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
