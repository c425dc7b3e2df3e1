package parsers

import (
	"slices"
	"strings"

	"hermes/trajectory"
)

// idLimit bounds the ids that are asked for the spelling of special tokens.
const idLimit = 1 << 19

// stream is the Stream of every family: a buffer and the places of real special tokens.
type stream struct {
	gram    grammar
	opt     ParseOptions
	buf     []byte
	hasIDs  bool
	genuine map[int]string // offset → spelling of a special token
}

func (s *stream) Feed(text string, ids []trajectory.Token) {
	if len(ids) > 0 && s.opt.Special != nil {
		s.note(text, ids)
	}
	if s.buf == nil {
		s.buf = make([]byte, 0, 512+len(text)) // most answers
	}
	s.buf = append(s.buf, text...)
}

// note remembers where the special tokens among ids stand in text.
func (s *stream) note(text string, ids []trajectory.Token) {
	s.hasIDs = true
	if s.genuine == nil {
		s.genuine = map[int]string{}
	}
	at := 0
	for _, id := range ids {
		spelling, ok := s.opt.Special(id)
		if !ok || spelling == "" {
			continue
		}
		if i := strings.Index(text[at:], spelling); i >= 0 {
			s.genuine[len(s.buf)+at+i] = spelling
			at += i + len(spelling)
		}
	}
}

func (s *stream) Finish(cut bool) Parsed {
	text := string(s.buf)
	masked, undo := s.mask(text)
	out := run(s.gram, masked, s.opt, cut, s.genuine)
	if undo {
		out.Content, out.Reasoning = unmask(out.Content), unmask(out.Reasoning)
		for i := range out.Calls {
			out.Calls[i].Name, out.Calls[i].Arguments = unmask(out.Calls[i].Name), unmask(out.Calls[i].Arguments)
		}
	}
	return out
}

// Bytes that never occur in UTF-8 stand for the first byte of a spelled marker.
const (
	maskAngle   = '\xfe'
	maskBracket = '\xff'
)

var masks = strings.NewReplacer(string([]byte{maskAngle}), "<", string([]byte{maskBracket}), "[")

func unmask(s string) string {
	if strings.IndexByte(s, maskAngle) < 0 && strings.IndexByte(s, maskBracket) < 0 {
		return s
	}
	return masks.Replace(s)
}

// mask hides the spelling of special tokens that were sampled as ordinary text.
func (s *stream) mask(text string) (string, bool) {
	if !s.hasIDs || strings.IndexByte(text, maskAngle) >= 0 || strings.IndexByte(text, maskBracket) >= 0 {
		return text, false
	}
	if !s.suspicious(text) {
		return text, false
	}
	var b []byte
	for _, spelling := range s.spellings() {
		for at := 0; ; {
			i := strings.Index(text[at:], spelling)
			if i < 0 {
				break
			}
			at += i
			if !s.covered(at, spelling) {
				if b == nil {
					b = []byte(text)
				}
				hide(b[at : at+len(spelling)])
			}
			at += len(spelling)
		}
	}
	if b == nil {
		return text, false
	}
	return string(b), true
}

// suspicious says whether a bracket that belongs to no special token is in text.
func (s *stream) suspicious(text string) bool {
	skip := 0
	for i := range len(text) {
		if g, ok := s.genuine[i]; ok {
			skip = max(skip, i+len(g))
		}
		if i >= skip && (text[i] == '<' || text[i] == '[') {
			return true
		}
	}
	return false
}

func (s *stream) covered(at int, spelling string) bool {
	g, ok := s.genuine[at]
	return ok && len(g) >= len(spelling)
}

func hide(b []byte) {
	for i, c := range b {
		switch c {
		case '<':
			b[i] = maskAngle
			return
		case '[':
			b[i] = maskBracket
			return
		}
	}
}

// spellings lists the special tokens of the vocabulary that could be markers.
func (s *stream) spellings() []string {
	if s.opt.Specials != nil {
		return s.opt.Specials
	}
	var out []string
	for id := range trajectory.Token(idLimit) {
		if t, ok := s.opt.Special(id); ok && len(t) > 2 && strings.ContainsAny(t, "<[") {
			out = append(out, t)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
