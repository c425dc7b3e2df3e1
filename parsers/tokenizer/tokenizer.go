// Package tokenizer turns text into the token ids of a model and back, exactly as the
// model's own tokenizer does: tokenizer.json with byte-level, Metaspace or byte-fallback
// BPE, tiktoken rank files, SentencePiece BPE models. What it cannot read exactly it
// refuses by name.
package tokenizer

import (
	"errors"
	"fmt"
	"strings"

	"hermes/trajectory"
)

// Options says how text is read.
type Options struct {
	Special bool // special tokens spelled in the text are those tokens; otherwise they are text
	Add     bool // add what the model expects around a sequence (its post-processor)
	// Text holds spellings of added tokens that are no special ones and are text all the
	// same. A tokenizer that cannot do so refuses texts that spell one, with ErrUnsupported.
	Text map[string]bool
}

// Spelled is a spelling of Text that occurs in text, or "".
func (o Options) Spelled(text string) string {
	for s, on := range o.Text {
		if on && strings.Contains(text, s) {
			return s
		}
	}
	return ""
}

// Special is an added token.
type Special struct {
	ID      trajectory.Token
	Text    string
	Special bool // false for added words that are ordinary text
}

// Coder turns text into ids and back: what a model server's tokenizer can do too. It is
// safe for concurrent use.
type Coder interface {
	// Encode fails only where a pattern backtracks beyond its budget or a symbol is not
	// covered by the vocabulary and its unknown token does not exist.
	Encode(text string, o Options) ([]trajectory.Token, error)
	// Decode keeps special tokens as text. Ids outside the vocabulary are an error.
	Decode(ids []trajectory.Token) (string, error)
	// Stream starts an incremental decoder; its outputs joined equal Decode.
	Stream(o StreamOptions) *Stream
}

// Tokenizer is a [Coder] that knows its vocabulary. It is safe for concurrent use.
type Tokenizer interface {
	Coder
	// ID finds a token by its spelling in the vocabulary, added tokens first.
	ID(token string) (trajectory.Token, bool)
	// Token is the inverse of ID.
	Token(id trajectory.Token) (string, bool)
	// Size is one more than the largest id.
	Size() int
	// Specials lists the added tokens by id.
	Specials() []Special
}

// Errors that callers distinguish.
var (
	ErrUnsupported = errors.New("not supported by this tokenizer reader")
	ErrMalformed   = errors.New("malformed tokenizer file")
	ErrUnknownID   = errors.New("token id outside the vocabulary")
)

func unsupported(format string, a ...any) error {
	return fmt.Errorf("%s: %w", fmt.Sprintf(format, a...), ErrUnsupported)
}

func malformed(format string, a ...any) error {
	return fmt.Errorf("%w: %s", ErrMalformed, fmt.Sprintf(format, a...))
}

// engine is the one implementation: added tokens, normalizer, pre-tokenizer, model, decoder.
type engine struct {
	raw, normed *matcher // added tokens matched before and after the normalizer
	special     map[trajectory.Token]bool
	added       map[trajectory.Token]Special
	addedID     map[string]trajectory.Token
	shown       map[trajectory.Token]string // what an added token decodes to where not its text
	normal      []normalizer
	grown       growth // by normal
	pre         []splitter
	model       *bpe
	before      []trajectory.Token
	after       []trajectory.Token
	decoders    []func() stage
	size        int
}

// Encode implements [Tokenizer].
func (e *engine) Encode(text string, o Options) ([]trajectory.Token, error) {
	r := &run{e: e, out: make([]trajectory.Token, 0, len(text)/3+8), special: o.Special, text: o.Text}
	if o.Add {
		r.out = append(r.out, e.before...)
	}
	r.chain()
	r.scratch = e.model.scratch()
	defer e.model.release(r.scratch)
	e.raw.split(text, o.Special, o.Text, func(start, end int, id trajectory.Token) {
		if id >= 0 {
			r.out = append(r.out, id)
		} else {
			r.piece(text[start:end], start == 0)
		}
	})
	if r.err != nil {
		return nil, fmt.Errorf("encode text of %d bytes: %w", len(text), r.err)
	}
	if o.Add {
		r.out = append(r.out, e.after...)
	}
	return r.out, nil
}

// run is one call of Encode.
type run struct {
	e       *engine
	out     []trajectory.Token
	scratch *scratch
	special bool
	text    map[string]bool
	err     error
	stages  []stageRun // of the pre-tokenizers, each at work on one piece at a time
}

// stageRun is the state of one pre-tokenizer.
type stageRun struct {
	first bool // its next piece begins the input
	yield func(piece string)
}

// chain makes the stages, each passing its pieces to the next.
func (r *run) chain() {
	r.stages = make([]stageRun, len(r.e.pre))
	for i := range r.stages {
		s := &r.stages[i]
		s.yield = func(piece string) {
			first := s.first
			s.first = false
			if piece != "" {
				r.split(i+1, piece, first)
			}
		}
	}
}

// piece encodes text between added tokens. first says that it begins the input.
func (r *run) piece(text string, first bool) {
	if text == "" || r.err != nil {
		return
	}
	for _, n := range r.e.normal {
		text, first, r.err = n.apply(text, first)
		if r.err != nil {
			return
		}
	}
	r.e.normed.split(text, r.special, r.text, func(start, end int, id trajectory.Token) {
		if id >= 0 {
			r.out = append(r.out, id)
		} else if start < end {
			r.split(0, text[start:end], first && start == 0)
		}
	})
}

func (r *run) split(stage int, text string, first bool) {
	if stage == len(r.e.pre) {
		if r.err == nil {
			r.out, r.err = r.e.model.encode(r.out, text, r.scratch)
		}
		return
	}
	r.stages[stage].first = first
	err := r.e.pre[stage].split(text, first, r.stages[stage].yield)
	if err != nil && r.err == nil {
		r.err = err
	}
}

// Decode implements [Tokenizer].
func (e *engine) Decode(ids []trajectory.Token) (string, error) {
	return e.Stream(StreamOptions{}).All(ids)
}

// ID implements [Tokenizer].
func (e *engine) ID(token string) (trajectory.Token, bool) {
	if id, ok := e.addedID[token]; ok {
		return id, true
	}
	return e.model.id(token)
}

// Token implements [Tokenizer].
func (e *engine) Token(id trajectory.Token) (string, bool) {
	if s, ok := e.added[id]; ok {
		return s.Text, true
	}
	return e.model.token(id)
}

// Size implements [Tokenizer].
func (e *engine) Size() int { return e.size }
