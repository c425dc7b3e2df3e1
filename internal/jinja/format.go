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
	p := placeholders{rest: layout, items: []any{operand}}
	if args, ok := operand.(*Tuple); ok {
		p.items = args.items
	}
	p.dict, _ = operand.(*Dict)
	var b strings.Builder
	for {
		text, rest, found := strings.Cut(p.rest, "%")
		b.WriteString(text)
		if !found {
			break
		}
		p.rest = rest
		s, verb, value := p.read()
		if verb == '%' {
			b.WriteByte('%')
			continue
		}
		part := st.percent(s, verb, value)
		b.WriteString(part)
		st.step(8 * len(part))
		if b.Len() > st.maxBytes {
			panic(limitf("a text of %d bytes exceeds %d", b.Len(), st.maxBytes))
		}
	}
	_, isList := operand.(*List)
	if p.used < len(p.items) && p.dict == nil && !(isList && p.used == 0) {
		panic(typeErrorf("not all arguments converted during string formatting"))
	}
	return b.String()
}

// placeholders are the rest of a layout and the values for it.
type placeholders struct {
	rest  string
	items []any
	used  int   // of items
	dict  *Dict // values by name; nil where there are none
}

// next is the next value.
func (p *placeholders) next() any {
	if p.used >= len(p.items) {
		panic(typeErrorf("not enough arguments for format string"))
	}
	p.used++
	return p.items[p.used-1]
}

// read takes a placeholder off the layout, without its %, with its value; none for %%.
func (p *placeholders) read() (s spec, verb byte, value any) {
	value = p.named()
	s = spec{fill: " ", precision: -1}
	for p.begins("-+ #0") {
		s.flag(p.take())
	}
	s.width = p.number()
	if s.width < 0 {
		s.align, s.width = '<', -s.width
	}
	if p.begins(".") {
		p.take()
		s.precision = p.number()
	}
	for p.begins("hlL") {
		p.take()
	}
	if p.rest == "" {
		panic(raisef("ValueError", "incomplete format"))
	}
	verb = p.take()
	if verb != '%' && value == missing {
		value = p.next()
	}
	return s, verb, value
}

// named is the value of a placeholder with a name in brackets, or missing.
func (p *placeholders) named() any {
	if !p.begins("(") {
		return missing
	}
	key, rest, closed := strings.Cut(p.rest[1:], ")")
	if !closed || p.dict == nil {
		panic(typeErrorf("format requires a mapping"))
	}
	v, ok := p.dict.Get(key)
	if !ok {
		panic(raisef("KeyError", "%s", reprString(key)))
	}
	p.rest = rest
	return v
}

// number reads a width or a precision; * is the next value.
func (p *placeholders) number() int {
	if p.begins("*") {
		p.take()
		return intArg(p.next(), 0)
	}
	n := 0
	for p.begins("0123456789") {
		n = min(n*10+int(p.take()-'0'), math.MaxInt32)
	}
	return n
}

// begins reports whether the rest begins with one of these bytes.
func (p *placeholders) begins(with string) bool {
	return p.rest != "" && strings.IndexByte(with, p.rest[0]) >= 0
}

func (p *placeholders) take() byte {
	c := p.rest[0]
	p.rest = p.rest[1:]
	return c
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
