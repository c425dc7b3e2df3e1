package policy

import (
	"fmt"
	"net/url"
	"strings"
)

// Profile is how servers of one kind differ from the rest. The zero value is a plain
// OpenAI-compatible server.
type Profile struct {
	Name      string
	MaxTokens string // the name of the limit; empty: max_tokens
	Reasoning string // the field in which earlier reasoning is sent back; empty: none
	Learn     bool   // send reasoning back in the field in which it came
	Effort    string // how effort is asked for: a name, or "reasoning.effort"
	Routing   bool   // takes provider routing and tells costs when asked
	Cache     string // prompts are cached where they are marked: "claude" for such models, "asked" when told to
	Metrics   bool   // may have /metrics with the length of its queue
	Local     bool   // usually without a key
}

// Profiles lists the kinds of servers that hermes knows.
func Profiles() []Profile {
	return []Profile{
		{Name: "generic", Learn: true, Cache: cacheAsked, Metrics: true},
		{Name: "openai", MaxTokens: "max_completion_tokens"},
		{Name: "openrouter", Reasoning: "reasoning", Effort: "reasoning.effort", Routing: true, Cache: cacheClaude},
		{Name: "vllm", Reasoning: "reasoning_content", Learn: true, Metrics: true, Local: true},
		{Name: "sglang", Reasoning: "reasoning_content", Learn: true, Metrics: true, Local: true},
		{Name: "llamacpp", Reasoning: "reasoning_content", Learn: true, Metrics: true, Local: true},
		{Name: "ollama", Reasoning: "reasoning", Learn: true, Local: true},
	}
}

// ProfileNamed returns the profile of that name; "chat" and "" are generic.
func ProfileNamed(name string) (Profile, error) {
	if name == "" || name == "chat" {
		name = "generic"
	}
	var have []string
	for _, p := range Profiles() {
		if p.Name == name {
			return p, nil
		}
		have = append(have, p.Name)
	}
	return Profile{}, fmt.Errorf("server profile %q (have %s)", name, strings.Join(have, ", "))
}

// ProfileOf guesses the kind of a server from its address.
func ProfileOf(base string) Profile {
	name := "generic"
	u, err := url.Parse(base)
	if err == nil {
		host := strings.ToLower(u.Hostname())
		switch {
		case host == "api.openai.com" || strings.HasSuffix(host, ".openai.azure.com"):
			name = "openai"
		case host == "openrouter.ai" || strings.HasSuffix(host, ".openrouter.ai"):
			name = "openrouter"
		case u.Port() == "11434" || host == "ollama.com":
			name = "ollama"
		case u.Port() == "30000":
			name = "sglang"
		}
	}
	p, _ := ProfileNamed(name)
	return p
}

// profileOwned guesses it from owned_by in the list of models.
func profileOwned(owner string) (Profile, bool) {
	name := map[string]string{"vllm": "vllm", "sglang": "sglang", "llamacpp": "llamacpp", "llama.cpp": "llamacpp", "library": "ollama"}[owner]
	if name == "" {
		return Profile{}, false
	}
	p, err := ProfileNamed(name)
	return p, err == nil
}

// Routing chooses providers behind OpenRouter: the --provider-* flags.
type Routing struct {
	Order             []string `json:"order,omitempty"`
	Only              []string `json:"only,omitempty"`
	Ignore            []string `json:"ignore,omitempty"`
	Sort              string   `json:"sort,omitempty"`            // price, throughput, latency
	DataCollection    string   `json:"data_collection,omitempty"` // allow, deny
	RequireParameters bool     `json:"require_parameters,omitempty"`
}

func (r Routing) empty() bool {
	return len(r.Order)+len(r.Only)+len(r.Ignore) == 0 && r.Sort == "" && r.DataCollection == "" && !r.RequireParameters
}

func (r Routing) check() error {
	switch r.Sort {
	case "", "price", "throughput", "latency":
	default:
		return fmt.Errorf("provider sort %q (want price, throughput or latency)", r.Sort)
	}
	switch r.DataCollection {
	case "", "allow", "deny":
	default:
		return fmt.Errorf("provider data collection %q (want allow or deny)", r.DataCollection)
	}
	return nil
}
