// Package scan reads JSON documents whose usual form is known, in one walk and without a
// value for each number. It stays beside encoding/json for what it saves: an answer of
// SGLang with 200 tokens and log-probs is read in 15 µs with 5 allocations, where the
// library takes 80 to 100 µs and 28 (BenchmarkReadSGLang in servers), and each turn reads
// one.
//
// A [Scanner] is as strict as the library: what it reads, the library reads too, and with the
// same values (FuzzScanSGLang, FuzzScanChatProbs). What it does not expect is not ok, and is
// left to the library.
package scan

import (
	"bytes"
	"encoding/binary"
	"math"
	"strconv"
	"strings"

	"hermes/trajectory"
)

// Scanner walks once over a JSON document whose usual form is known. It is as strict as
// encoding/json: where it is ok, so is the library, and with the same values. What it does
// not expect (escaped or doubled keys, other types) is not ok, and left to the library.
type Scanner struct {
	b  []byte
	at int
}

// New returns a scanner at the beginning of a document.
func New(doc []byte) Scanner { return Scanner{b: doc} }

// maxScan bounds how deep values lie that are stepped over.
const maxScan = 64

func (s *Scanner) space() {
	for s.at < len(s.b) && s.b[s.at] <= ' ' && (s.b[s.at] == ' ' || s.b[s.at] == '\n' || s.b[s.at] == '\t' || s.b[s.at] == '\r') {
		s.at++
	}
}

// Next steps over white space and c, if that comes.
func (s *Scanner) Next(c byte) bool {
	if s.at < len(s.b) && s.b[s.at] == c { // nearly always
		s.at++
		return true
	}
	return s.later(c)
}

func (s *Scanner) later(c byte) bool {
	if s.space(); s.at < len(s.b) && s.b[s.at] == c {
		s.at++
		return true
	}
	return false
}

// End reports whether nothing follows.
func (s *Scanner) End() bool {
	s.space()
	return s.at == len(s.b)
}

// Null steps over null, if that comes.
func (s *Scanner) Null() bool {
	s.space()
	return s.literal("null")
}

func (s *Scanner) literal(word string) bool {
	if len(s.b)-s.at >= len(word) && string(s.b[s.at:s.at+len(word)]) == word {
		s.at += len(word)
		return true
	}
	return false
}

// List calls item at each element of a list.
func (s *Scanner) List(item func() bool) bool {
	if !s.Next('[') {
		return false
	}
	if s.Next(']') {
		return true
	}
	for item() {
		if s.Next(']') {
			return true
		}
		if !s.Next(',') {
			return false
		}
	}
	return false
}

// Object calls one of the members at each value whose key is known and steps over the
// others. The library matches keys whatever their case, and takes the last of several.
func (s *Scanner) Object(known []string, member func(i int) bool) bool {
	if !s.Next('{') {
		return false
	}
	if s.Next('}') {
		return true
	}
	seen := uint64(0)
	for {
		key, ok := s.key()
		if !ok {
			return false
		}
		at := -1
		for i, k := range known {
			if string(key) == k {
				at = i
				break
			}
			if len(key) == len(k) && strings.EqualFold(string(key), k) {
				return false
			}
		}
		switch {
		case at < 0:
			ok = s.skip(maxScan)
		case seen&(1<<at) != 0:
			return false
		default:
			seen |= 1 << at
			ok = member(at)
		}
		if !ok {
			return false
		}
		if s.Next('}') {
			return true
		}
		if !s.Next(',') {
			return false
		}
	}
}

// key reads a key of plain ASCII and its colon.
func (s *Scanner) key() ([]byte, bool) {
	if !s.Next('"') {
		return nil, false
	}
	from := s.at
	for ; s.at < len(s.b); s.at++ {
		switch c := s.b[s.at]; {
		case c == '"':
			key := s.b[from:s.at]
			s.at++
			return key, s.Next(':')
		case c < ' ' || c == '\\' || c >= 0x7f:
			return nil, false
		}
	}
	return nil, false
}

// Raw is the next value as it is.
func (s *Scanner) Raw() ([]byte, bool) {
	s.space()
	from := s.at
	ok := s.skip(maxScan)
	return s.b[from:s.at], ok
}

// skip steps over a value, at most depth levels deep.
func (s *Scanner) skip(depth int) bool {
	s.space()
	if depth == 0 || s.at == len(s.b) {
		return false
	}
	switch c := s.b[s.at]; c {
	case '"':
		return s.Text()
	case '[':
		return s.List(func() bool { return s.skip(depth - 1) })
	case '{':
		s.at++
		if s.Next('}') {
			return true
		}
		for s.space(); s.Text() && s.Next(':') && s.skip(depth-1); s.space() {
			if s.Next('}') {
				return true
			}
			if !s.Next(',') {
				return false
			}
		}
		return false
	case 'n':
		return s.literal("null")
	case 't':
		return s.literal("true")
	case 'f':
		return s.literal("false")
	}
	_, ok := s.number()
	return ok
}

// Text steps over a string.
func (s *Scanner) Text() bool {
	if s.at == len(s.b) || s.b[s.at] != '"' {
		return false
	}
	for s.at++; s.at < len(s.b); s.at++ {
		switch c := s.b[s.at]; {
		case c == '"':
			s.at++
			return true
		case c < ' ':
			return false
		case c == '\\':
			s.at++
			if s.at == len(s.b) {
				return false
			}
			if s.b[s.at] != 'u' {
				if bytes.IndexByte([]byte(`"\/bfnrt`), s.b[s.at]) < 0 {
					return false
				}
				continue
			}
			for range 4 {
				s.at++
				if s.at == len(s.b) || !hexDigit(s.b[s.at]) {
					return false
				}
			}
		}
	}
	return false
}

func hexDigit(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F'
}

// number reads a number's spelling.
func (s *Scanner) number() ([]byte, bool) {
	s.space()
	from := s.at
	if s.at < len(s.b) && s.b[s.at] == '-' {
		s.at++
	}
	whole := s.at
	if n := s.digits(); n == 0 || n > 1 && s.b[whole] == '0' {
		return nil, false
	}
	if s.at < len(s.b) && s.b[s.at] == '.' {
		s.at++
		if s.digits() == 0 {
			return nil, false
		}
	}
	if s.at < len(s.b) && s.b[s.at]|0x20 == 'e' {
		s.at++
		if s.at < len(s.b) && (s.b[s.at] == '+' || s.b[s.at] == '-') {
			s.at++
		}
		if s.digits() == 0 {
			return nil, false
		}
	}
	return s.b[from:s.at], true
}

func (s *Scanner) digits() int {
	from := s.at
	for s.at < len(s.b) && '0' <= s.b[s.at] && s.b[s.at] <= '9' {
		s.at++
	}
	return s.at - from
}

// Int reads a whole number that is not negative and has at most 18 digits.
func (s *Scanner) Int() (n int64, ok bool) {
	s.space()
	b, at := s.b, s.at
	for at < len(b) && b[at]-'0' < 10 {
		n = n*10 + int64(b[at]-'0')
		at++
	}
	from := s.at
	s.at = at
	if k := at - from; k == 0 || k > 18 || k > 1 && b[from] == '0' {
		return 0, false
	}
	if at < len(b) && (b[at] == '.' || b[at]|0x20 == 'e') {
		return 0, false
	}
	return n, true
}

// Token reads a token id.
func (s *Scanner) Token() (trajectory.Token, bool) {
	n, ok := s.Int()
	return trajectory.Token(n), ok && n <= 1<<31-1
}

// Tokens reads a list of token ids; room is about how many they are.
func (s *Scanner) Tokens(room int) (list []trajectory.Token, ok bool) {
	list = make([]trajectory.Token, 0, room)
	if !s.Next('[') {
		return list, false
	}
	if s.Next(']') {
		return list, true
	}
	for {
		id, ok := s.Token()
		list = append(list, id)
		if !ok {
			return list, false
		}
		if !s.Next(',') {
			return list, s.Next(']')
		}
	}
}

// LogProb reads a log-probability. Null means one that is not finite: it is read as NaN.
func (s *Scanner) LogProb() (float32, bool) {
	if s.space(); s.at < len(s.b) && s.b[s.at] == 'n' {
		return float32(math.NaN()), s.Null()
	}
	if v, ok := s.fraction(); ok {
		return v, true
	}
	w, ok := s.number()
	if !ok {
		return 0, false
	}
	v, err := strconv.ParseFloat(string(w), 32)
	return float32(v), err == nil
}

// exactTens are the powers of ten that a float64 holds exactly and that a log-probability
// may be divided by.
var exactTens = [...]float64{1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18}

// fraction reads a number without an exponent, of at most 18 digits, as strconv would: its
// digits as a whole number, divided by a power of ten, are at most two steps of a float64
// away from the nearest one. Rounded once more that is the nearest float32, unless it lies
// about in the middle of two, or below the normal ones. Neither is ok, nor what is no such
// number; s.at is where it was then.
func (s *Scanner) fraction() (float32, bool) {
	b, at := s.b, s.at
	minus := at < len(b) && b[at] == '-'
	if minus {
		at++
	}
	n, from := uint64(0), at
	for at < len(b) && b[at]-'0' < 10 && at-from < 19 {
		n = n*10 + uint64(b[at]-'0')
		at++
	}
	whole := at - from
	if whole == 0 || whole > 1 && b[from] == '0' {
		return 0, false
	}
	places := 0
	if at < len(b) && b[at] == '.' {
		at++
		dot := at
		for at+8 <= len(b) && at-from <= 10 { // servers print up to 17 digits
			k, ok := eightDigits(b[at:])
			if !ok {
				break
			}
			n, at = n*1e8+k, at+8
		}
		for at < len(b) && b[at]-'0' < 10 && at-from < 19 {
			n = n*10 + uint64(b[at]-'0')
			at++
		}
		places = at - dot
		if places == 0 {
			return 0, false
		}
	}
	if at < len(b) && (b[at]-'0' < 10 || b[at]|0x20 == 'e') {
		return 0, false
	}
	v := float64(n) / exactTens[places]
	const middle, lost, near = 1 << 28, 1<<29 - 1, 4 // of the bits that a float32 has no room for
	if math.Float64bits(v)&lost-(middle-near) <= 2*near || v > math.MaxFloat32 || v < 0x1p-126 && n != 0 {
		return 0, false
	}
	s.at = at
	if minus {
		v = -v
	}
	return float32(v), true
}

// eightDigits reads the first eight bytes of b if all are digits: three multiplications
// that each join neighbours, of one, two and four digits.
func eightDigits(b []byte) (uint64, bool) {
	v := binary.LittleEndian.Uint64(b)
	if v&0xf0f0f0f0f0f0f0f0 != 0x3030303030303030 || (v+0x0606060606060606)&0xf0f0f0f0f0f0f0f0 != 0x3030303030303030 {
		return 0, false
	}
	v = v & 0x0f0f0f0f0f0f0f0f * (10<<8 + 1) >> 8
	v = v & 0x00ff00ff00ff00ff * (100<<16 + 1) >> 16
	return v & 0x0000ffff0000ffff * (10000<<32 + 1) >> 32, true
}
