package tokenizer

import (
	"errors"
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
	spell func(trajectory.Token) (string, error)
	first func(string) // of the chain of stages
	ends  []func()     // that finish each stage
	only  stage        // in place of a chain: most tokenizers have one stage
	last  func(string) // takes what it decides
	out   strings.Builder
	one   string  // in place of out as long as it is one piece
	far   *window // decodes elsewhere; then the rest is unused
}

// stage is one decoder of the chain, with its state. feed and finish call yield with what
// is decided.
type stage interface {
	feed(token string, yield func(string))
	finish(yield func(string))
}

// Stream implements [Tokenizer].
func (e *engine) Stream(o StreamOptions) *Stream {
	stages := make([]stage, len(e.decoders))
	for i, d := range e.decoders {
		stages[i] = d()
	}
	return chained(func(id trajectory.Token) (string, error) {
		text, ok := e.shown[id]
		if !ok {
			text, ok = e.Token(id)
			if !ok {
				return "", fmt.Errorf("decode id %d of %d: %w", id, e.size, ErrUnknownID)
			}
		}
		if o.SkipSpecial && e.special[id] {
			return "", errSkipped
		}
		return text, nil
	}, stages)
}

// NewByteStream makes an incremental decoder for tokens that stand for bytes, each for
// itself: spell returns those of a token, none for one that is skipped. Bytes that are no
// text become U+FFFD, one for each maximal subpart. A token costs its own bytes.
func NewByteStream(spell func(trajectory.Token) (string, error)) *Stream {
	return alone(spell, &bytesStage{raw: true})
}

// errSkipped is the error of a token that is not decoded at all, unlike one that is empty.
var errSkipped = errors.New("skipped")

func alone(spell func(trajectory.Token) (string, error), only stage) *Stream {
	s := &Stream{spell: spell, only: only}
	s.last = s.write
	return s
}

// chained makes the functions between the stages once, not for each token.
func chained(spell func(trajectory.Token) (string, error), stages []stage) *Stream {
	if len(stages) == 1 {
		return alone(spell, stages[0])
	}
	s := &Stream{spell: spell, ends: make([]func(), len(stages))}
	s.first = s.write
	for i := len(stages) - 1; i >= 0; i-- {
		next := s.first
		s.first = func(t string) { stages[i].feed(t, next) }
		s.ends[i] = func() { stages[i].finish(next) }
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
	for _, end := range s.ends {
		end()
	}
	if s.only != nil {
		s.only.finish(s.last)
	}
	return s.flush()
}

// write takes what the last stage has decided. Most often it is one piece, which is not
// copied.
func (s *Stream) write(text string) {
	switch {
	case s.out.Len() > 0:
	case s.one == "":
		s.one = text
		return
	default:
		s.out.WriteString(s.one)
		s.one = ""
	}
	s.out.WriteString(text)
}

func (s *Stream) flush() string {
	text := s.one
	if s.out.Len() > 0 {
		text = s.out.String()
		s.out.Reset()
	}
	s.one = ""
	return text
}

// All decodes a whole sequence, on a stream that was not used before and is not used
// afterwards.
func (s *Stream) All(ids []trajectory.Token) (string, error) {
	if s.far != nil {
		return s.far.decode(ids)
	}
	s.out.Grow(4 * len(ids))
	for _, id := range ids {
		if err := s.push(id); err != nil {
			return "", err
		}
	}
	return s.Finish(), nil
}

func (s *Stream) push(id trajectory.Token) error {
	text, err := s.spell(id)
	if errors.Is(err, errSkipped) {
		return nil
	}
	switch {
	case err != nil:
		return err
	case s.only != nil:
		s.only.feed(text, s.last)
	default:
		s.first(text)
	}
	return nil
}

// bytesStage is the ByteLevel decoder.
type bytesStage struct {
	held []byte
	raw  bool // tokens are bytes as they are
}

func (b *bytesStage) feed(token string, yield func(string)) {
	if !b.raw {
		if plain, ok := unspell(token); ok {
			token = plain
		}
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

// spacedStage is used where there is no decoder: it puts spaces between the tokens.
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
