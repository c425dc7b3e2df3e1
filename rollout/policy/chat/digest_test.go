package chat_test

import (
	"encoding/json"
	"regexp"
	"slices"
	"testing"

	"hermes/rollout/policy"
	"hermes/rollout/policy/chat"
	"hermes/rollout/policy/policytest"
	"hermes/rollout/policy/servers"
	"hermes/rollout/policy/wire"
	"hermes/trajectory"
)

// digests makes two turns and returns what was asked under which digests.
func digests(t *testing.T, m *policytest.Model, key string, co chat.Options, o policy.Options) [][32]byte {
	t.Helper()
	w, err := wire.New(wire.Options{Bases: []string{m.URL + "/v1"}, Keys: []string{key}})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	if co.Model == "" {
		co.Model = "m"
	}
	p, err := chat.New(w, co)
	if err != nil {
		t.Fatal(err)
	}
	tp := &policytest.Tape{}
	o.Tape = tp
	s, err := p.Open([]trajectory.ToolSpec{{Name: "ls", Parameters: json.RawMessage(`{}`)}}, o)
	if err != nil {
		t.Fatal(err)
	}
	tr := trajectory.New(trajectory.ModeText, nil)
	policytest.Ask(t, s, tr, policytest.User("one"), nil)
	policytest.Ask(t, s, tr, policytest.User("two"), nil)
	return tp.Digests
}

// A digest depends on model, messages, tools, options and turn; never on address, key,
// server profile, stream or the rollout's name.
func TestDigest(t *testing.T) {
	seed := uint64(1)
	other := uint64(2)
	half := 0.5
	profile := func(name string) *servers.Profile {
		p, err := servers.Named(name)
		if err != nil {
			t.Fatal(err)
		}
		return &p
	}
	base := policy.Options{Seed: &seed, MaxTokens: 5, Key: trajectory.NewKey("a", 0, 0, 0)}
	want := digests(t, policytest.Serve(t, policytest.Hello), "k1", chat.Options{}, base)
	if len(want) != 2 || want[0] == want[1] {
		t.Fatalf("digests of two turns: %x", want)
	}
	named := base
	named.Key = trajectory.NewKey("b", 0, 0, 0)
	named.Group = "g"
	named.Attempt = 3
	same := map[string][][32]byte{
		"key and name":   digests(t, policytest.Serve(t, policytest.Hello), "k2", chat.Options{ByGroup: true}, named),
		"openai":         digests(t, policytest.Serve(t, policytest.Hello), "", chat.Options{Profile: profile("openai")}, base),
		"openrouter":     digests(t, policytest.Serve(t, policytest.Hello), "", chat.Options{Profile: profile("openrouter")}, base),
		"stream":         digests(t, policytest.Serve(t, policytest.Hello), "", chat.Options{Stream: true}, base),
		"max tokens run": digests(t, policytest.Serve(t, policytest.Hello), "", chat.Options{MaxTokens: 5}, policy.Options{Seed: &seed}),
	}
	for name, got := range same {
		if !slices.Equal(got, want) {
			t.Errorf("%s changes the digests", name)
		}
	}
	differ := map[string]func(*chat.Options, *policy.Options){
		"model":       func(c *chat.Options, _ *policy.Options) { c.Model = "other" },
		"seed":        func(_ *chat.Options, o *policy.Options) { o.Seed = &other },
		"temperature": func(_ *chat.Options, o *policy.Options) { o.Temperature = &half },
		"stop":        func(_ *chat.Options, o *policy.Options) { o.Stop = []string{"x"} },
		"extra":       func(c *chat.Options, _ *policy.Options) { c.Extra = json.RawMessage(`{"x":1}`) },
	}
	for name, change := range differ {
		co, o := chat.Options{}, base
		change(&co, &o)
		got := digests(t, policytest.Serve(t, policytest.Hello), "", co, o)
		if got[0] == want[0] || got[1] == want[1] {
			t.Errorf("%s does not change the digests", name)
		}
	}
}

func TestSeedsOfTurns(t *testing.T) {
	seed := uint64(1<<63 + 5)
	find := regexp.MustCompile(`"seed":(\d+)}$`)
	run := func() []string {
		m := policytest.Serve(t, policytest.Hello)
		digests(t, m, "", chat.Options{}, policy.Options{Seed: &seed})
		var list []string
		for _, b := range m.Sent() {
			list = append(list, find.FindStringSubmatch(b)[1])
		}
		return list
	}
	a, b := run(), run()
	if !slices.Equal(a, b) || a[0] == a[1] || len(a[0]) > 10 {
		t.Errorf("seeds %v and %v", a, b)
	}
}

func TestChatOptionsAreChecked(t *testing.T) {
	w, err := wire.New(wire.Options{Bases: []string{"http://h/v1"}})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	for name, o := range map[string]chat.Options{
		"no model":           {},
		"extra is no object": {Model: "m", Extra: json.RawMessage(`[1]`)},
		"extra messages":     {Model: "m", Extra: json.RawMessage(`{"messages":[]}`)},
		"routing elsewhere":  {Model: "m", Routing: chat.Routing{Only: []string{"x"}}},
		"odd sort":           {Model: "m", Routing: chat.Routing{Sort: "x"}},
	} {
		if _, err := chat.New(w, o); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
}
