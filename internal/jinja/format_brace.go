package jinja

import (
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

// format is str.format. Fields may reach into values by .name and [key]; a
// format inside a format may hold plain fields.
func (st *state) format(layout string, a arguments) string {
	auto := 0
	return st.braces(layout, a, &auto, 0)
}

func (st *state) braces(s string, a arguments, auto *int, depth int) string {
	if depth > 2 {
		panic(raisef("ValueError", "Max string recursion exceeded"))
	}
	var b strings.Builder
	st.step(len(s))
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c != '{' && c != '}' {
			b.WriteByte(c)
			continue
		}
		if i+1 < len(s) && s[i+1] == c {
			b.WriteByte(c)
			i++
			continue
		}
		if c == '}' {
			panic(raisef("ValueError", "Single '}' encountered in format string"))
		}
		end := closing(s, i)
		part := st.field(s[i+1:end], a, auto, depth)
		b.WriteString(part)
		if b.Len() > st.maxBytes {
			panic(limitf("a text of %d bytes exceeds %d", b.Len(), st.maxBytes))
		}
		st.step(4 * len(part))
		i = end
	}
	return b.String()
}

func closing(s string, open int) int {
	depth := 0
	for i := open; i < len(s); i++ {
		switch s[i] {
		case '{':
			depth++
		case '}':
			depth--
			if depth == 0 {
				return i
			}
		}
	}
	panic(raisef("ValueError", "expected '}' before end of string"))
}

func (st *state) field(text string, a arguments, auto *int, depth int) string {
	name, layout, _ := strings.Cut(text, ":")
	name, conversion, converts := strings.Cut(name, "!")
	v := st.fieldValue(name, a, auto)
	if converts {
		switch conversion {
		case "r", "a":
			v = st.repr(v)
		case "s":
			v = st.text(v)
		default:
			panic(raisef("ValueError", "Unknown conversion specifier %s", conversion))
		}
	}
	if strings.Contains(layout, "{") {
		layout = st.braces(layout, a, auto, depth+1)
	}
	return st.formatted(v, layout)
}

func (st *state) fieldValue(name string, a arguments, auto *int) any {
	first := strings.IndexAny(name, ".[")
	if first < 0 {
		first = len(name)
	}
	head, path := name[:first], name[first:]
	var v any
	i, err := strconv.Atoi(head)
	switch {
	case head == "" || err == nil:
		i = numbering(i, head == "", auto)
		if i < 0 || i >= len(a.pos) {
			panic(raisef("IndexError", "Replacement index %d out of range for positional args tuple", i))
		}
		v = a.pos[i]
	default:
		v = missing
		for _, k := range a.kw {
			if k.name == head {
				v = k.value
			}
		}
		if v == missing {
			panic(raisef("KeyError", "%s", reprString(head)))
		}
	}
	for path != "" {
		if path[0] == '.' {
			end := strings.IndexAny(path[1:], ".[")
			if end < 0 {
				end = len(path) - 1
			}
			v = st.attr(v, path[1:1+end])
			path = path[1+end:]
			continue
		}
		end := strings.IndexByte(path, ']')
		if end < 0 {
			panic(raisef("ValueError", "expected '}' before end of string"))
		}
		if n, err := strconv.Atoi(path[1:end]); err == nil {
			v = st.item(v, n)
		} else {
			v = st.item(v, path[1:end])
		}
		path = path[end+1:]
		if path != "" && path[0] != '.' && path[0] != '[' {
			panic(raisef("ValueError", "Only '.' or '[' may follow ']' in format field specifier"))
		}
	}
	return v
}

// numbering is the index of a field; counted and given ones do not mix.
func numbering(given int, counted bool, auto *int) int {
	if counted && *auto < 0 || !counted && *auto > 0 {
		panic(raisef("ValueError", "cannot switch between automatic field numbering and manual field specification"))
	}
	if !counted {
		*auto = -1
		return given
	}
	*auto++
	return *auto - 1
}

// formatted is Python's format(v, layout).
func (st *state) formatted(v any, layout string) string {
	if layout == "" {
		return st.text(v)
	}
	s := spec{fill: " ", precision: -1}
	_, n := utf8.DecodeRuneInString(layout)
	rest := layout
	switch {
	case len(rest) > n && strings.IndexByte("<>=^", rest[n]) >= 0:
		s.fill = rest[:n]
		s.align = rest[n]
		rest = rest[n+1:]
	case strings.IndexByte("<>=^", rest[0]) >= 0:
		s.align, rest = rest[0], rest[1:]
	}
	for rest != "" && strings.IndexByte("+- #", rest[0]) >= 0 {
		if rest[0] != '-' {
			s.flag(rest[0])
		}
		rest = rest[1:]
	}
	if strings.HasPrefix(rest, "0") {
		s.zero, rest = true, rest[1:]
	}
	s.width, rest = digitsOf(rest)
	if rest != "" && (rest[0] == ',' || rest[0] == '_') {
		s.group, rest = rest[:1], rest[1:]
	}
	if strings.HasPrefix(rest, ".") {
		s.precision, rest = digitsOf(rest[1:])
	}
	if len(rest) > 1 {
		panic(raisef("ValueError", "Invalid format specifier '%s' for object of type '%s'", layout, typeName(v)))
	}
	verb := byte(0)
	if rest != "" {
		verb = rest[0]
	}
	return st.formatVerb(v, s, verb)
}

func digitsOf(s string) (int, string) {
	n := 0
	for s != "" && s[0] >= '0' && s[0] <= '9' {
		n = min(n*10+int(s[0]-'0'), math.MaxInt32)
		s = s[1:]
	}
	return n, s
}

func (st *state) formatVerb(v any, s spec, verb byte) string {
	unknown := func() {
		panic(raisef("ValueError", "Unknown format code '%c' for object of type '%s'", verb, typeName(v)))
	}
	_, _, f, kind := number(v)
	switch kind {
	case 0:
		if _, ok := str(v); !ok {
			panic(typeErrorf("unsupported format string passed to %s.__format__", typeName(v)))
		}
		if verb != 0 && verb != 's' {
			unknown()
		}
		if s.zero && s.align == 0 {
			s.fill, s.align = "0", '<'
		}
		return st.layText(s, st.text(v), '<')
	case 'i', 'b':
		switch verb {
		case 0, 'd', 'x', 'X', 'o', 'b':
			return st.layNumber(s, intText(v, verb, s))
		case 'c':
			i, _ := integer(v)
			return st.layText(s, string(rune(i)), '<')
		}
		f = toFloat(v)
	}
	switch verb {
	case 'e', 'E', 'f', 'F', 'g', 'G':
		return st.layNumber(s, st.floatVerb(f, verb, s))
	case '%':
		return st.layNumber(s, st.floatVerb(f*100, 'f', s)+"%")
	case 0:
		if s.precision < 0 {
			return st.layNumber(s, floatText(f))
		}
		text := general(f, max(s.precision, 1), s.alt)
		if !strings.ContainsAny(text, ".einf") {
			text += ".0"
		}
		return st.layNumber(s, text)
	}
	unknown()
	return ""
}
