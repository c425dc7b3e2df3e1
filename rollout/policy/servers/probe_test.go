package servers_test

import (
	"strings"
	"testing"

	"hermes/internal/fakellm"
	"hermes/rollout/policy"
	"hermes/rollout/policy/chat"
	"hermes/rollout/policy/policytest"
	"hermes/rollout/policy/servers"
	"hermes/rollout/policy/wire"
	"hermes/trajectory"
)

func TestProbe(t *testing.T) {
	_, single := policytest.Fake(t, fakellm.Options{Models: []string{"only"}, Key: "right"})
	_, several := policytest.Fake(t, fakellm.Options{Models: []string{"b", "a"}})
	tests := []struct {
		name, base, key, model, want string
		kind                         policy.ErrorKind
		text                         string
	}{
		{name: "known", base: several, model: "a", want: "a"},
		{name: "the only one", base: single, key: "right", model: servers.Auto, want: "only"},
		{name: "wrong key", base: single, key: "wrong", model: "only", kind: policy.Auth},
		{name: "unknown", base: several, model: "c", kind: policy.NoModel, text: `"c"; it offers a, b`},
		{name: "auto among many", base: several, model: servers.Auto, kind: policy.NoModel, text: "2 models"},
		{name: "no server", base: "http://127.0.0.1:1/v1", model: "x", kind: policy.Unavailable},
	}
	for _, tt := range tests {
		w, err := wire.New(wire.Options{Bases: []string{tt.base}, Keys: strings.Fields(tt.key)})
		if err != nil {
			t.Fatal(err)
		}
		f, err := servers.Probe(t.Context(), w, tt.model)
		w.Close()
		if policytest.Kind(err) != tt.kind || (err == nil && f.Model != tt.want) || (tt.text != "" && !strings.Contains(err.Error(), tt.text)) ||
			(err != nil && tt.key != "" && strings.Contains(err.Error(), tt.key+"\"")) {
			t.Errorf("%s: %+v, %v", tt.name, f, err)
		}
	}
	found, err := servers.Discover(t.Context(), []string{"http://127.0.0.1:1/v1", several}, wire.Options{})
	if err != nil || len(found) != 1 || found[0].Base != several || len(found[0].Models) != 2 || found[0].Model != "" {
		t.Errorf("found %+v, %v", found, err)
	}
	if _, err := servers.Discover(t.Context(), []string{"http://127.0.0.1:1/v1"}, wire.Options{}); policytest.Kind(err) != policy.Unavailable ||
		!strings.Contains(err.Error(), "--base-url") {
		t.Errorf("nothing found: %v", err)
	}
}

func TestProfiles(t *testing.T) {
	temp := 1.0
	tests := []struct {
		profile string
		co      chat.Options
		has     []string
	}{
		{"openai", chat.Options{}, []string{`"max_completion_tokens":5`, `"reasoning_effort":"low"`}},
		{"vllm", chat.Options{}, []string{`"max_tokens":5`, `"temperature":1`}},
		{"openrouter", chat.Options{Routing: chat.Routing{Order: []string{"a", "b"}, Sort: "price", DataCollection: "deny", RequireParameters: true}},
			[]string{
				`"reasoning":{"effort":"low"}`,
				`"usage":{"include":true}`,
				`"provider":{"order":["a","b"],"sort":"price","data_collection":"deny","require_parameters":true}`,
			}},
	}
	for _, tt := range tests {
		p, err := servers.Named(tt.profile)
		if err != nil {
			t.Fatal(err)
		}
		m := policytest.Serve(t, policytest.Hello)
		tt.co.Profile = &p
		s, err := policytest.Chat(t, m.URL+"/v1", wire.Options{}, tt.co).Open(nil, policy.Options{MaxTokens: 5, ReasoningEffort: "low", Temperature: &temp})
		if err != nil {
			t.Fatal(err)
		}
		policytest.Ask(t, s, trajectory.New(trajectory.ModeText, nil), policytest.User("x"), nil)
		for _, part := range tt.has {
			if !strings.Contains(m.Sent()[0], part) {
				t.Errorf("%s: %s lacks %s", tt.profile, m.Sent()[0], part)
			}
		}
	}
	for base, want := range map[string]string{
		"https://api.openai.com/v1":    "openai",
		"https://openrouter.ai/api/v1": "openrouter",
		"http://localhost:11434/v1":    "ollama",
		"http://x:8000/v1":             "generic",
	} {
		if got := servers.Guess(base).Name; got != want {
			t.Errorf("%s is %s, want %s", base, got, want)
		}
	}
}
