package policy_test

import (
	"strings"
	"testing"

	"hermes/internal/fakellm"
	"hermes/rollout/policy"
	"hermes/rollout/policy/chat"
	"hermes/rollout/policy/policytest"
	"hermes/rollout/policy/wire"
	"hermes/trajectory"
)

func TestFallback(t *testing.T) {
	_, good := policytest.Fake(t, fakellm.Options{Default: []fakellm.Turn{{Content: "second", Repeat: true}}})
	bad, dead := policytest.Fake(t, fakellm.Options{Faults: map[string]float64{"500": 1}})
	_, locked := policytest.Fake(t, fakellm.Options{Key: "k"})
	quick := wire.Options{Retries: -1}
	const key = "sk-A1b2C3d4E5f6G7h8"
	thief := wire.Options{
		Keys:      []string{key},
		Transport: &policytest.Fixed{Answer: `{"choices":[{"index":0,"message":{"content":"` + key + `"},"finish_reason":"stop"}]}`},
	}
	after, err := policy.NewFallback(policytest.Chat(t, "http://thief.invalid/v1", thief, chat.Options{Model: "t"}),
		policytest.Chat(t, good, quick, chat.Options{Model: "c"}))
	if err != nil {
		t.Fatal(err)
	}
	if turn, err := policytest.Next(t, after, policy.Options{}, "x", nil); err != nil || turn.Sampled.Message.Content() != "second" {
		t.Errorf("after a server that answered with the key: %v, %q", err, turn.Sampled.Message.Content())
	}
	list := []policy.Policy{
		policytest.Chat(t, locked, quick, chat.Options{Model: "a"}),
		policytest.Chat(t, dead, quick, chat.Options{Model: "b"}),
		policytest.Chat(t, good, quick, chat.Options{Model: "c"}),
	}
	p, err := policy.NewFallback(list...)
	if err != nil {
		t.Fatal(err)
	}
	tp := &policytest.Tape{}
	run := func() (answers string, notes []string) {
		s, err := p.Open(nil, policy.Options{Tape: tp, Notes: func(n string) { notes = append(notes, n) }})
		if err != nil {
			t.Fatal(err)
		}
		tr := trajectory.New(trajectory.ModeText, nil)
		for range 2 {
			answers += policytest.Ask(t, s, tr, policytest.User("x"), nil).Sampled.Message.Content()
		}
		return answers, notes
	}
	answers, notes := run()
	if answers != "secondsecond" || len(notes) != 2 || !strings.Contains(notes[0], "model a to b: model request auth") || len(bad.Entries()) != 1 {
		t.Errorf("%q, notes %q, %d requests at the dead server", answers, notes, len(bad.Entries()))
	}
	tp.Next = 0
	if again, notes := run(); again != answers || len(notes) != 1 || !strings.Contains(notes[0], "a to c") || len(bad.Entries()) != 1 {
		t.Errorf("resumed: %q, notes %q", again, notes)
	}
	none, err := policy.NewFallback(list[:2]...)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := policytest.Next(t, none, policy.Options{}, "x", nil); policytest.Kind(err) != policy.Unavailable || !strings.Contains(err.Error(), "401") {
		t.Errorf("when all fail: %v", err)
	}
}

func TestBudget(t *testing.T) {
	srv, base := policytest.Fake(t, fakellm.Options{Default: []fakellm.Turn{{Content: "hello", Repeat: true}}})
	tests := []struct {
		limits policy.Limits
		price  *policy.Price
		word   string
	}{
		{policy.Limits{Tokens: 1}, nil, "tokens"},
		{policy.Limits{USD: 1e-9}, &policy.Price{Prompt: 1, Completion: 2}, "dollars"},
		{policy.Limits{Time: 1}, nil, "passed"},
	}
	for _, tt := range tests {
		b, err := policy.NewBudget(tt.limits)
		if err != nil {
			t.Fatal(err)
		}
		p := policytest.Chat(t, base, wire.Options{}, chat.Options{Budget: b, Price: tt.price})
		tp := &policytest.Tape{}
		if tt.limits.Time == 0 {
			if turn, err := policytest.Next(t, p, policy.Options{Tape: tp}, "x", nil); err != nil || turn.Usage.Prompt == 0 || b.Used() != turn.Usage {
				t.Errorf("%s: first %+v, %v, used %+v", tt.word, turn.Usage, err, b.Used())
			}
		}
		before := len(srv.Entries())
		if _, err := policytest.Next(t, p, policy.Options{}, "y", nil); policytest.Kind(err) != policy.Budget || !strings.Contains(err.Error(), tt.word) ||
			len(srv.Entries()) != before {
			t.Errorf("%s: %v", tt.word, err)
		}
		tp.Next = 0
		if tt.limits.Time == 0 {
			if _, err := policytest.Next(t, p, policy.Options{Tape: tp}, "x", nil); err != nil {
				t.Errorf("%s: a stored answer costs nothing, but: %v", tt.word, err)
			}
		}
	}
	if _, err := policy.NewBudget(policy.Limits{USD: -1}); err == nil {
		t.Error("a negative budget is taken")
	}
}

func TestRoles(t *testing.T) {
	tests := []struct {
		in   string
		want policy.RoleSpec
	}{
		{"judge=m", policy.RoleSpec{Role: policy.Judge, Model: "m"}},
		{"user=org/m@v2@http://h:1/v1", policy.RoleSpec{Role: policy.User, Model: "org/m@v2", Base: "http://h:1/v1"}},
		{"summary=m@https://h", policy.RoleSpec{Role: policy.Summary, Model: "m", Base: "https://h"}},
		{in: "judge"}, {in: "judge="}, {in: "boss=m"}, {in: "judge=@http://h"},
	}
	for _, tt := range tests {
		if got, err := policy.ParseRole(tt.in); got != tt.want || (err == nil) != (tt.want.Model != "") {
			t.Errorf("%q: %+v, %v", tt.in, got, err)
		}
	}
}
