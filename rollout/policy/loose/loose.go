// Package loose reads JSON values that servers write in other types than they should:
// numbers in quotes, text where a number belongs, half a character at the end of a piece.
// Its types are for fields of answers; none of them makes a document unreadable.
package loose

import (
	"bytes"
	"encoding/json"
	"math"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// Label is a short text of an answer: an id, a name. Some servers write numbers there.
type Label string

// UnmarshalJSON reads a text; anything else is kept as it is spelled, null is empty.
func (l *Label) UnmarshalJSON(raw []byte) error {
	s, err := Text(raw)
	*l = Label(s)
	return err
}

// Place is a place in a list: a number, or a number as text. None where there is none.
type Place struct {
	N     int
	Known bool
}

// UnmarshalJSON reads it; what is no number is no place.
func (p *Place) UnmarshalJSON(raw []byte) error {
	if v, ok := Number(raw); ok && v == math.Trunc(v) && math.Abs(v) < 1<<31 {
		*p = Place{int(v), true}
	}
	return nil
}

// Count is a number of tokens. The books never decide whether there is an answer: a count
// that is no number is 0, a fraction is rounded.
type Count int64

// UnmarshalJSON reads a number, or a number as text.
func (c *Count) UnmarshalJSON(raw []byte) error {
	if v, ok := Number(raw); ok && v > 0 && v < 1<<53 {
		*c = Count(math.Round(v))
	}
	return nil
}

// Amount is an amount of money; unknown where it is no number.
type Amount struct {
	Value float64
	Known bool
}

// UnmarshalJSON reads a number, or a number as text.
func (a *Amount) UnmarshalJSON(raw []byte) error {
	a.Value, a.Known = Number(raw)
	return nil
}

// Number reads a finite number that may be in quotes.
func Number(raw []byte) (float64, bool) {
	if n, ok := digits(raw); ok {
		return float64(n), true
	}
	text := strings.TrimSpace(strings.Trim(string(raw), `"`))
	v, err := strconv.ParseFloat(text, 64)
	return v, err == nil && !math.IsInf(v, 0) && !math.IsNaN(v)
}

// digits reads a whole number of at most nine digits, as nearly all are.
func digits(raw []byte) (n int, ok bool) {
	for _, c := range raw {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = 10*n + int(c-'0')
	}
	return n, len(raw) > 0 && len(raw) < 10
}

// Unquote reads a JSON string that is known to be one, as the library does, but keeps half
// a character: one of the two \u of a pair, or bytes that are no UTF-8 by themselves. Servers
// cut there, and the other half comes with the next piece; see mend.
func Unquote(raw []byte) string {
	raw = raw[1 : len(raw)-1]
	if bytes.IndexByte(raw, '\\') < 0 {
		return string(raw)
	}
	b := make([]byte, 0, len(raw))
	for i := 0; i < len(raw); i++ {
		c := raw[i]
		if c != '\\' {
			b = append(b, c)
			continue
		}
		i++
		switch c = raw[i]; c {
		case 'u':
			r := hex4(raw[i+1:])
			i += 4
			if utf16.IsSurrogate(r) && i+6 < len(raw) && raw[i+1] == '\\' && raw[i+2] == 'u' {
				if both := utf16.DecodeRune(r, hex4(raw[i+3:])); both != utf8.RuneError {
					r, i = both, i+6
				}
			}
			if utf16.IsSurrogate(r) { // as three bytes, like any other character of its size
				b = append(b, 0xe0|byte(r>>12), 0x80|byte(r>>6)&0x3f, 0x80|byte(r)&0x3f)
				continue
			}
			b = utf8.AppendRune(b, r)
		case 'b':
			b = append(b, '\b')
		case 'f':
			b = append(b, '\f')
		case 'n':
			b = append(b, '\n')
		case 'r':
			b = append(b, '\r')
		case 't':
			b = append(b, '\t')
		default: // a quote, a slash
			b = append(b, c)
		}
	}
	return string(b)
}

// hex4 is the character of four hexadecimal digits.
func hex4(b []byte) rune {
	n, err := strconv.ParseUint(string(b[:min(4, len(b))]), 16, 16)
	if err != nil {
		return utf8.RuneError
	}
	return rune(n)
}

// Mend joins the halves of characters in a text that was put together from pieces; half a
// character that stayed alone becomes U+FFFD, byte by byte where it is bytes.
func Mend(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	var b strings.Builder
	b.Grow(len(s))
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		if r == utf8.RuneError && n == 1 {
			if half, ok := Half(s[i:]); ok {
				n = 3
				if other, ok := Half(s[i+3:]); ok {
					if both := utf16.DecodeRune(half, other); both != utf8.RuneError {
						r, n = both, 6
					}
				}
			}
		}
		b.WriteRune(r)
		i += n
	}
	return b.String()
}

// Half reads half a character that is written as three bytes.
func Half(s string) (rune, bool) {
	if len(s) < 3 || s[0] != 0xed || s[1] < 0xa0 || s[1] > 0xbf || s[2] < 0x80 || s[2] > 0xbf {
		return 0, false
	}
	return rune(s[0]&0xf)<<12 | rune(s[1]&0x3f)<<6 | rune(s[2]&0x3f), true
}

// Text reads a JSON string, or anything else as it is spelled.
func Text(raw json.RawMessage) (string, error) {
	if !Present(raw) {
		return "", nil
	}
	if raw[0] != '"' {
		return string(raw), nil
	}
	return Unquote(raw), nil
}

// Present reports whether a member is there and not null.
func Present(raw json.RawMessage) bool {
	return len(raw) > 0 && !bytes.Equal(raw, []byte("null"))
}

// ASCII is the text of a JSON string without escapes, which is what is in it.
func ASCII(raw []byte) (string, bool) {
	if len(raw) < 2 || raw[0] != '"' || raw[len(raw)-1] != '"' {
		return "", false
	}
	raw = raw[1 : len(raw)-1]
	for _, c := range raw {
		if c < ' ' || c > '~' || c == '"' || c == '\\' {
			return "", false
		}
	}
	return string(raw), true
}

// Plain is a JSON string's text, or the raw JSON; null is empty.
func Plain(raw json.RawMessage) string {
	if s, ok := ASCII(raw); ok {
		return s
	}
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return s
	}
	return strings.Trim(string(raw), `" `)
}
