//go:build hftokenizers && cgo

package hf

// #cgo LDFLAGS: -L${SRCDIR}/../../../build/hftokenizers
import "C"

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/daulet/tokenizers"

	"hermes/parsers/tokenizer"
	"hermes/trajectory"
)

// Available tells whether this build has the library.
const Available = true

// maxFile bounds a tokenizer.json, in bytes.
const maxFile = 256 << 20

// library implements [tokenizer.Tokenizer].
type library struct {
	special *tokenizers.Tokenizer // spelled special tokens are tokens
	plain   *tokenizers.Tokenizer // they are text
	tokens  map[trajectory.Token]string
	ids     map[string]trajectory.Token
	added   []tokenizer.Special
	size    int
}

// Load reads a tokenizer.json, or the one in a folder. The library's memory is freed with
// the tokenizer.
func Load(path string) (tokenizer.Tokenizer, error) {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		path = filepath.Join(path, "tokenizer.json")
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("load tokenizer: %w", err)
	}
	if info.Size() > maxFile {
		return nil, fmt.Errorf("load tokenizer %s: %d bytes, more than %d", path, info.Size(), maxFile)
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("load tokenizer: %w", err)
	}
	t, err := FromJSON(raw)
	if err != nil {
		return nil, fmt.Errorf("load tokenizer %s: %w", path, err)
	}
	return t, nil
}

// FromJSON reads a tokenizer.json. Truncation and padding that it declares are not applied.
func FromJSON(raw []byte) (tokenizer.Tokenizer, error) {
	var file map[string]json.RawMessage
	if err := json.Unmarshal(raw, &file); err != nil {
		return nil, fmt.Errorf("%w: %w", tokenizer.ErrMalformed, err)
	}
	delete(file, "truncation")
	delete(file, "padding")
	clean, err := json.Marshal(file)
	if err != nil {
		return nil, err
	}
	l := &library{tokens: map[trajectory.Token]string{}, ids: map[string]trajectory.Token{}}
	if err := l.vocabulary(file); err != nil {
		return nil, fmt.Errorf("%w: %w", tokenizer.ErrMalformed, err)
	}
	l.special, err = tokenizers.FromBytes(clean)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", tokenizer.ErrMalformed, err)
	}
	l.plain, err = tokenizers.FromBytes(clean, tokenizers.WithEncodeSpecialTokens())
	if err != nil {
		return nil, fmt.Errorf("%w: %w", tokenizer.ErrMalformed, err)
	}
	for _, t := range []*tokenizers.Tokenizer{l.special, l.plain} {
		runtime.AddCleanup(l, func(t *tokenizers.Tokenizer) { _ = t.Close() }, t)
	}
	return l, nil
}

// vocabulary reads what the binding does not tell: spellings, and which tokens are special.
func (l *library) vocabulary(file map[string]json.RawMessage) error {
	var model struct{ Vocab json.RawMessage }
	if err := json.Unmarshal(file["model"], &model); err != nil {
		return fmt.Errorf("model: %w", err)
	}
	var byName map[string]trajectory.Token
	if json.Unmarshal(model.Vocab, &byName) == nil {
		for s, id := range byName {
			l.put(id, s)
		}
	} else { // Unigram: a list of [spelling, score]
		var list [][2]json.RawMessage
		if err := json.Unmarshal(model.Vocab, &list); err != nil {
			return fmt.Errorf("model.vocab: %w", err)
		}
		for i, e := range list {
			var s string
			if err := json.Unmarshal(e[0], &s); err != nil {
				return fmt.Errorf("model.vocab: %w", err)
			}
			l.put(trajectory.Token(i), s)
		}
	}
	var added []struct {
		ID      trajectory.Token
		Content string
		Special bool
	}
	if raw := file["added_tokens"]; raw != nil {
		if err := json.Unmarshal(raw, &added); err != nil {
			return fmt.Errorf("added_tokens: %w", err)
		}
	}
	for _, a := range added {
		l.put(a.ID, a.Content)
		l.added = append(l.added, tokenizer.Special{ID: a.ID, Text: a.Content, Special: a.Special})
	}
	slices.SortFunc(l.added, func(a, b tokenizer.Special) int { return cmp.Compare(a.ID, b.ID) })
	return nil
}

func (l *library) put(id trajectory.Token, s string) {
	l.tokens[id], l.ids[s] = s, id
	l.size = max(l.size, int(id)+1)
}

// Encode implements [tokenizer.Coder]. The binding hands texts over as C strings: one with
// a NUL byte is [tokenizer.ErrUnsupported], not cut.
func (l *library) Encode(text string, o tokenizer.Options) ([]trajectory.Token, error) {
	if strings.IndexByte(text, 0) >= 0 {
		return nil, fmt.Errorf("encode a text with a NUL byte: the bound library cuts it there: %w", tokenizer.ErrUnsupported)
	}
	if s := o.Spelled(text); s != "" {
		return nil, fmt.Errorf("encode a text that spells %q, which is to stay text: the bound library knows it as a token: %w", s, tokenizer.ErrUnsupported)
	}
	t := l.plain
	if o.Special {
		t = l.special
	}
	e, err := t.EncodeWithOptionsErr(text, o.Add)
	runtime.KeepAlive(l)
	if err != nil {
		return nil, fmt.Errorf("encode text of %d bytes: %w", len(text), err)
	}
	out := make([]trajectory.Token, len(e.IDs))
	for i, id := range e.IDs {
		out[i] = trajectory.Token(id)
	}
	return out, nil
}

// Decode implements [tokenizer.Coder].
func (l *library) Decode(ids []trajectory.Token) (string, error) { return l.decode(ids, false) }

func (l *library) decode(ids []trajectory.Token, skip bool) (string, error) {
	list := make([]uint32, len(ids))
	for i, id := range ids {
		s, ok := l.tokens[id]
		if !ok {
			return "", fmt.Errorf("decode id %d of %d: %w", id, l.size, tokenizer.ErrUnknownID)
		}
		if strings.ContainsAny(s, "\x00Ā") || s == "<0x00>" { // Ā spells the byte 0
			return "", fmt.Errorf("decode id %d, %q: the bound library cuts texts at a NUL byte: %w", id, s, tokenizer.ErrUnsupported)
		}
		list[i] = uint32(id)
	}
	text, err := l.special.DecodeErr(list, skip)
	runtime.KeepAlive(l)
	if err != nil {
		return "", fmt.Errorf("decode %d ids: %w", len(ids), err)
	}
	return text, nil
}

// Stream implements [tokenizer.Coder].
func (l *library) Stream(o tokenizer.StreamOptions) *tokenizer.Stream {
	return tokenizer.NewStream(func(ids []trajectory.Token) (string, error) { return l.decode(ids, o.SkipSpecial) })
}

// ID implements [tokenizer.Tokenizer].
func (l *library) ID(token string) (trajectory.Token, bool) {
	id, ok := l.ids[token]
	return id, ok
}

// Token implements [tokenizer.Tokenizer].
func (l *library) Token(id trajectory.Token) (string, bool) {
	s, ok := l.tokens[id]
	return s, ok
}

// Size implements [tokenizer.Tokenizer].
func (l *library) Size() int { return l.size }

// Specials implements [tokenizer.Tokenizer].
func (l *library) Specials() []tokenizer.Special { return slices.Clone(l.added) }
