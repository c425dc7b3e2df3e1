package policy_test

import (
	"strings"
	"testing"

	"hermes/internal/fakellm"
	"hermes/rollout/policy"
	"hermes/rollout/policy/wire"
	"hermes/trajectory"
)

func TestFallback(t *testing.T) {
	_, good := fake(t, fakellm.Options{Default: []fakellm.Turn{{Content: "second", Repeat: true}}})
	bad, dead := fake(t, fakellm.Options{Faults: map[string]float64{"500": 1}})
	_, locked := fake(t, fakellm.Options{Key: "k"})
	quick := wire.Options{Retries: -1}
	const key = "sk-A1b2C3d4E5f6G7h8"
	thief := wire.Options{Keys: []string{key}, Transport: &fixed{`{"choices":[{"index":0,"message":{"content":"` + key + `"},"finish_reason":"stop"}]}`}}
	after, err := policy.NewFallback(policy.FallbackOptions{}, chatAt(t, "http://thief.invalid/v1", thief, policy.ChatOptions{Model: "t"}), chatAt(t, good, quick, policy.ChatOptions{Model: "c"}))
	if err != nil {
		t.Fatal(err)
	}
	if turn, err := next(t, after, policy.Options{}, "x", nil); err != nil || turn.Sampled.Message.Content() != "second" {
		t.Errorf("after a server that answered with the key: %v, %q", err, turn.Sampled.Message.Content())
	}
	list := []policy.Policy{chatAt(t, locked, quick, policy.ChatOptions{Model: "a"}), chatAt(t, dead, quick, policy.ChatOptions{Model: "b"}), chatAt(t, good, quick, policy.ChatOptions{Model: "c"})}
	p, err := policy.NewFallback(policy.FallbackOptions{}, list...)
	if err != nil {
		t.Fatal(err)
	}
	tp := &tape{}
	run := func() (answers string, notes []string) {
		s, err := p.Open(nil, policy.Options{Tape: tp, Notes: func(n string) { notes = append(notes, n) }})
		if err != nil {
			t.Fatal(err)
		}
		tr := trajectory.New(trajectory.ModeText, nil)
		for range 2 {
			answers += ask(t, s, tr, user("x"), nil).Sampled.Message.Content()
		}
		return answers, notes
	}
	answers, notes := run()
	if answers != "secondsecond" || len(notes) != 2 || !strings.Contains(notes[0], "model a to b: model request auth") || len(bad.Entries()) != 1 {
		t.Errorf("%q, notes %q, %d requests at the dead server", answers, notes, len(bad.Entries()))
	}
	tp.next = 0
	if again, notes := run(); again != answers || len(notes) != 1 || !strings.Contains(notes[0], "a to c") || len(bad.Entries()) != 1 {
		t.Errorf("resumed: %q, notes %q", again, notes)
	}
	none, err := policy.NewFallback(policy.FallbackOptions{}, list[:2]...)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := next(t, none, policy.Options{}, "x", nil); errorKind(err) != policy.Unavailable || !strings.Contains(err.Error(), "401") {
		t.Errorf("when all fail: %v", err)
	}
}

func TestBudget(t *testing.T) {
	srv, base := fake(t, fakellm.Options{Default: []fakellm.Turn{{Content: "hello", Repeat: true}}})
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
		p := chatAt(t, base, wire.Options{}, policy.ChatOptions{Budget: b, Price: tt.price})
		tp := &tape{}
		if tt.limits.Time == 0 {
			if turn, err := next(t, p, policy.Options{Tape: tp}, "x", nil); err != nil || turn.Usage.Prompt == 0 || b.Used() != turn.Usage {
				t.Errorf("%s: first %+v, %v, used %+v", tt.word, turn.Usage, err, b.Used())
			}
		}
		before := len(srv.Entries())
		if _, err := next(t, p, policy.Options{}, "y", nil); errorKind(err) != policy.Budget || !strings.Contains(err.Error(), tt.word) || len(srv.Entries()) != before {
			t.Errorf("%s: %v", tt.word, err)
		}
		if tp.next = 0; tt.limits.Time == 0 {
			if _, err := next(t, p, policy.Options{Tape: tp}, "x", nil); err != nil {
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
