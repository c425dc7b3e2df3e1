package pyvalue

import (
	"cmp"
	"math/big"
	"strings"
)

const digits = "0123456789abcdef"

// Quote appends s to b as a JSON string; characters outside ASCII stay.
func Quote(b []byte, s string) []byte {
	b = append(b, '"')
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			b = append(b, '\\', c)
		case c == '\n':
			b = append(b, '\\', 'n')
		case c == '\r':
			b = append(b, '\\', 'r')
		case c == '\t':
			b = append(b, '\\', 't')
		case c < 0x20:
			b = append(b, '\\', 'u', '0', '0', digits[c>>4], digits[c&15])
		default:
			b = append(b, c)
		}
	}
	return append(b, '"')
}

// quoteHalves is Quote of a text in which a half of a surrogate pair is three bytes, ED A0 80
// to ED BF BF: it becomes an escape.
func quoteHalves(b, text []byte) []byte {
	b = append(b, '"')
	inner := func(part []byte) {
		q := Quote(nil, string(part))
		b = append(b, q[1:len(q)-1]...)
	}
	from := 0
	for i := 0; i+2 < len(text); i++ {
		if text[i] == 0xed && text[i+1] >= 0xa0 {
			inner(text[from:i])
			v := 0xd000 | int(text[i+1]&0x3f)<<6 | int(text[i+2]&0x3f)
			b = append(b, '\\', 'u')
			for shift := 12; shift >= 0; shift -= 4 {
				b = append(b, digits[v>>shift&15])
			}
			from = i + 3
			i += 2
		}
	}
	inner(text[from:])
	return append(b, '"')
}

// jsonNumber spells a Python number as JSON; the digits stay where JSON has the form.
func jsonNumber(s string) (string, bool) {
	if s == "" {
		return "", false
	}
	if len(s) > 2 && s[0] == '0' && strings.ContainsRune("xXoObB", rune(s[1])) {
		n, ok := new(big.Int).SetString(s, 0)
		if !ok {
			return "", false
		}
		return n.String(), true
	}
	if strings.HasPrefix(s, "_") || strings.HasSuffix(s, "_") || strings.Contains(s, "__") {
		return "", false
	}
	return decimal(strings.ReplaceAll(s, "_", ""))
}

func decimal(s string) (string, bool) {
	i := span(s, 0)
	whole := s[:i]
	frac := ""
	exp := ""
	dot := i < len(s) && s[i] == '.'
	if dot {
		j := span(s, i+1)
		frac = s[i+1 : j]
		i = j
	}
	if i < len(s) && (s[i] == 'e' || s[i] == 'E') {
		j := i + 1
		if j < len(s) && (s[j] == '+' || s[j] == '-') {
			j++
		}
		k := span(s, j)
		if k == j {
			return "", false
		}
		exp, i = s[i:k], k
	}
	if i != len(s) || whole == "" && frac == "" {
		return "", false
	}
	if trimmed := strings.TrimLeft(whole, "0"); trimmed != whole {
		if !dot && exp == "" && trimmed != "" {
			return "", false // 007 is no number in Python
		}
		whole = trimmed
	}
	whole = cmp.Or(whole, "0")
	if dot {
		frac = cmp.Or(frac, "0")
		whole += "." + frac
	}
	return whole + exp, true
}

func span(s string, i int) int {
	for i < len(s) && s[i] >= '0' && s[i] <= '9' {
		i++
	}
	return i
}
