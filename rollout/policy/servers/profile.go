package servers

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
	Cache     string // prompts are cached where they are marked: a Cache… constant
	Metrics   bool   // may have /metrics with the length of its queue
}

// How servers of a kind keep prompts: the values of Profile.Cache beside "", for those that
// do so by themselves.
const (
	CacheAsked  = "asked"  // where the user asks for it
	CacheClaude = "claude" // for Claude's models, and where the user asks for it
)

// Profiles lists the kinds of servers that hermes knows.
func Profiles() []Profile {
	return []Profile{
		{Name: "generic", Learn: true, Cache: CacheAsked, Metrics: true},
		{Name: "openai", MaxTokens: "max_completion_tokens"},
		{Name: "openrouter", Reasoning: "reasoning", Effort: "reasoning.effort", Routing: true, Cache: CacheClaude},
		{Name: "vllm", Reasoning: "reasoning_content", Learn: true, Metrics: true},
		{Name: "sglang", Reasoning: "reasoning_content", Learn: true, Metrics: true},
		{Name: "llamacpp", Reasoning: "reasoning_content", Learn: true, Metrics: true},
		{Name: "ollama", Reasoning: "reasoning", Learn: true},
	}
}

// Named returns the profile of that name; "chat" and "" are generic.
func Named(name string) (Profile, error) {
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

// Guess guesses the kind of a server from its address.
func Guess(base string) Profile {
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
	p, _ := Named(name)
	return p
}

// profileOwned guesses it from owned_by in the list of models.
func profileOwned(owner string) (Profile, bool) {
	name := map[string]string{"vllm": "vllm", "sglang": "sglang", "llamacpp": "llamacpp", "llama.cpp": "llamacpp", "library": "ollama"}[owner]
	if name == "" {
		return Profile{}, false
	}
	p, err := Named(name)
	return p, err == nil
}
