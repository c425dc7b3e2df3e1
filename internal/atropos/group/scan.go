package group

import (
	"encoding/binary"
	"math/bits"
	"strconv"
	"unicode/utf8"
)

// maxDepth bounds the nesting of values.
const maxDepth = 512

// Words of eight bytes are looked at together; these repeat a byte over one.
const (
	ones = 0x0101010101010101
	high = 0x8080808080808080
)

// scan reads JSON strictly from left to right.
type scan struct {
	b         []byte
	i         int
	rules     Rules
	nonFinite bool
}

func (s *scan) bad(msg string) *Fault {
	return &Fault{Type: "json_invalid", Loc: []any{s.i}, Msg: msg}
}

func (s *scan) space() {
	for s.i < len(s.b) {
		switch s.b[s.i] {
		case ' ', '\n', '\r', '\t':
			s.i++
		default:
			return
		}
	}
}

// end demands that nothing but space is left.
func (s *scan) end() error {
	if s.space(); s.i != len(s.b) {
		return s.bad("something follows the value")
	}
	return nil
}

// at is the next byte, 0 at the end.
func (s *scan) at() byte {
	if s.i < len(s.b) {
		return s.b[s.i]
	}
	return 0
}

// next steps to element n of a list or object and reports whether there is one. Space
// around separators is skipped.
func (s *scan) next(n int, open, shut byte) (bool, error) {
	if n == 0 {
		if s.at() != open {
			return false, s.bad("expected " + strconv.Quote(string(open)))
		}
		s.i++
		s.space()
		if s.at() == shut {
			s.i++
			return false, nil
		}
		return true, nil
	}
	s.space()
	switch s.at() {
	case shut:
		s.i++
		return false, nil
	case ',':
		s.i++
		s.space()
		return true, nil
	}
	return false, s.bad("expected , or " + strconv.Quote(string(shut)))
}

// key reads a key and its colon. The bytes are without quotes; escapes are undone.
func (s *scan) key() ([]byte, error) {
	from := s.i
	escaped, err := s.text()
	if err != nil {
		return nil, err
	}
	key := s.b[from+1 : s.i-1]
	if escaped {
		key = unescape(s.b[from:s.i])
	}
	if s.space(); s.at() != ':' {
		return nil, s.bad("expected :")
	}
	s.i++
	s.space()
	return key, nil
}

// text reads a string with its quotes and reports whether it has escapes.
func (s *scan) text() (escaped bool, err error) {
	if s.at() != '"' {
		return false, s.bad("expected a string")
	}
	s.i++
	from, foreign := s.i, uint64(0)
	for {
		for s.i+8 <= len(s.b) {
			w := binary.LittleEndian.Uint64(s.b[s.i:])
			foreign |= w & high
			quote, back := w^('"'*ones), w^('\\'*ones)
			// A lane borrows only from lanes above the first hit, which is all that counts.
			hit := ((quote-ones)&^quote | (back-ones)&^back | (w-0x20*ones)&^w) & high
			if hit != 0 {
				s.i += bits.TrailingZeros64(hit) >> 3
				break
			}
			s.i += 8
		}
		if s.i >= len(s.b) {
			return false, s.bad("a string does not end")
		}
		switch c := s.b[s.i]; {
		case c == '"':
			s.i++
			if foreign != 0 && !utf8.Valid(s.b[from:s.i]) {
				s.i = from
				return false, s.bad("a string is not UTF-8")
			}
			return escaped, nil
		case c == '\\':
			escaped = true
			if !s.escape() {
				return false, s.bad("an escape is not valid")
			}
		case c < 0x20:
			return false, s.bad("a control character is in a string")
		default:
			foreign |= uint64(c) & 0x80
			s.i++
		}
	}
}

// escape reads one escape.
func (s *scan) escape() bool {
	if s.i+1 >= len(s.b) {
		return false
	}
	switch s.b[s.i+1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		s.i += 2
		return true
	case 'u':
		if s.i+6 > len(s.b) {
			return false
		}
		for _, c := range s.b[s.i+2 : s.i+6] {
			if (c < '0' || c > '9') && (c|0x20 < 'a' || c|0x20 > 'f') {
				return false
			}
		}
		s.i += 6
		return true
	}
	return false
}

// value reads any value.
func (s *scan) value(depth int) error {
	if depth > maxDepth {
		return s.bad("values are nested too deeply")
	}
	switch c := s.at(); c {
	case '"':
		_, err := s.text()
		return err
	case '{', '[':
		for n := 0; ; n++ {
			more, err := s.next(n, c, c+2) // ']' and '}' follow two behind
			if err != nil || !more {
				return err
			}
			if c == '{' {
				if _, err := s.key(); err != nil {
					return err
				}
			}
			if err := s.value(depth + 1); err != nil {
				return err
			}
		}
	case 't', 'f', 'n':
		for _, word := range [...]string{"true", "false", "null"} {
			if s.word(word) {
				return nil
			}
		}
		return s.bad("expected a value")
	}
	return s.number()
}

func (s *scan) word(w string) bool {
	if len(s.b)-s.i >= len(w) && string(s.b[s.i:s.i+len(w)]) == w {
		s.i += len(w)
		return true
	}
	return false
}

// digits steps over digits.
func (s *scan) digits() {
	for s.i+8 <= len(s.b) {
		x := binary.LittleEndian.Uint64(s.b[s.i:]) ^ '0'*ones
		if no := (x + 0x76*ones | x) & high; no != 0 { // carries go up, past the first hit
			s.i += bits.TrailingZeros64(no) >> 3
			return
		}
		s.i += 8
	}
	for s.i < len(s.b) && s.b[s.i]-'0' < 10 {
		s.i++
	}
}

// number reads a number that JSON can say, or under Rules.Types one of Python's words for
// those that it cannot.
func (s *scan) number() error {
	from := s.i
	if s.at() == '-' {
		s.i++
	}
	first := s.i
	s.digits()
	whole := s.i - first
	if whole == 0 {
		return s.notFinite(from)
	}
	if s.b[first] == '0' && whole > 1 {
		s.i = first
		return s.bad("a number begins with 0")
	}
	large := whole > 300
	if s.at() == '.' {
		s.i++
		at := s.i
		if s.digits(); s.i == at {
			return s.bad("digits are missing behind the point")
		}
	}
	if s.at()|0x20 == 'e' {
		s.i++
		if c := s.at(); c == '+' || c == '-' {
			s.i++
		}
		at := s.i
		if s.digits(); s.i == at {
			return s.bad("digits are missing in the exponent")
		}
		large = large || s.i-at > 2 || whole > 100
	}
	if large {
		return s.tooLarge(from)
	}
	return nil
}

// tooLarge finds numbers that become infinite when they are read. Integers have no bound
// in Atropos' server.
func (s *scan) tooLarge(from int) error {
	text := s.b[from:s.i]
	for _, c := range text {
		if c == '.' || c|0x20 == 'e' {
			if _, err := strconv.ParseFloat(string(text), 64); err == nil {
				return nil
			}
			return s.infinite(from)
		}
	}
	if s.rules.Types {
		return nil
	}
	if _, err := strconv.ParseFloat(string(text), 64); err != nil {
		return s.infinite(from)
	}
	return nil
}

func (s *scan) notFinite(from int) error {
	if s.word("NaN") && s.b[from] != '-' || s.word("Infinity") {
		return s.infinite(from)
	}
	s.i = from
	return s.bad("expected a value")
}

func (s *scan) infinite(from int) error {
	s.nonFinite = true
	if s.rules.Types {
		return nil
	}
	return &Fault{Type: "finite_number", Msg: "Input should be a finite number, not " + clip(s.b[from:s.i]) + ": the batch that holds it could not be sent as JSON"}
}

func clip(b []byte) string {
	if len(b) > 40 {
		return string(b[:40]) + "…"
	}
	return string(b)
}
