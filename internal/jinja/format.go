package jinja

import (
	"math"
	"math/big"
	"strconv"
	"strings"
	"unicode/utf8"
)

// printf is Python's % on a text.
func (st *state) printf(layout string, operand any) string {
	args, isTuple := operand.(*Tuple)
	if !isTuple {
		args = &Tuple{[]any{operand}}
	}
	dict, isDict := operand.(*Dict)
	used, named := 0, false
	next := func() any {
		if used >= len(args.items) {
			panic(typeErrorf("not enough arguments for format string"))
		}
		used++
		return args.items[used-1]
	}
	var b strings.Builder
	for i := 0; i < len(layout); {
		if layout[i] != '%' {
			j := strings.IndexByte(layout[i:], '%')
			if j < 0 {
				j = len(layout) - i
			}
			b.WriteString(layout[i : i+j])
			i += j
			continue
		}
		i++
		var value any = missing
		if i < len(layout) && layout[i] == '(' {
			end := strings.IndexByte(layout[i:], ')')
			if end < 0 || !isDict {
				panic(typeErrorf("format requires a mapping"))
			}
			key := layout[i+1 : i+end]
			v, ok := dict.Get(key)
			if !ok {
				panic(raisef("KeyError", "%s", reprString(key)))
			}
			value, named = v, true
			i += end + 1
		}
		s := spec{fill: " ", precision: -1}
		for ; i < len(layout) && strings.IndexByte("-+ #0", layout[i]) >= 0; i++ {
			s.flag(layout[i])
		}
		number := func() int {
			if i < len(layout) && layout[i] == '*' {
				i++
				return intArg(next(), 0)
			}
			n := 0
			for ; i < len(layout) && layout[i] >= '0' && layout[i] <= '9'; i++ {
				n = min(n*10+int(layout[i]-'0'), math.MaxInt32)
			}
			return n
		}
		s.width = number()
		if s.width < 0 {
			s.align, s.width = '<', -s.width
		}
		if i < len(layout) && layout[i] == '.' {
			i++
			s.precision = number()
		}
		for i < len(layout) && strings.IndexByte("hlL", layout[i]) >= 0 {
			i++
		}
		if i >= len(layout) {
			panic(raisef("ValueError", "incomplete format"))
		}
		verb := layout[i]
		i++
		if verb == '%' {
			b.WriteByte('%')
			continue
		}
		if value == missing {
			value = next()
		}
		part := st.percent(s, verb, value)
		b.WriteString(part)
		st.step(8 * len(part))
		if b.Len() > st.maxBytes {
			panic(limitf("a text of %d bytes exceeds %d", b.Len(), st.maxBytes))
		}
	}
	if used < len(args.items) && !isDict && !named {
		switch operand.(type) {
		case *List:
			if used == 0 {
				return b.String()
			}
		}
		panic(typeErrorf("not all arguments converted during string formatting"))
	}
	return b.String()
}

// spec is how one value is to be laid out.
type spec struct {
	fill      string
	align     byte // < > ^ = or 0
	sign      byte // + or space, else 0
	alt, zero bool
	width     int
	precision int // -1: none
	group     string
}

func (s *spec) flag(c byte) {
	switch c {
	case '-':
		s.align = '<'
	case '+':
		s.sign = '+'
	case ' ':
		if s.sign == 0 {
			s.sign = ' '
		}
	case '#':
		s.alt = true
	case '0':
		s.zero = true
	}
}

func (st *state) percent(s spec, verb byte, v any) string {
	switch verb {
	case 's', 'r', 'a':
		text := st.text(v)
		if verb != 's' {
			text = st.repr(v)
		}
		return st.layText(s, text, '>')
	case 'c':
		if i, ok := integer(v); ok {
			return st.layText(s, string(rune(i)), '>')
		}
		return st.layText(s, textArg("%c", v), '>')
	case 'd', 'i', 'u', 'x', 'X', 'o':
		if f, ok := v.(float64); ok && strings.IndexByte("diu", verb) >= 0 {
			v = intFilter(st, f, arguments{})
		}
		if _, _, _, k := number(v); k != 'i' && k != 'b' {
			defined(v)
			panic(typeErrorf("%%%c format: a real number is required, not %s", verb, typeName(v)))
		}
		return st.layNumber(s, intText(v, verb, s))
	case 'e', 'E', 'f', 'F', 'g', 'G':
		if _, _, _, k := number(v); k == 0 {
			defined(v)
			panic(typeErrorf("must be real number, not %s", typeName(v)))
		}
		return st.layNumber(s, st.floatVerb(toFloat(v), verb, s))
	}
	panic(raisef("ValueError", "unsupported format character '%c' (0x%x)", verb, verb))
}

func intText(v any, verb byte, s spec) string {
	base, prefix := 10, ""
	switch verb {
	case 'x', 'X':
		base, prefix = 16, "0x"
	case 'o':
		base, prefix = 8, "0o"
	case 'b':
		base, prefix = 2, "0b"
	}
	n := toBig(v)
	text := new(big.Int).Abs(n).Text(base)
	if len(text) < s.precision && s.precision < 1<<16 {
		text = strings.Repeat("0", s.precision-len(text)) + text
	}
	if s.alt {
		text = prefix + text
	}
	if verb == 'X' {
		text = strings.ToUpper(text)
	}
	if n.Sign() < 0 {
		text = "-" + text
	}
	return text
}

func (st *state) floatVerb(f float64, verb byte, s spec) string {
	if s.precision < 0 {
		s.precision = 6
	}
	if s.precision > 1<<16 {
		panic(limitf("a precision of %d", s.precision))
	}
	st.size(s.precision)
	lower := verb | 0x20
	var text string
	switch {
	case math.IsNaN(f) || math.IsInf(f, 0):
		text = floatText(f)
	case lower == 'g':
		text = general(f, max(s.precision, 1), s.alt)
	default:
		text = strconv.FormatFloat(f, lower, s.precision, 64)
	}
	if verb != lower {
		text = strings.ToUpper(text)
	}
	return text
}

// general is C's %g.
func general(f float64, precision int, alt bool) string {
	e := strconv.FormatFloat(f, 'e', precision-1, 64)
	mantissa, exp, _ := strings.Cut(e, "e")
	n, _ := strconv.Atoi(exp)
	clean := func(s string) string {
		if alt || !strings.Contains(s, ".") {
			return s
		}
		return strings.TrimRight(strings.TrimRight(s, "0"), ".")
	}
	if n < -4 || n >= precision {
		return clean(mantissa) + "e" + exp
	}
	return clean(strconv.FormatFloat(f, 'f', precision-1-n, 64))
}

func (st *state) layText(s spec, text string, align byte) string {
	if s.precision >= 0 {
		if r := []rune(text); len(r) > s.precision {
			text = string(r[:s.precision])
		}
	}
	if s.align == 0 {
		s.align = align
	}
	return st.lay(s, text)
}

func (st *state) layNumber(s spec, text string) string {
	sign := ""
	if strings.HasPrefix(text, "-") {
		sign, text = "-", text[1:]
	} else if s.sign != 0 {
		sign = string(s.sign)
	}
	if s.group != "" {
		text = grouped(text, s.group)
	}
	if s.zero && s.align == 0 || s.align == '=' {
		fill := s.fill
		if s.zero {
			fill = "0"
		}
		return sign + st.pad(text, s.width-len(sign), fill, "rjust")
	}
	if s.align == 0 {
		s.align = '>'
	}
	return st.lay(s, sign+text)
}

func (st *state) lay(s spec, text string) string {
	switch s.align {
	case '<':
		return st.pad(text, s.width, s.fill, "ljust")
	case '^':
		n := max(s.width-utf8.RuneCountInString(text), 0)
		left := st.pad(text, s.width-n+n/2, s.fill, "rjust")
		return st.pad(left, s.width, s.fill, "ljust")
	}
	return st.pad(text, s.width, s.fill, "rjust")
}

func grouped(text, sep string) string {
	end := strings.IndexAny(text, ".e")
	if end < 0 {
		end = len(text)
	}
	head := text[:end]
	for i := len(head) - 3; i > 0; i -= 3 {
		head = head[:i] + sep + head[i:]
	}
	return head + text[end:]
}
