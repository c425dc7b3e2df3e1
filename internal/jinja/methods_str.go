package jinja

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

type stringMethod func(st *state, s string, a arguments) any

// textArg is argument v as a text.
func textArg(fn string, v any) string {
	s, ok := str(v)
	if !ok {
		defined(v)
		panic(typeErrorf("%s() argument must be str, not %s", fn, typeName(v)))
	}
	return s
}

func intArg(v any, none int) int {
	if v == missing {
		return none
	}
	i, ok := integer(v)
	if !ok {
		defined(v)
		panic(typeErrorf("'%s' object cannot be interpreted as an integer", typeName(v)))
	}
	return i
}

func positional(fn string, a arguments, required int, params ...string) []any {
	if len(a.kw) > 0 {
		panic(typeErrorf("str.%s() takes no keyword arguments", fn))
	}
	return a.take(fn, required, params...)
}

// builtinStringMethods are the methods of Python's str.
func builtinStringMethods() map[string]stringMethod {
	return map[string]stringMethod{
		"strip":      strip(strings.Trim, strings.TrimFunc),
		"lstrip":     strip(strings.TrimLeft, strings.TrimLeftFunc),
		"rstrip":     strip(strings.TrimRight, strings.TrimRightFunc),
		"split":      func(st *state, s string, a arguments) any { return &List{st.split("split", s, a, false)} },
		"rsplit":     func(st *state, s string, a arguments) any { return &List{st.split("rsplit", s, a, true)} },
		"splitlines": splitLines,
		"startswith": affix("startswith", strings.HasPrefix),
		"endswith":   affix("endswith", strings.HasSuffix),
		"replace": func(st *state, s string, a arguments) any {
			p := positional("replace", a, 2, "old", "new", "count")
			return st.replace(s, textArg("replace", p[0]), textArg("replace", p[1]), intArg(p[2], -1))
		},
		"upper":      plain("upper", upperText),
		"lower":      plain("lower", lowerText),
		"casefold":   plain("casefold", func(s string) string { return strings.ReplaceAll(lowerText(s), "ß", "ss") }),
		"title":      plain("title", titleText),
		"capitalize": plain("capitalize", capitalize),
		"swapcase":   plain("swapcase", swapCase),
		"find":       finder("find", strings.Index, false),
		"rfind":      finder("rfind", strings.LastIndex, false),
		"index":      finder("index", strings.Index, true),
		"rindex":     finder("rindex", strings.LastIndex, true),
		"count": func(st *state, s string, a arguments) any {
			p := positional("count", a, 1, "sub", "start", "end")
			part, _, ok := st.window(s, p[1], p[2])
			if !ok {
				return 0
			}
			return strings.Count(part, textArg("count", p[0]))
		},
		"encode":       encodeMethod,
		"join":         joinMethod,
		"format":       func(st *state, s string, a arguments) any { return st.format(s, a) },
		"isalpha":      every("isalpha", unicode.IsLetter),
		"isdigit":      every("isdigit", isDigit),
		"isdecimal":    every("isdecimal", unicode.IsDigit),
		"isnumeric":    every("isnumeric", unicode.IsNumber),
		"isspace":      every("isspace", isSpace),
		"isalnum":      every("isalnum", func(r rune) bool { return unicode.IsLetter(r) || unicode.IsNumber(r) }),
		"isascii":      func(_ *state, s string, a arguments) any { a.none("isascii"); return isASCII(s) },
		"isprintable":  func(_ *state, s string, a arguments) any { a.none("isprintable"); return all(s, printable) },
		"isidentifier": func(_ *state, s string, a arguments) any { a.none("isidentifier"); return isIdentifier(s) },
		"isupper":      cased("isupper", unicode.IsLower, unicode.IsUpper),
		"islower":      cased("islower", unicode.IsUpper, unicode.IsLower),
		"istitle":      func(_ *state, s string, a arguments) any { a.none("istitle"); return isTitle(s) },
		"center":       padder("center"),
		"ljust":        padder("ljust"),
		"rjust":        padder("rjust"),
		"zfill":        zfill,
		"partition":    partition("partition", strings.Index),
		"rpartition":   partition("rpartition", strings.LastIndex),
		"removeprefix": cutter("removeprefix", strings.TrimPrefix),
		"removesuffix": cutter("removesuffix", strings.TrimSuffix),
		"expandtabs":   expandTabs,
	}
}

func strip(set func(string, string) string, fn func(string, func(rune) bool) string) stringMethod {
	return func(_ *state, s string, a arguments) any {
		if len(a.pos)+len(a.kw) == 0 {
			return fn(s, isSpace)
		}
		p := positional("strip", a, 0, "chars")
		if p[0] == nil {
			return fn(s, isSpace)
		}
		chars, ok := str(p[0])
		if !ok {
			defined(p[0])
			panic(typeErrorf("strip arg must be None or str"))
		}
		return set(s, chars)
	}
}

func plain(name string, fn func(string) string) stringMethod {
	return func(_ *state, s string, a arguments) any {
		a.none("str." + name)
		return fn(s)
	}
}

func upperText(s string) string {
	if isASCII(s) {
		return strings.ToUpper(s)
	}
	return strings.ReplaceAll(strings.ToUpper(s), "ß", "SS")
}

// lowerText is str.lower: a capital sigma at the end of a word becomes ς.
func lowerText(s string) string {
	out := strings.ToLower(strings.ReplaceAll(s, "İ", "i̇"))
	if !strings.Contains(s, "Σ") {
		return out
	}
	in, runes := []rune(strings.ReplaceAll(s, "İ", "i̇")), []rune(out)
	for i, r := range in {
		if r == 'Σ' && i > 0 && unicode.IsLetter(in[i-1]) && (i+1 == len(in) || !unicode.IsLetter(in[i+1])) {
			runes[i] = 'ς'
		}
	}
	return string(runes)
}

func titleText(s string) string {
	inside := false
	return strings.Map(func(r rune) rune {
		defer func() { inside = isCased(r) }()
		if inside {
			return unicode.ToLower(r)
		}
		return unicode.ToTitle(r)
	}, s)
}

func isCased(r rune) bool { return unicode.IsUpper(r) || unicode.IsLower(r) || unicode.IsTitle(r) }

func capitalize(s string) string {
	r, n := utf8.DecodeRuneInString(s)
	if n == 0 {
		return s
	}
	if r == 'ß' {
		return "Ss" + lowerText(s[n:])
	}
	return string(unicode.ToTitle(r)) + lowerText(s[n:])
}

func swapCase(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsUpper(r) {
			return unicode.ToLower(r)
		}
		return unicode.ToUpper(r)
	}, s)
}

func affix(name string, has func(string, string) bool) stringMethod {
	return func(st *state, s string, a arguments) any {
		p := positional(name, a, 1, "prefix", "start", "end")
		s, _, ok := st.window(s, p[1], p[2])
		if t, isTuple := p[0].(*Tuple); isTuple {
			for _, x := range t.items {
				if ok && has(s, textArg(name, x)) {
					return true
				}
			}
			return false
		}
		part, isText := str(p[0])
		if !isText {
			defined(p[0])
			panic(typeErrorf("%s first arg must be str or a tuple of str, not %s", name, typeName(p[0])))
		}
		return ok && has(s, part)
	}
}

// window is s[start:end] and the code points before it.
func (st *state) window(s string, start, end any) (string, int, bool) {
	if start == missing && end == missing {
		return s, 0, true
	}
	if start == missing {
		start = nil
	}
	if end == missing {
		end = nil
	}
	n := utf8.RuneCountInString(s)
	from, _, _ := bounds(n, start, nil, nil)
	if i, ok := integer(start); ok && i > n {
		return "", 0, false
	} else if ok && i == n {
		from = n
	}
	return st.sliceText(s, start, end, nil), from, true
}

func finder(name string, find func(string, string) int, must bool) stringMethod {
	return func(st *state, s string, a arguments) any {
		p := positional(name, a, 1, "sub", "start", "end")
		sub := textArg(name, p[0])
		part, before, ok := st.window(s, p[1], p[2])
		i := -1
		if ok {
			i = find(part, sub)
		}
		if i >= 0 {
			return before + utf8.RuneCountInString(part[:i])
		}
		if must {
			panic(raisef("ValueError", "substring not found"))
		}
		return -1
	}
}

func joinMethod(st *state, s string, a arguments) any {
	it := st.iterate(a.one("str.join"))
	var parts []string
	size := 0
	for v, ok := it.next(); ok; v, ok = it.next() {
		t, isText := str(v)
		if !isText {
			panic(typeErrorf("sequence item %d: expected str instance, %s found", len(parts), typeName(v)))
		}
		parts = append(parts, t)
		size += len(t) + len(s)
		st.step(len(t) + len(s))
		if size > st.maxBytes {
			panic(limitf("a text of %d bytes exceeds %d", size, st.maxBytes))
		}
	}
	return strings.Join(parts, s)
}

func all(s string, is func(rune) bool) bool {
	for _, r := range s {
		if !is(r) {
			return false
		}
	}
	return true
}

func every(name string, is func(rune) bool) stringMethod {
	return func(_ *state, s string, a arguments) any {
		a.none("str." + name)
		return s != "" && all(s, is)
	}
}

func cased(name string, wrong, right func(rune) bool) stringMethod {
	return func(_ *state, s string, a arguments) any {
		a.none("str." + name)
		return strings.IndexFunc(s, right) >= 0 && strings.IndexFunc(s, wrong) < 0
	}
}

func isDigit(r rune) bool {
	return unicode.IsDigit(r) || strings.ContainsRune("²³¹⁰⁴⁵⁶⁷⁸⁹₀₁₂₃₄₅₆₇₈₉", r)
}

func isIdentifier(s string) bool {
	for i, r := range s {
		if !isNamePart(r) || i == 0 && unicode.IsDigit(r) {
			return false
		}
	}
	return s != ""
}

func isTitle(s string) bool {
	found, inside := false, false
	for _, r := range s {
		if unicode.IsUpper(r) && inside || unicode.IsLower(r) && !inside {
			return false
		}
		inside = isCased(r)
		found = found || inside
	}
	return found
}

func padder(name string) stringMethod {
	return func(st *state, s string, a arguments) any {
		p := positional(name, a, 1, "width", "fillchar")
		fill := " "
		if p[1] != missing {
			fill = textArg(name, p[1])
			if utf8.RuneCountInString(fill) != 1 {
				panic(typeErrorf("The fill character must be exactly one character long"))
			}
		}
		return st.pad(s, intArg(p[0], 0), fill, name)
	}
}

func (st *state) pad(s string, width int, fill, side string) string {
	n := width - utf8.RuneCountInString(s)
	if n <= 0 {
		return s
	}
	if n > st.maxBytes {
		panic(limitf("padding of %d characters exceeds %d", n, st.maxBytes))
	}
	st.size(n*len(fill) + len(s))
	left := 0
	switch side {
	case "rjust":
		left = n
	case "center":
		left = n/2 + n&width&1
	}
	return strings.Repeat(fill, left) + s + strings.Repeat(fill, n-left)
}

func zfill(st *state, s string, a arguments) any {
	width := intArg(a.one("str.zfill"), 0)
	if s != "" && (s[0] == '-' || s[0] == '+') {
		return s[:1] + st.pad(s[1:], width-1, "0", "rjust")
	}
	return st.pad(s, width, "0", "rjust")
}

func partition(name string, find func(string, string) int) stringMethod {
	return func(_ *state, s string, a arguments) any {
		sep := textArg(name, a.one("str."+name))
		if sep == "" {
			panic(raisef("ValueError", "empty separator"))
		}
		i := find(s, sep)
		switch {
		case i >= 0:
			return &Tuple{[]any{s[:i], sep, s[i+len(sep):]}}
		case name == "rpartition":
			return &Tuple{[]any{"", "", s}}
		}
		return &Tuple{[]any{s, "", ""}}
	}
}

func cutter(name string, cut func(string, string) string) stringMethod {
	return func(_ *state, s string, a arguments) any { return cut(s, textArg(name, a.one("str."+name))) }
}

func expandTabs(st *state, s string, a arguments) any {
	size := intArg(a.take("expandtabs", 0, "tabsize")[0], 8)
	st.size(len(s) + strings.Count(s, "\t")*min(max(size, 0), 1<<20))
	var b strings.Builder
	col := 0
	for _, r := range s {
		switch {
		case r == '\t':
			n := 0
			if size > 0 {
				n = size - col%size
			}
			st.size(b.Len() + n)
			b.WriteString(strings.Repeat(" ", n))
			col += n
		case r == '\n' || r == '\r':
			col = 0
			b.WriteRune(r)
		default:
			col++
			b.WriteRune(r)
		}
	}
	return b.String()
}
