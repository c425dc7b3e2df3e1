package policy

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"hermes/rollout/policy/wire"
	"hermes/trajectory"
)

// Generator reaches servers that take tokens and return tokens. It is safe for
// concurrent use.
type Generator interface {
	// Open prepares the requests of one rollout: what does not change is encoded once.
	Open(o Options, stops []trajectory.Token) (Line, error)
	// Form names the wire form; it is part of a request's digest, because a stored answer
	// can be read in its own form only.
	Form() string
}

// Line asks for one rollout; it is used by one goroutine at a time.
type Line interface {
	// Generate returns what follows the prompt. An answer whose tokens, log-probs and
	// prompt cannot be trusted to the last one is an *Error of kind Inexact.
	Generate(ctx context.Context, p Prompt, a Ask) (Completion, error)
}

// Prompt is the growing sequence of one rollout.
type Prompt interface {
	Len() int                // tokens
	IDs() []trajectory.Token // a copy
	// Body makes readers of a request: head, the ids as a JSON list without its brackets, tail.
	Body(head, tail []byte) func() wire.Body
}

// Ask is what differs from request to request.
type Ask struct {
	Limit  int     // tokens to write at most; above 0
	Seed   *uint64 // nil: none is sent
	Digest [32]byte
	Taped  bool // answer from the tape or not at all
}

// Completion is what a server sampled. LogProbs are natural logarithms, one a token.
type Completion struct {
	Tokens   []trajectory.Token
	LogProbs []float32
	Masked   []trajectory.Run  // tokens whose log-prob the server does not tell: 0 there
	Finish   trajectory.Finish // stop, length, filter or aborted
	Version  string            // of the weights; empty: not reported
	Versions []trajectory.Span // of the weights, where they changed within the answer; nil: not reported
	Model    string
	Prompt   int                // tokens of the prompt as the server counts them; -1: not reported
	Echo     []trajectory.Token // the prompt as the server read it; nil: not reported
	Cached   int64
	Top      []top   // with a capture: the likeliest tokens at each place
	Experts  experts // likewise
	Took     time.Duration
	Replayed bool
}

// top is one of the likeliest tokens at a place.
type top struct {
	id      trajectory.Token
	logProb float32
}

// experts are the experts to which tokens were routed, as the server encodes them: rows
// of raw numbers, one for each token of prompt and answer but the last.
type experts struct {
	raw   []byte
	dtype string
	row   []int // the shape of one row; nil: not reported
}

// form is how servers of one kind are asked. A request is an object: head, the prompt's
// ids under the key prompt, then what changes from request to request.
type form struct {
	name, path    string
	prompt, limit string // the keys of the prompt and of the limit
	nested        bool   // limit and sampling options stand in sampling_params
	seed          string // the key of the seed; empty: none is sent
	stops         string // the key of the ids that end an answer; empty: the server's own
	salt          string // the key that separates prefix caches; empty: none
	model         bool   // the model's name is sent
	fixed         string // further fields, as JSON members
	sampling      string // further sampling options, as JSON members
	neutral       string // options that change no distribution, as JSON members: what nobody named is sent so
	capture       func(c Capture, body, sampling *object) error
	read          func(raw []byte, want Capture) (Completion, error)
	start         string // how to start a server whose answers lack tokens or log-probs
}

// GeneratorOptions describe the servers behind a client.
type GeneratorOptions struct {
	Model   string
	ByGroup bool            // a group's rollouts share a replica
	Extra   json.RawMessage // a JSON object merged into every request
	Salt    string          // separates prefix caches; empty: none
	Capture Capture
	Budget  *Spending
}

// NewGenerator returns the generator of a wire form: sglang, vllm, vllm-completions or
// llamacpp.
func NewGenerator(w *wire.Client, name string, o GeneratorOptions) (Generator, error) {
	var have []string
	for _, f := range []*form{sglangForm(), vllmForm(), vllmCompletionsForm(), llamacppForm()} {
		if f.name != name {
			have = append(have, f.name)
			continue
		}
		if !o.Capture.empty() && f.capture == nil {
			return nil, fmt.Errorf("capture %s: the wire form %s returns nothing of the kind", o.Capture, name)
		}
		if o.Salt != "" && f.salt == "" {
			return nil, fmt.Errorf("cache salt: the wire form %s has none", name)
		}
		if f.model && o.Model == "" {
			return nil, fmt.Errorf("wire form %s: no model", name)
		}
		return &server{w: w, form: f, o: o}, nil
	}
	return nil, fmt.Errorf("wire form %q for tokens (have %s)", name, strings.Join(have, ", "))
}

// server is a Generator over HTTP.
type server struct {
	w    *wire.Client
	form *form
	o    GeneratorOptions
}

// Form names the wire form.
func (s *server) Form() string { return s.form.name }

// Leaks are the keys that no answer may hold.
func (s *server) Leaks() *wire.Leaks { return s.w.Leaks() }

// line holds the parts of a rollout's requests that do not change.
type line struct {
	s          *server
	o          Options
	key        string
	route      *wire.Route
	head, tail []byte
}

// Open encodes everything but the prompt, the limit and the seed.
func (s *server) Open(o Options, stops []trajectory.Token) (Line, error) {
	body, sampling := &object{}, &object{}
	if s.form.model {
		if err := body.set("model", s.o.Model); err != nil {
			return nil, err
		}
	}
	if s.o.Salt != "" {
		if err := body.set(s.form.salt, s.o.Salt); err != nil {
			return nil, err
		}
	}
	into := body
	if s.form.nested {
		into = sampling
	}
	for _, members := range []string{s.form.neutral, s.form.sampling} {
		if err := into.merge(json.RawMessage("{" + members + "}")); err != nil {
			return nil, err
		}
	}
	if err := body.merge(json.RawMessage("{" + s.form.fixed + "}")); err != nil {
		return nil, err
	}
	if err := s.sampling(into, o, stops); err != nil {
		return nil, err
	}
	if s.form.capture != nil && !s.o.Capture.empty() {
		if err := s.form.capture(s.o.Capture, body, sampling); err != nil {
			return nil, err
		}
	}
	if err := s.extra(body, sampling, o.Extra); err != nil {
		return nil, err
	}
	l := &line{s: s, o: o, key: o.Key.String(), route: wire.NewRoute(routeKey(o, s.o.ByGroup))}
	l.head = body.open(s.form.prompt)
	l.tail = []byte("]")
	if s.form.nested {
		l.tail = sampling.members(append(l.tail, `,"sampling_params":{`...))
	} else {
		l.tail = append(l.tail, ',')
	}
	l.tail = append(trajectory.AppendQuoted(l.tail, s.form.limit), ':')
	return l, nil
}

func routeKey(o Options, byGroup bool) string {
	if byGroup && o.Group != "" {
		return o.Group
	}
	return o.Key.String()
}

// sampling sets the options that a user gave over the neutral ones. Both are always sent: a
// server's own defaults, or its model's generation_config, would sample from a distribution
// that is not the one whose log-probs are recorded.
func (s *server) sampling(into *object, o Options, stops []trajectory.Token) error {
	list := []struct {
		key   string
		value any
		send  bool
	}{
		{"temperature", o.Temperature, o.Temperature != nil},
		{"top_p", o.TopP, o.TopP != nil},
		{"top_k", o.TopK, o.TopK != nil && *o.TopK > 0}, // servers spell "all" in different ways
		{"min_p", o.MinP, o.MinP != nil},
		{"stop", o.Stop, len(o.Stop) > 0},
		{s.form.stops, stops, s.form.stops != "" && len(stops) > 0},
	}
	for _, f := range list {
		if f.send {
			if err := into.set(f.key, f.value); err != nil {
				return err
			}
		}
	}
	return nil
}

// extra merges what the user adds. The prompt and what hermes decides by itself cannot
// be replaced.
func (s *server) extra(body, sampling *object, own json.RawMessage) error {
	for _, raw := range []json.RawMessage{s.o.Extra, own} {
		var add object
		if err := add.merge(raw); err != nil {
			return err
		}
		for _, k := range add.keys {
			switch {
			case k == s.form.prompt || k == s.form.limit || k == "n" || k == "stream":
				return fmt.Errorf("extra body: %q is set by the exact policy itself", k)
			case k == "sampling_params" && s.form.nested:
				if err := sampling.merge(add.values[k]); err != nil {
					return err
				}
			default:
				if err := body.set(k, add.values[k]); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// body is a fresh reader of one request.
func (l *line) body(p Prompt, a Ask) func() wire.Body {
	tail := strconv.AppendInt(slices.Clip(l.tail), int64(a.Limit), 10)
	if f := l.s.form; a.Seed != nil && f.seed != "" {
		tail = append(trajectory.AppendQuoted(append(tail, ','), f.seed), ':')
		tail = strconv.AppendUint(tail, *a.Seed, 10)
	}
	if l.s.form.nested {
		tail = append(tail, '}')
	}
	tail = append(tail, '}')
	return p.Body(l.head, tail)
}

// Generate asks once, with the wire's retries.
func (l *line) Generate(ctx context.Context, p Prompt, a Ask) (Completion, error) {
	f := l.s.form
	var c Completion
	var began time.Time
	r := &wire.Request{Path: f.path, Body: l.body(p, a), Digest: a.Digest, Key: l.key, Route: l.route,
		Tape: l.o.Tape, Notes: l.o.Notes, Admit: l.s.o.Budget.Admit, Taped: a.Taped}
	got, err := l.s.w.Do(ctx, r, func(ctx context.Context, d wire.Doer) error {
		began = time.Now()
		raw, err := d.Whole(ctx)
		if err != nil {
			return err
		}
		if raw, err = unwrap(raw); err != nil {
			return err
		}
		c, err = f.read(raw, l.s.o.Capture)
		if err != nil {
			return err
		}
		return c.check(p, f, l.s.o.Capture)
	})
	if err != nil {
		return Completion{}, err
	}
	c.Took, c.Replayed = time.Since(began), got.Replayed
	return c, nil
}

// unwrap takes an answer out of the strings in which gateways wrap it, and tells an
// error that came under a status of 200.
func unwrap(raw []byte) ([]byte, error) {
	for range 4 {
		raw = bytes.TrimSpace(raw)
		if len(raw) == 0 || raw[0] != '"' {
			break
		}
		var inner string
		if err := json.Unmarshal(raw, &inner); err != nil {
			return nil, malformed("the answer is no JSON: %v", err)
		}
		raw = []byte(inner)
	}
	if len(raw) == 0 || raw[0] != '{' && raw[0] != '[' {
		return nil, malformed("the answer is no JSON object: %.200q", raw)
	}
	var e struct {
		Error json.RawMessage `json:"error"`
	}
	if raw[0] == '{' && bytes.Contains(raw[:min(len(raw), 4096)], []byte(`"error"`)) && json.Unmarshal(raw, &e) == nil && present(e.Error) {
		return nil, wire.Classify(http.StatusOK, nil, raw, time.Time{})
	}
	return raw, nil
}

// CheckChat compares the answer of a chat server, which made the prompt itself, with itself.
func (c *Completion) CheckChat() error {
	return c.check(nil, &form{name: "chat", start: "the server must honour logprobs"}, Capture{})
}

// check compares an answer with the prompt and with itself.
func (c *Completion) check(p Prompt, f *form, want Capture) error {
	switch {
	case p == nil: // a chat server made the prompt
	case c.Prompt >= 0 && c.Prompt != p.Len():
		return inexact("%s: the server counts %d tokens in the prompt, %d were sent: it does not answer to this prompt (does it add a token at the beginning?)", f.name, c.Prompt, p.Len())
	case c.Echo != nil && !slices.Equal(c.Echo, p.IDs()):
		return inexact("%s: the server's prompt differs from the one that was sent at token %d", f.name, FirstDifference(c.Echo, p.IDs()))
	}
	switch {
	case c.Finish == trajectory.FinishAborted && len(c.Tokens) == 0:
		return &Error{Kind: Unavailable, Err: fmt.Errorf("%s: the server aborted the request before its first token", f.name)}
	case len(c.Tokens) == 0:
		return malformed("%s: the answer holds no tokens", f.name)
	case len(c.LogProbs) != len(c.Tokens):
		return inexact("%s: %d tokens but %d log-probs; %s", f.name, len(c.Tokens), len(c.LogProbs), f.start)
	}
	for i, v := range c.LogProbs {
		if v != v || v > 1e-3 || v < -1e30 {
			return inexact("%s: log-prob %d is %v, where a finite number up to 0 should stand", f.name, i, v)
		}
	}
	for i, id := range c.Tokens {
		if id < 0 {
			return inexact("%s: token %d is %d", f.name, i, id)
		}
	}
	if want.TopK > 0 && len(c.Top) != want.TopK*len(c.Tokens) {
		return inexact("%s: %d of the likeliest tokens for %d places, want %d each", f.name, len(c.Top), len(c.Tokens), want.TopK)
	}
	if want.Experts && len(c.Experts.raw) == 0 {
		return inexact("%s: the answer has no routed experts; start the server with --enable-return-routed-experts", f.name)
	}
	return nil
}

// FirstDifference is the first place at which two lists differ: the length of the shorter one
// where they do not.
func FirstDifference(a, b []trajectory.Token) int {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return i
		}
	}
	return min(len(a), len(b))
}
