// Package exact is the policy of servers that take tokens and return tokens. A
// conversation is rendered and tokenized here, and grows by appending only: no token that
// was sampled is rendered or tokenized again.
//
// [New] proves before anything is spent that template, tokenizer and parser agree, see
// [Prove]. The servers are reached by a [servers.Generator].
//
// Policies are safe for concurrent use; a sampler belongs to one rollout.
package exact

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"hermes/parsers"
	"hermes/parsers/chattemplate"
	"hermes/parsers/tokenizer"
	"hermes/rollout/policy"
	"hermes/rollout/policy/encode"
	"hermes/rollout/policy/servers"
	"hermes/rollout/policy/wire"
	"hermes/trajectory"
)

// Renderer turns messages into the text that a model was trained on. It is safe for
// concurrent use.
type Renderer interface {
	// Prompt renders a whole conversation up to where the model goes on.
	Prompt(msgs []trajectory.Message, tools []trajectory.ToolSpec) ([]chattemplate.Piece, error)
	// Bridge renders only what follows a sampled turn: its closing scaffold, the messages
	// of tail, the next generation prompt. prev is read-only, for look-ups; last is the
	// spelling of the control token that ended the turn, empty if it ended without one.
	// [chattemplate.ErrRewrites]: fork.
	Bridge(prev []trajectory.Message, last string, tail []trajectory.Message, tools []trajectory.ToolSpec) ([]chattemplate.Piece, error)
	// StopTokens are the tokens that end a turn, the usual one first.
	StopTokens(id func(string) (trajectory.Token, bool)) []trajectory.Token
}

// VersionFrom says who tells the version of the weights.
type VersionFrom string

// The sources of versions.
const (
	FromServer VersionFrom = "server"
	FromNone   VersionFrom = "none"
)

// Parts make an exact policy. Generator, Renderer, Tokenizer, Family and Model are needed.
type Parts struct {
	Generator servers.Generator
	Renderer  Renderer
	Tokenizer tokenizer.Tokenizer
	Family    parsers.Family
	Dialect   parsers.Dialect
	Vocab     int                   // rows of the model's output: ids below it that the tokenizer does not know are padding, which has no text; 0: none is
	Ends      []trajectory.Token    // that end a turn beside the template's, as the model's files name them
	Tools     []trajectory.ToolSpec // the run's, for the probe conversation; nil: it has the probe's tool alone

	Model     string
	Context   int             // tokens; 0: unknown
	MaxTokens int             // of one answer, where a rollout's options say nothing; 0: what the context leaves
	Identity  string          // of template and tokenizer: part of every request's digest
	Extra     json.RawMessage // what the generator merges into every request: part of the digest too
	Capture   servers.Capture
	Budget    *policy.Spending
	Price     *policy.Price

	VersionFrom  VersionFrom // empty: the server's, where it tells one
	MaxStaleness int         // versions that the tokens of one rollout may lie apart; 0: any
	Log          *slog.Logger
}

// exact is the policy of a server that takes and returns tokens.
type exact struct {
	Parts
	proof   Proof
	special map[trajectory.Token]string // added tokens: the only markers
	control map[trajectory.Token]bool   // those that text never becomes
	words   map[string]bool             // their spellings that the tokenizer does not mark as special
	spelled []string
	stops   []trajectory.Token

	lowest, highest trajectory.Token // of special: most tokens lie outside
}

// New returns the token-exact policy of one model. It proves on a probe
// conversation that template, tokenizer and parser agree, see [Prove]; the verdict is
// logged.
func New(p Parts) (policy.Policy, error) {
	switch {
	case p.Generator == nil || p.Renderer == nil || p.Tokenizer == nil || p.Family.New == nil:
		return nil, errors.New("exact policy: generator, renderer, tokenizer and family are needed")
	case p.Model == "":
		return nil, errors.New("exact policy: no model")
	case p.MaxStaleness < 0 || p.MaxTokens < 0 || p.Context < 0:
		return nil, fmt.Errorf("exact policy: staleness %d, tokens %d, context %d: none may be negative", p.MaxStaleness, p.MaxTokens, p.Context)
	case p.MaxTokens == 0 && p.Context == 0:
		return nil, errors.New("exact policy: the server does not tell its context length: say how many tokens an answer may have (--max-tokens); servers stop after 16 or 128 otherwise")
	case p.MaxStaleness > 0 && p.VersionFrom == FromNone:
		return nil, errors.New("exact policy: a limit of staleness needs versions of the weights")
	}
	switch p.VersionFrom {
	case "", FromServer, FromNone:
	default:
		return nil, fmt.Errorf("versions from %q: want server or none", p.VersionFrom)
	}
	if p.Log == nil {
		p.Log = slog.New(slog.DiscardHandler)
	}
	e := prepare(p)
	if len(e.stops) == 0 {
		return nil, errors.New("exact policy: none of the template's end tokens is a token of this tokenizer: template and tokenizer do not belong together")
	}
	var err error
	e.proof, err = Prove(p)
	if err != nil {
		return nil, err
	}
	p.Log.Info("token-exact", "proof", e.proof.String())
	return e, nil
}

// prepare looks the special tokens up. Control tokens are those that the tokenizer marks as
// special, and those of the other added tokens that have the shape of a tag and either have
// a bar in it, speak of thinking or tools, or are written by the template: the <tool_call> and
// <think> of many models. Other added words, such as the <table> of Gemma, are ordinary text.
func prepare(p Parts) *exact {
	writes := func(string) bool { return false }
	if r, ok := p.Renderer.(interface{ Writes(spelling string) bool }); ok {
		writes = r.Writes
	}
	e := &exact{Parts: p, special: map[trajectory.Token]string{}, control: map[trajectory.Token]bool{}, words: map[string]bool{}, stops: p.Renderer.StopTokens(p.Tokenizer.ID)}
	for _, s := range p.Tokenizer.Specials() {
		if len(e.special) == 0 {
			e.lowest, e.highest = s.ID, s.ID
		}
		e.lowest, e.highest = min(e.lowest, s.ID), max(e.highest, s.ID)
		e.special[s.ID], e.control[s.ID] = s.Text, s.Special
		if !s.Special && isMark(s.Text) && (speaks.MatchString(s.Text) || writes(s.Text)) {
			e.control[s.ID], e.words[s.Text] = true, true
		}
		e.spelled = append(e.spelled, s.Text)
	}
	for _, id := range p.Ends {
		if _, known := p.Tokenizer.Token(id); known && !slices.Contains(e.stops, id) {
			e.stops = append(e.stops, id)
		}
	}
	return e
}

// speaks fits tags of control: those with a bar, and those that speak of thinking or tools.
var speaks = regexp.MustCompile(`[|｜]|(?i:think|thought|reason|tool|func|call|invoke|param|arg_|response|observation)`)

// isMark reports whether a spelling has the shape of a tag: a sign at either end and a letter
// between them.
func isMark(s string) bool {
	sign := func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !unicode.IsSpace(r) }
	first, _ := utf8.DecodeRuneInString(s)
	last, _ := utf8.DecodeLastRuneInString(s)
	return sign(first) && sign(last) && strings.ContainsFunc(s, unicode.IsLetter)
}

// Info describes the model.
func (e *exact) Info() policy.Info {
	return policy.Info{Model: e.Model, Mode: trajectory.ModeExact, Context: e.Context}
}

// Proof is what New found.
func (e *exact) Proof() Proof { return e.proof }

// Open prepares the sampler of one rollout.
func (e *exact) Open(tools []trajectory.ToolSpec, o policy.Options) (policy.Sampler, error) {
	if o.MaxTokens == 0 {
		o.MaxTokens = e.MaxTokens
	}
	line, err := e.Generator.Open(o, e.stops)
	if err != nil {
		return nil, err
	}
	seed, err := e.identity(tools, o)
	if err != nil {
		return nil, err
	}
	return &sampler{p: e, o: o, key: o.Key.String(), tools: tools, line: line, prompt: newPrompt(seed), cache: map[string][]trajectory.Token{}}, nil
}

// identity is the digest of what makes a request this request, but for its tokens. The
// tools are in it although their tokens are too: they are what the parser reads by.
func (e *exact) identity(tools []trajectory.ToolSpec, o policy.Options) ([32]byte, error) {
	var extra encode.Object
	for _, raw := range []json.RawMessage{e.Extra, o.Extra} {
		if err := extra.Merge(raw); err != nil {
			return [32]byte{}, err
		}
	}
	raw, err := json.Marshal(struct {
		Form, Model, Identity, Family, Dialect, Capture string
		Tools                                           []trajectory.ToolSpec
		MaxTokens                                       int
		Temperature, TopP                               *float64
		TopK                                            *int
		MinP                                            *float64
		Stop                                            []string
		Stops                                           []trajectory.Token
		Extra                                           map[string]json.RawMessage
	}{e.Generator.Form(), e.Model, e.Identity, e.Family.Name, e.Dialect.String(), e.Capture.String(), tools,
		o.MaxTokens, o.Temperature, o.TopP, o.TopK, o.MinP, o.Stop, e.stops, extra.Values})
	if err != nil {
		return [32]byte{}, fmt.Errorf("request options: %w", err)
	}
	d := wire.NewDigest("exact")
	d.Bytes(raw)
	return d.Sum(), nil
}

// limit is how many tokens an answer to n tokens may have.
func (e *exact) limit(o policy.Options, n, written int) (int, error) {
	room := o.MaxTokens - written
	if o.MaxTokens == 0 {
		room = e.Context - n
	} else if e.Context > 0 {
		room = min(room, e.Context-n)
	}
	if room < 1 {
		return 0, &policy.Error{Kind: policy.Overlong, Err: fmt.Errorf("the context of %d tokens is full: %d are in the prompt", e.Context, n)}
	}
	return room, nil
}

// apart is how far two versions are from each other: by the numbers at their ends (7,
// step-7), or one when they only differ.
func apart(a, b string) int {
	name := func(s string) string { return strings.TrimRight(s, "0123456789") }
	x, errX := strconv.Atoi(a[len(name(a)):])
	y, errY := strconv.Atoi(b[len(name(b)):])
	switch {
	case a == b:
		return 0
	case errX != nil || errY != nil || name(a) != name(b):
		return 1
	case x < y:
		return y - x
	}
	return max(x-y, 1) // 07 and 7 are not the same
}
