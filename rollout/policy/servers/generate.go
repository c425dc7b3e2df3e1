package servers

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

	"hermes/rollout/policy"
	"hermes/rollout/policy/encode"
	"hermes/rollout/policy/loose"
	"hermes/rollout/policy/wire"
	"hermes/trajectory"
)

// form is how servers of one kind are asked. A request is an object: head, the prompt's
// ids under the key prompt, then what changes from request to request.
type form struct {
	name, path    string
	prompt, limit string // the keys of the prompt and of the limit
	nested        bool   // limit and sampling options are in sampling_params
	seed          string // the key of the seed; empty: none is sent
	stops         string // the key of the ids that end an answer; empty: the server's own
	salt          string // the key that separates prefix caches; empty: none
	model         bool   // the model's name is sent
	fixed         string // further fields, as JSON members
	sampling      string // further sampling options, as JSON members
	neutral       string // options that change no distribution, as JSON members: sent where none are set
	capture       func(c Capture, body, sampling *encode.Object) error
	read          func(raw []byte, want Capture) (Completion, error)
	start         string // how to start a server whose answers lack tokens or log-probs
}

// Options describe the servers behind a client.
type Options struct {
	Model   string
	ByGroup bool            // a group's rollouts share a replica
	Extra   json.RawMessage // a JSON object merged into every request
	Salt    string          // separates prefix caches; empty: none
	Capture Capture
	Budget  *policy.Spending
}

// New returns the generator of a wire form.
func New(w *wire.Client, name string, o Options) (Generator, error) {
	var have []string
	for _, f := range []*form{sglangForm(), vllmForm(), vllmCompletionsForm(), llamacppForm()} {
		if f.name != name {
			have = append(have, f.name)
			continue
		}
		if !o.Capture.Empty() && f.capture == nil {
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
	o    Options
}

// Form names the wire form.
func (s *server) Form() string { return s.form.name }

// Leaks are the keys that no answer may hold.
func (s *server) Leaks() *wire.Leaks { return s.w.Leaks() }

// line holds the parts of a rollout's requests that do not change.
type line struct {
	s          *server
	o          policy.Options
	key        string
	route      *wire.Route
	head, tail []byte
}

// Open encodes everything but the prompt, the limit and the seed.
func (s *server) Open(o policy.Options, stops []trajectory.Token) (Line, error) {
	body, sampling := &encode.Object{}, &encode.Object{}
	if s.form.model {
		if err := body.Set("model", s.o.Model); err != nil {
			return nil, err
		}
	}
	if s.o.Salt != "" {
		if err := body.Set(s.form.salt, s.o.Salt); err != nil {
			return nil, err
		}
	}
	into := body
	if s.form.nested {
		into = sampling
	}
	for _, members := range []string{s.form.neutral, s.form.sampling} {
		if err := into.Merge(json.RawMessage("{" + members + "}")); err != nil {
			return nil, err
		}
	}
	if err := body.Merge(json.RawMessage("{" + s.form.fixed + "}")); err != nil {
		return nil, err
	}
	if err := s.sampling(into, o, stops); err != nil {
		return nil, err
	}
	if s.form.capture != nil && !s.o.Capture.Empty() {
		if err := s.form.capture(s.o.Capture, body, sampling); err != nil {
			return nil, err
		}
	}
	if err := s.extra(body, sampling, o.Extra); err != nil {
		return nil, err
	}
	l := &line{s: s, o: o, key: o.Key.String(), route: wire.NewRoute(routeKey(o, s.o.ByGroup))}
	l.head = body.Open(s.form.prompt)
	l.tail = []byte("]")
	if s.form.nested {
		l.tail = sampling.Members(append(l.tail, `,"sampling_params":{`...))
	} else {
		l.tail = append(l.tail, ',')
	}
	l.tail = append(trajectory.AppendQuoted(l.tail, s.form.limit), ':')
	return l, nil
}

func routeKey(o policy.Options, byGroup bool) string {
	if byGroup && o.Group != "" {
		return o.Group
	}
	return o.Key.String()
}

// sampling sets the options that a user gave over the neutral ones. Both are always sent: a
// server's own defaults, or its model's generation_config, would sample from a distribution
// that is not the one whose log-probs are recorded.
func (s *server) sampling(into *encode.Object, o policy.Options, stops []trajectory.Token) error {
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
			if err := into.Set(f.key, f.value); err != nil {
				return err
			}
		}
	}
	return nil
}

// extra merges what the user adds. The prompt and what hermes decides by itself cannot
// be replaced.
func (s *server) extra(body, sampling *encode.Object, own json.RawMessage) error {
	for _, raw := range []json.RawMessage{s.o.Extra, own} {
		var add encode.Object
		if err := add.Merge(raw); err != nil {
			return err
		}
		for _, k := range add.Keys {
			switch {
			case k == s.form.prompt || k == s.form.limit || k == "n" || k == "stream":
				return fmt.Errorf("extra body: %q is set by the exact policy itself", k)
			case k == "sampling_params" && s.form.nested:
				if err := sampling.Merge(add.Values[k]); err != nil {
					return err
				}
			default:
				if err := body.Set(k, add.Values[k]); err != nil {
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
		raw, err = unwrap(raw)
		if err != nil {
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
			return nil, policy.Malformedf("the answer is no JSON: %v", err)
		}
		raw = []byte(inner)
	}
	if len(raw) == 0 || raw[0] != '{' && raw[0] != '[' {
		return nil, policy.Malformedf("the answer is no JSON object: %.200q", raw)
	}
	var e struct {
		Error json.RawMessage `json:"error"`
	}
	if raw[0] == '{' && bytes.Contains(raw[:min(len(raw), 4096)], []byte(`"error"`)) && json.Unmarshal(raw, &e) == nil && loose.Present(e.Error) {
		return nil, wire.Classify(http.StatusOK, nil, raw, time.Time{})
	}
	return raw, nil
}
