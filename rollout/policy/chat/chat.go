// Package chat asks servers that render, sample and parse by themselves: text mode, over
// OpenAI's chat completions. [New] returns the policy of one model, [NewIDs] the one of a
// server that also returns the token ids of its answers.
//
// An answer is put together leniently, from one document or from a stream, because servers
// differ in nearly every field. What cannot be read without a guess is an error of the
// server, never a fault of the model.
//
// Policies are safe for concurrent use; a sampler belongs to one rollout.
package chat

import (
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"hermes/rollout/policy"
	"hermes/rollout/policy/encode"
	"hermes/rollout/policy/servers"
	"hermes/rollout/policy/wire"
	"hermes/trajectory"
)

// Options describe a chat policy. Model is needed; the rest has good zero values.
type Options struct {
	Model     string
	Profile   *servers.Profile // nil: guessed from the first base URL
	Stream    bool             // always; else only when somebody watches
	Context   int              // tokens; 0: unknown
	Images    bool             // the model sees images
	Blind     bool             // it is known not to: images are replaced by a note
	Cache     PromptCache      // marks for prompts that are kept
	ByGroup   bool             // a group's rollouts share a replica
	Routing   Routing          // OpenRouter's providers
	Extra     json.RawMessage  // a JSON object merged into every request
	Budget    *policy.Spending // shared by the run; nil: none
	Price     *policy.Price    // for servers that tell no cost; nil: unknown
	MaxTokens int              // of one answer, where a rollout's options say nothing
	Calls     Unread           // what calls look like that the server left in the text
	Blob      func(hash string) ([]byte, error)
}

// chat is the policy of a server that parses its model's text itself.
type chat struct {
	w       *wire.Client
	o       Options
	profile servers.Profile
	marker  json.RawMessage // for prompt caches; nil: none
	neutral json.RawMessage // sampling options that are sent where none are set; not part of a request's identity

	mu    sync.Mutex
	heads map[[32]byte]*heads // by identity: rollouts with the same tools share them
}

// heads are the beginnings of all requests of a kind of rollout.
type heads struct{ plain, stream []byte }

// maxHeads bounds the cache, for runs in which each row has its own tools.
const maxHeads = 256

// New returns the text-mode policy of one model behind w.
func New(w *wire.Client, o Options) (policy.Policy, error) {
	if o.Model == "" {
		return nil, errors.New("chat policy: no model")
	}
	if err := o.Routing.check(); err != nil {
		return nil, fmt.Errorf("chat policy: %w", err)
	}
	p := &chat{w: w, o: o, heads: map[[32]byte]*heads{}}
	if o.Profile != nil {
		p.profile = *o.Profile
	} else {
		p.profile = servers.Guess(w.Bases()[0])
	}
	if !o.Routing.empty() && !p.profile.Routing {
		return nil, fmt.Errorf("chat policy: provider routing needs OpenRouter, not %s", p.profile.Name)
	}
	var err error
	p.marker, err = o.Cache.marker(p.profile, o.Model)
	if err != nil {
		return nil, fmt.Errorf("chat policy: %w", err)
	}
	return p, (&encode.Object{}).Merge(o.Extra)
}

// Info describes the model.
func (p *chat) Info() policy.Info {
	return policy.Info{Model: p.o.Model, Mode: trajectory.ModeText, Context: p.o.Context, Images: p.o.Images}
}

// Open prepares the sampler of one rollout: everything of a request but its messages is
// encoded here, once.
func (p *chat) Open(tools []trajectory.ToolSpec, o policy.Options) (policy.Sampler, error) {
	if o.MaxTokens == 0 {
		o.MaxTokens = p.o.MaxTokens
	}
	route := o.Key.String()
	if p.o.ByGroup && o.Group != "" {
		route = o.Group
	}
	s := &sampler{p: p, o: o, tools: tools, key: o.Key.String(), route: wire.NewRoute(route)}
	s.enc = encoder{reasoning: p.profile.Reasoning, blob: p.o.Blob, blind: p.o.Blind, marker: p.marker}
	s.body.sum = wire.NewDigest("")
	var err error
	s.body.seed, err = p.identity(tools, o)
	if err != nil {
		return nil, err
	}
	s.heads, err = p.shared(s.body.seed, tools, o)
	return s, err
}

// shared returns the heads of an identity.
func (p *chat) shared(id [32]byte, tools []trajectory.ToolSpec, o policy.Options) (*heads, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if h := p.heads[id]; h != nil {
		return h, nil
	}
	plain, err := p.head(tools, o, false)
	if err != nil {
		return nil, err
	}
	stream, err := p.head(tools, o, true)
	if err != nil {
		return nil, err
	}
	if len(p.heads) >= maxHeads {
		clear(p.heads)
	}
	p.heads[id] = &heads{plain, stream}
	return p.heads[id], nil
}

// wireTool is a tool as it is sent to the model.
type wireTool struct {
	Type     string              `json:"type"`
	Function trajectory.ToolSpec `json:"function"`
}

// head encodes everything that comes before the messages.
func (p *chat) head(tools []trajectory.ToolSpec, o policy.Options, stream bool) ([]byte, error) {
	var b encode.Object
	if err := b.Merge(p.neutral); err != nil {
		return nil, err
	}
	list := []struct {
		key   string
		value any
		send  bool
	}{
		{"model", p.o.Model, true},
		{"stream", true, stream},
		{"stream_options", map[string]bool{"include_usage": true}, stream},
		{"tools", wireTools(tools), len(tools) > 0},
		{or(p.profile.MaxTokens, "max_tokens"), o.MaxTokens, o.MaxTokens > 0},
		{"temperature", o.Temperature, o.Temperature != nil},
		{"top_p", o.TopP, o.TopP != nil},
		{"top_k", o.TopK, o.TopK != nil},
		{"min_p", o.MinP, o.MinP != nil},
		{"stop", o.Stop, len(o.Stop) > 0},
		{"reasoning_effort", o.ReasoningEffort, o.ReasoningEffort != "" && p.profile.Effort == ""},
		{"reasoning", map[string]string{"effort": o.ReasoningEffort}, o.ReasoningEffort != "" && p.profile.Effort != ""},
		{"usage", map[string]bool{"include": true}, p.profile.Routing},
		{"cache_control", p.marker, p.marker != nil},
		{"provider", p.o.Routing, !p.o.Routing.empty()},
	}
	for _, f := range list {
		if f.send {
			if err := b.Set(f.key, f.value); err != nil {
				return nil, err
			}
		}
	}
	for _, extra := range []json.RawMessage{p.o.Extra, o.Extra} {
		if err := b.Merge(extra); err != nil {
			return nil, err
		}
	}
	return b.Head(), nil
}

func or(s, other string) string {
	if s == "" {
		return other
	}
	return s
}

func wireTools(tools []trajectory.ToolSpec) []wireTool {
	list := make([]wireTool, len(tools))
	for i, t := range tools {
		list[i] = wireTool{"function", t}
	}
	return list
}

// identity is the digest of what makes a request this request, but for messages and
// turn. Address, key, profile and names of runs are not in it.
func (p *chat) identity(tools []trajectory.ToolSpec, o policy.Options) ([32]byte, error) {
	var extra encode.Object
	for _, raw := range []json.RawMessage{p.o.Extra, o.Extra} {
		if err := extra.Merge(raw); err != nil {
			return [32]byte{}, err
		}
	}
	raw, err := json.Marshal(struct {
		Model             string
		Tools             []trajectory.ToolSpec
		MaxTokens         int
		Temperature, TopP *float64
		TopK              *int
		MinP              *float64
		Stop              []string
		Effort            string
		Extra             map[string]json.RawMessage
		Routing           Routing
	}{p.o.Model, tools, o.MaxTokens, o.Temperature, o.TopP, o.TopK, o.MinP, o.Stop, o.ReasoningEffort, extra.Values, p.o.Routing})
	if err != nil {
		return [32]byte{}, fmt.Errorf("request options: %w", err)
	}
	d := wire.NewDigest("chat")
	d.Bytes(raw)
	return d.Sum(), nil
}
