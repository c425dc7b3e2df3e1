// Package words is a small tokenizer for tests: a token is a known word, a special token
// or one byte, so that a person can read the ids and every text comes back as it was.
package words

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"hermes/parsers/tokenizer"
	"hermes/trajectory"
)

// Tokenizer implements [tokenizer.Tokenizer]: ids below 256 are bytes, then come the words
// in their order, then the special tokens. It does not change and is safe for concurrent
// use.
type Tokenizer struct {
	spellings []string // of the ids from 256 on
	ids       map[string]trajectory.Token
	specials  int // how many of spellings, at the end
	// starting are the words that begin with a byte, the longest first; opening, the
	// special tokens in their order.
	starting, opening [256][]entry
}

// entry is a spelling with its id, side by side: they are looked through for each token.
type entry struct {
	text string
	id   trajectory.Token
}

const firstWord = 256

// New makes a tokenizer of words and special tokens. An empty spelling, or one that occurs
// twice or is a single byte, is an error.
func New(list, specials []string) (*Tokenizer, error) {
	t := &Tokenizer{spellings: slices.Concat(list, specials), ids: map[string]trajectory.Token{}, specials: len(specials)}
	for i, w := range t.spellings {
		if _, twice := t.ids[w]; twice || len(w) < 2 {
			return nil, fmt.Errorf("words: spelling %d, %q, is there twice or shorter than two bytes", i, w)
		}
		id := trajectory.Token(firstWord + i)
		t.ids[w] = id
		if i < len(list) {
			t.starting[w[0]] = append(t.starting[w[0]], entry{w, id})
		} else {
			t.opening[w[0]] = append(t.opening[w[0]], entry{w, id})
		}
	}
	for _, list := range t.starting {
		slices.SortStableFunc(list, func(a, b entry) int { return len(b.text) - len(a.text) })
	}
	return t, nil
}

func (t *Tokenizer) special(id trajectory.Token) bool {
	return int(id) >= firstWord+len(t.spellings)-t.specials && int(id) < t.Size()
}

// Encode takes the longest known word at each place, else one byte. Add changes nothing.
func (t *Tokenizer) Encode(text string, o tokenizer.Options) ([]trajectory.Token, error) {
	out := make([]trajectory.Token, 0, len(text)/3+1)
	for text != "" {
		id, n := t.next(text, o.Special)
		out, text = append(out, id), text[n:]
	}
	return out, nil
}

func (t *Tokenizer) next(text string, special bool) (trajectory.Token, int) {
	if special {
		for _, e := range t.opening[text[0]] {
			if strings.HasPrefix(text, e.text) {
				return e.id, len(e.text)
			}
		}
	}
	if len(text) == 1 {
		return trajectory.Token(text[0]), 1
	}
	for _, e := range t.starting[text[0]] {
		if e.text[1] == text[1] && strings.HasPrefix(text, e.text) { // most differ there
			return e.id, len(e.text)
		}
	}
	return trajectory.Token(text[0]), 1
}

func (t *Tokenizer) spelling(id trajectory.Token) string { return t.spellings[id-firstWord] }

// Decode implements [tokenizer.Coder]; bytes that are no text become U+FFFD.
func (t *Tokenizer) Decode(ids []trajectory.Token) (string, error) {
	b := make([]byte, 0, 4*len(ids))
	for _, id := range ids {
		switch {
		case id >= firstWord && int(id) < t.Size():
			b = append(b, t.spelling(id)...)
		case id >= 0 && id < firstWord:
			b = append(b, byte(id))
		default:
			return "", t.unknown(id)
		}
	}
	if utf8.Valid(b) {
		return string(b), nil
	}
	return t.Stream(tokenizer.StreamOptions{}).All(ids)
}

// Stream implements [tokenizer.Coder].
func (t *Tokenizer) Stream(o tokenizer.StreamOptions) *tokenizer.Stream {
	return tokenizer.NewByteStream(func(id trajectory.Token) (string, error) {
		if o.SkipSpecial && t.special(id) {
			return "", nil
		}
		s, ok := t.Token(id)
		if !ok {
			return "", t.unknown(id)
		}
		return s, nil
	})
}

func (t *Tokenizer) unknown(id trajectory.Token) error {
	return fmt.Errorf("decode id %d of %d: %w", id, t.Size(), tokenizer.ErrUnknownID)
}

// ID implements [tokenizer.Tokenizer].
func (t *Tokenizer) ID(token string) (trajectory.Token, bool) {
	if len(token) == 1 {
		return trajectory.Token(token[0]), true
	}
	id, ok := t.ids[token]
	return id, ok
}

// Token implements [tokenizer.Tokenizer].
func (t *Tokenizer) Token(id trajectory.Token) (string, bool) {
	switch {
	case id < 0 || int(id) >= t.Size():
		return "", false
	case id < firstWord:
		return string([]byte{byte(id)}), true
	}
	return t.spelling(id), true
}

// Size implements [tokenizer.Tokenizer].
func (t *Tokenizer) Size() int { return firstWord + len(t.spellings) }

// Specials implements [tokenizer.Tokenizer].
func (t *Tokenizer) Specials() []tokenizer.Special {
	var out []tokenizer.Special
	for _, s := range t.spellings[len(t.spellings)-t.specials:] {
		out = append(out, tokenizer.Special{ID: t.ids[s], Text: s, Special: true})
	}
	return out
}
