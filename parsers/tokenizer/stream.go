package tokenizer

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"hermes/trajectory"
)

// StreamOptions of an incremental decoder.
type StreamOptions struct {
	SkipSpecial bool // special tokens decode to nothing
}

// Stream decodes token by token. It holds back what later tokens can still change, so it
// never gives out half a character. One goroutine at a time.
type Stream struct {
	e      *engine
	skip   bool
	stages []stage
	out    strings.Builder
	far    *window // decodes elsewhere; then the rest is unused
}

// stage is one decoder of the chain, with its state. feed and finish call yield with what
// is decided.
type stage interface {
	feed(token string, yield func(string))
	finish(yield func(string))
}

// Stream implements [Tokenizer].
func (e *engine) Stream(o StreamOptions) *Stream {
	s := &Stream{e: e, skip: o.SkipSpecial}
	for _, d := range e.decoders {
		s.stages = append(s.stages, d())
	}
	return s
}

// Push takes one token and returns the text that it decided, maybe none. An id outside
// the vocabulary is an error and leaves the stream as it was.
func (s *Stream) Push(id trajectory.Token) (string, error) {
	if s.far != nil {
		return s.far.push(id)
	}
	if err := s.push(id); err != nil {
		return "", err
	}
	return s.flush(), nil
}

// Finish returns the rest; the stream must not be used afterwards.
func (s *Stream) Finish() string {
	if s.far != nil {
		return s.far.finish()
	}
	for i := range s.stages {
		s.stages[i].finish(func(t string) { s.feed(i+1, t) })
	}
	return s.flush()
}

func (s *Stream) flush() string {
	if s.out.Len() == 0 {
		return ""
	}
	text := s.out.String()
	s.out.Reset()
	return text
}

func (s *Stream) push(id trajectory.Token) error {
	text, ok := s.e.shown[id]
	if !ok {
		if text, ok = s.e.Token(id); !ok {
			return fmt.Errorf("decode id %d of %d: %w", id, s.e.size, ErrUnknownID)
		}
	}
	if !s.skip || !s.e.special[id] {
		s.feed(0, text)
	}
	return nil
}

func (s *Stream) feed(i int, token string) {
	if i == len(s.stages) {
		s.out.WriteString(token)
		return
	}
	s.stages[i].feed(token, func(t string) { s.feed(i+1, t) })
}

// bytesStage is the ByteLevel decoder.
type bytesStage struct{ held []byte }

func (b *bytesStage) feed(token string, yield func(string)) {
	if raw, ok := unspell(token); ok {
		token = raw
	}
	if len(b.held) == 0 && utf8.ValidString(token) {
		yield(token)
		return
	}
	var out strings.Builder
	b.held = append([]byte(nil), lossy(&out, append(b.held, token...), false)...)
	if out.Len() > 0 {
		yield(out.String())
	}
}

func (b *bytesStage) finish(yield func(string)) {
	var out strings.Builder
	if lossy(&out, b.held, true); out.Len() > 0 {
		yield(out.String())
	}
}

// fallbackStage joins byte tokens: a run of them is text if all of it is UTF-8, else as
// many U+FFFD, so a run is held until it ends.
type fallbackStage struct{ held []byte }

func (f *fallbackStage) feed(token string, yield func(string)) {
	if b, ok := byteToken(token); ok {
		f.held = append(f.held, b)
		return
	}
	f.finish(yield)
	yield(token)
}

func (f *fallbackStage) finish(yield func(string)) {
	switch {
	case len(f.held) == 0:
	case utf8.Valid(f.held):
		yield(string(f.held))
	default:
		for range f.held {
			yield("\uFFFD")
		}
	}
	f.held = f.held[:0]
}

func byteToken(s string) (byte, bool) {
	if len(s) != 6 || s[:3] != "<0x" || s[5] != '>' {
		return 0, false
	}
	v, err := strconv.ParseUint(strings.TrimPrefix(s[3:5], "+"), 16, 8)
	return byte(v), err == nil
}

// eachStage maps tokens one by one; the first one may be treated differently.
type eachStage struct {
	f    func(token string, first bool) string
	seen bool
}

func (e *eachStage) feed(token string, yield func(string)) {
	first := !e.seen
	e.seen = true
	yield(e.f(token, first))
}

func (e *eachStage) finish(func(string)) {}

// lastStage is the BPEDecoder: a suffix becomes a space, or nothing in the last token.
type lastStage struct {
	suffix string
	held   *string
}

func (l *lastStage) feed(token string, yield func(string)) {
	if l.held != nil {
		yield(strings.ReplaceAll(*l.held, l.suffix, " "))
	}
	l.held = &token
}

func (l *lastStage) finish(yield func(string)) {
	if l.held != nil {
		yield(strings.ReplaceAll(*l.held, l.suffix, ""))
	}
}

// spacedStage stands for no decoder at all: tokens with spaces between.
func spacedStage() stage {
	return &eachStage{f: func(token string, first bool) string {
		if first {
			return token
		}
		return " " + token
	}}
}

// wholeStage maps the whole text at the end.
type wholeStage struct {
	f    func(string) string
	held strings.Builder
}

func (w *wholeStage) feed(token string, _ func(string)) { w.held.WriteString(token) }

func (w *wholeStage) finish(yield func(string)) { yield(w.f(w.held.String())) }

// fusedStrip strips at most start characters from the beginning of a text that comes in parts.
type fusedStrip struct {
	content rune
	left    int
}

func (f *fusedStrip) feed(token string, yield func(string)) {
	for f.left > 0 && token != "" {
		c, n := utf8.DecodeRuneInString(token)
		if c != f.content {
			f.left = 0
			break
		}
		token, f.left = token[n:], f.left-1
	}
	if token != "" {
		yield(token)
	}
}

func (f *fusedStrip) finish(func(string)) {}

// strip is the Strip decoder of one token.
func strip(token string, content rune, start, stop int) string {
	chars := []rune(token)
	from := 0
	for from < min(start, len(chars)) && chars[from] == content {
		from++
	}
	to := len(chars)
	for i := 0; i < stop && to > from && chars[to-1] == content; i++ {
		to--
	}
	return string(chars[from:to])
}
