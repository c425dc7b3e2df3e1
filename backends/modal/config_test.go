package modal_test

import (
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"hermes/backends/modal"
	"hermes/configs"
)

// TestConfig refuses what cannot work before anything is asked, and says what is wrong.
func TestConfig(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ section, want string }{
		{"server: http://modal.example", "http is for this machine's loopback only"},
		{"server: http://127.0.0.1.example", "http is for this machine's loopback only"},
		{"server: 'https://user:password@modal.example'", "holds a user or password"},
		{"server: modal.example", "want https://HOST[:PORT]"},
		{"linger: 1s", "linger 1s"},
		{"profiles: {A B: {}}", `profile "A B"`},
		{"profiles: {a: {}, b: {}}", "say with use: which one"},
		{"{use: c, profiles: {a: {}, b: {}}}", `use "c": no profile or class of that name (have a, b)`},
		{"network: host", `network "host": none of none, open, allow-list`},
		{"network: allow-list", "an allow-list needs some"},
		{"allow: [a.example]", "an allow-list needs some, and the others have none"},
		{"gpu: 'T4:0'", "want TYPE or TYPE:COUNT"},
		{"registry-user-env: A", "belong together"},
		{"timeout: 30s", "timeout 30s"},
		{"timeout: 25h", "want 1m to 24h"},
		{"memory: 1000", "memory limit of 1000 bytes"},
		{"cpus: -1", "limits of -1 cores"},
		{"max: -1", "negative"},
		{"home: relative", `home "relative" is not a clean absolute path`},
		{"program: /", `program "/"`},
		{"setup: [COPY a b]", "there is no COPY"},
		{"app: 'a b'", `app "a b"`},
		{"profiles: {a: {class: 'A'}}", `class "A"`},
		{"token: secret", "run.yaml:1: unknown key token in backends.modal"},
		{"{}", "variable MODAL_TOKEN_ID is not set"}, // all else is right
		{"{network: allow-list, allow: [a.example, 10.0.0.0/8], profiles: {a: {network: none}}}", "variable MODAL_TOKEN_ID is not set"},
	} {
		var doc yaml.Node
		if err := yaml.Unmarshal([]byte(tt.section), &doc); err != nil {
			t.Fatal(err)
		}
		_, err := modal.Kind(modal.Surroundings{}).Open(t.Context(), configs.Section{Name: "backends.modal", File: "run.yaml", Node: doc.Content[0]})
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", tt.section, err, tt.want)
		}
	}
}
