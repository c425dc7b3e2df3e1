package chat

import (
	"encoding/json"
	"fmt"
	"strings"

	"hermes/rollout/policy/servers"
)

// PromptCache says how long servers that want prompts marked keep them: "" or "auto" (5
// minutes, where server and model are known to want it), "off", "5m" or "1h".
type PromptCache string

// marker is the cache_control of a request, or nil where none is sent. On the request as
// a whole it covers the conversation up to its last message and moves on with it; on the
// system message it covers tools and system prompt, which all rollouts share.
func (c PromptCache) marker(p servers.Profile, model string) (json.RawMessage, error) {
	switch c {
	case "", "auto":
		if p.Cache != servers.CacheClaude || !strings.Contains(strings.ToLower(model), "claude") {
			return nil, nil
		}
		return json.RawMessage(`{"type":"ephemeral"}`), nil
	case "off":
		return nil, nil
	case "5m", "1h":
	default:
		return nil, fmt.Errorf("prompt cache %q: want auto, off, 5m or 1h", string(c))
	}
	if p.Cache == "" {
		return nil, fmt.Errorf("prompt cache %s: %s keeps prompts by itself and takes no markers", c, p.Name)
	}
	if c == "5m" {
		return json.RawMessage(`{"type":"ephemeral"}`), nil
	}
	return json.RawMessage(`{"type":"ephemeral","ttl":"1h"}`), nil
}
