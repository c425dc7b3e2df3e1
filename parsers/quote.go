package parsers

import (
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

const hexDigits = "0123456789abcdef"

// quote writes s as a JSON string. Characters outside ASCII stay as they are.
func quote(s string) string {
	var b strings.Builder
	b.Grow(len(s) + 2)
	b.WriteByte('"')
	from := 0
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c >= 0x20 && c != '"' && c != '\\' {
			continue
		}
		b.WriteString(s[from:i])
		from = i + 1
		switch c {
		case '"', '\\':
			b.WriteByte('\\')
			b.WriteByte(c)
		case '\n':
			b.WriteString(`\n`)
		case '\r':
			b.WriteString(`\r`)
		case '\t':
			b.WriteString(`\t`)
		default:
			b.WriteString(`\u00`)
			b.WriteByte(hexDigits[c>>4])
			b.WriteByte(hexDigits[c&15])
		}
	}
	b.WriteString(s[from:])
	b.WriteByte('"')
	return b.String()
}

// unquote reads a JSON string with its quotes. A lone surrogate becomes U+FFFD.
func unquote(s string) (string, bool) {
	if len(s) < 2 || s[0] != '"' || s[len(s)-1] != '"' {
		return s, false
	}
	s = s[1 : len(s)-1]
	if strings.IndexByte(s, '\\') < 0 {
		return s, true
	}
	b := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' || i+1 >= len(s) {
			b = append(b, s[i])
			continue
		}
		i++
		switch s[i] {
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
		case 'u':
			r, n := escapedRune(s[i+1:])
			b = utf8.AppendRune(b, r)
			i += n
		default:
			b = append(b, s[i])
		}
	}
	return string(b), true
}

// escapedRune reads the digits after \u, and a second escape when both form a pair.
func escapedRune(s string) (rune, int) {
	r, ok := hex4(s)
	if !ok {
		return utf8.RuneError, 0
	}
	if utf16.IsSurrogate(r) && len(s) >= 10 && s[4] == '\\' && s[5] == 'u' {
		if r2, ok := hex4(s[6:]); ok {
			if joined := utf16.DecodeRune(r, r2); joined != utf8.RuneError {
				return joined, 10
			}
		}
	}
	return r, 4
}

func hex4(s string) (rune, bool) {
	if len(s) < 4 {
		return 0, false
	}
	var r rune
	for i := range 4 {
		c := s[i]
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c >= 'a' && c <= 'f':
			c -= 'a' - 10
		case c >= 'A' && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, false
		}
		r = r<<4 | rune(c)
	}
	return r, true
}

// pair writes one member of the arguments.
type pair struct{ key, value string }

// object writes pairs as JSON; a repeated key keeps its first place and last value.
func object(ps []pair) string {
	once, _ := merged(ps)
	return objectText(once)
}

// object is object, except that in our dialect a key that was written twice with different
// values stays twice: the call is then malformed, and says so.
func (p *parse) object(ps []pair) string {
	once, differ := merged(ps)
	if differ && p.opt.Dialect == Ours {
		return objectText(ps)
	}
	return objectText(once)
}

// merged gives each key its first place and its last value; differ says that a key had two values.
func merged(ps []pair) (once []pair, differ bool) {
	at := make(map[string]int, len(ps))
	for _, p := range ps {
		if i, ok := at[p.key]; ok {
			differ = differ || once[i].value != p.value
			once[i].value = p.value
			continue
		}
		at[p.key] = len(once)
		once = append(once, p)
	}
	return once, differ
}

// objectText writes pairs as they are.
func objectText(ps []pair) string {
	var b strings.Builder
	b.WriteByte('{')
	for i, p := range ps {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(quote(p.key))
		b.WriteString(": ")
		b.WriteString(p.value)
	}
	b.WriteByte('}')
	return b.String()
}
