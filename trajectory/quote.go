package trajectory

import (
	"bytes"
	"encoding/json"
	"math/bits"
	"unicode/utf8"
)

const hexadecimal = "0123456789abcdef"

// AppendQuoted appends a text as a JSON string, as encoding/json does without the escapes of
// HTML: bytes that are not UTF-8 become U+FFFD.
func AppendQuoted(b []byte, s string) []byte {
	b = append(b, '"')
	from := 0
	for i := plain(s); i < len(s); i += plain(s[i:]) {
		c := s[i]
		if c >= utf8.RuneSelf {
			r, n := utf8.DecodeRuneInString(s[i:])
			switch {
			case r == utf8.RuneError && n == 1:
				b = append(append(b, s[from:i]...), `\ufffd`...)
				from = i + n
			case r == '\u2028' || r == '\u2029': // JavaScript takes them for line ends
				b = append(append(append(b, s[from:i]...), `\u202`...), hexadecimal[r&15])
				from = i + n
			}
			i += n
			continue
		}
		b = append(b, s[from:i]...)
		switch c {
		case '"', '\\':
			b = append(b, '\\', c)
		case '\b':
			b = append(b, '\\', 'b')
		case '\f':
			b = append(b, '\\', 'f')
		case '\n':
			b = append(b, '\\', 'n')
		case '\r':
			b = append(b, '\\', 'r')
		case '\t':
			b = append(b, '\\', 't')
		default:
			b = append(b, '\\', 'u', '0', '0', hexadecimal[c>>4], hexadecimal[c&15])
		}
		i++
		from = i
	}
	return append(append(b, s[from:]...), '"')
}

// AppendJSON appends v as encoding/json does, without the escapes of HTML and on one line.
func AppendJSON(b []byte, v any) ([]byte, error) {
	buf := bytes.NewBuffer(b)
	e := json.NewEncoder(buf)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return b, err
	}
	return buf.Bytes()[:buf.Len()-1], nil // without the newline of the encoder
}

// plain is the length of what s begins with that is in JSON as it is, of ASCII. It looks
// at eight bytes at once: the top bit of each says whether it is none of these, for the first
// that is none and all before it.
func plain(s string) int {
	const ones, tops = 0x0101010101010101, 0x8080808080808080
	i := 0
	for ; i+8 <= len(s); i += 8 {
		x := uint64(s[i]) | uint64(s[i+1])<<8 | uint64(s[i+2])<<16 | uint64(s[i+3])<<24 |
			uint64(s[i+4])<<32 | uint64(s[i+5])<<40 | uint64(s[i+6])<<48 | uint64(s[i+7])<<56
		quote, slash := x^(ones*'"'), x^(ones*'\\')
		if no := (x | (x-ones*' ')&^x | (quote-ones)&^quote | (slash-ones)&^slash) & tops; no != 0 {
			return i + bits.TrailingZeros64(no)/8
		}
	}
	for ; i < len(s); i++ {
		if c := s[i]; c < ' ' || c >= utf8.RuneSelf || c == '"' || c == '\\' {
			break
		}
	}
	return i
}
