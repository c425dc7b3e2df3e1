package jinja

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// isSpace is str.isspace of Python for one character.
func isSpace(r rune) bool {
	if r < 0x80 {
		return r == ' ' || r >= 9 && r <= 13 || r >= 0x1c && r <= 0x1f
	}
	return unicode.IsSpace(r)
}

// unescape reads the escapes of a Python string; unknown ones stay as they are.
// The second result says what is wrong with one that cannot be read.
func unescape(s string) (string, string) {
	if strings.IndexByte(s, '\\') < 0 {
		return s, ""
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' || i+1 == len(s) {
			b.WriteByte(s[i])
			continue
		}
		i++
		switch c := s[i]; c {
		case '\n':
		case '\\', '\'', '"':
			b.WriteByte(c)
		case 'a', 'b', 'f', 'n', 'r', 't', 'v':
			b.WriteByte("\a\b\f\n\r\t\v"[strings.IndexByte("abfnrtv", c)])
		case 'x', 'u', 'U':
			n := map[byte]int{'x': 2, 'u': 4, 'U': 8}[c]
			if i+n >= len(s) {
				return "", "truncated \\" + string(c) + " escape"
			}
			v, err := strconv.ParseUint(s[i+1:i+1+n], 16, 32)
			if err != nil || v > unicode.MaxRune {
				return "", "bad \\" + string(c) + " escape"
			}
			b.WriteRune(rune(v))
			i += n
		case '0', '1', '2', '3', '4', '5', '6', '7':
			v, n := 0, 0
			for ; n < 3 && i+n < len(s) && s[i+n] >= '0' && s[i+n] <= '7'; n++ {
				v = v*8 + int(s[i+n]-'0')
			}
			b.WriteRune(rune(v))
			i += n - 1
		default:
			// unicode-escape sees the backslash form of other characters, so the
			// character itself is kept whole here.
			_, n := utf8.DecodeRuneInString(s[i:])
			b.WriteByte('\\')
			b.WriteString(s[i : i+n])
			i += n - 1
		}
	}
	return b.String(), ""
}

// reprString is repr of a Python str.
func reprString(s string) string {
	quote := byte('\'')
	if strings.IndexByte(s, '\'') >= 0 && strings.IndexByte(s, '"') < 0 {
		quote = '"'
	}
	b := make([]byte, 0, len(s)+2)
	b = append(b, quote)
	for _, r := range s {
		switch {
		case r == rune(quote) || r == '\\':
			b = append(b, '\\', byte(r))
		case r == '\n':
			b = append(b, `\n`...)
		case r == '\r':
			b = append(b, `\r`...)
		case r == '\t':
			b = append(b, `\t`...)
		case r < 0x20 || r == 0x7f:
			b = append(b, `\x`...)
			b = append(b, hexDigits[r>>4], hexDigits[r&15])
		case r < 0x7f || printable(r):
			b = utf8.AppendRune(b, r)
		default:
			b = appendEscape(b, r)
		}
	}
	return string(append(b, quote))
}

const hexDigits = "0123456789abcdef"

func appendEscape(b []byte, r rune) []byte {
	form, width := `\U`, 8
	if r < 0x100 {
		form, width = `\x`, 2
	} else if r < 0x10000 {
		form, width = `\u`, 4
	}
	b = append(b, form...)
	for i := width - 1; i >= 0; i-- {
		b = append(b, hexDigits[r>>(4*i)&15])
	}
	return b
}

// printable is str.isprintable for a character outside ASCII.
func printable(r rune) bool {
	return unicode.IsPrint(r) || unicode.In(r, unicode.M)
}
