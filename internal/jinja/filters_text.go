package jinja

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// toJSON is json.dumps with Transformers' parameters in their order.
func toJSON(st *state, v any, a arguments) any {
	e := &encoder{st: st, b: st.json[:0], item: ", ", key: ": "}
	if len(a.pos)+len(a.kw) > 0 {
		st.jsonOptions(e, a)
	}
	e.value(v, 0)
	st.json = e.b
	return string(e.b)
}

func (st *state) jsonOptions(e *encoder, a arguments) {
	p := a.take("tojson", 0, "ensure_ascii", "indent", "separators", "sort_keys")
	e.ascii = p[0] != missing && st.truth(p[0])
	e.sortKeys = p[3] != missing && st.truth(p[3])
	if p[1] != missing && p[1] != nil {
		e.multiline, e.item = true, ","
		if s, ok := str(p[1]); ok {
			e.indent = s
		} else {
			e.indent = st.pad("", intArg(p[1], 0), " ", "ljust")
		}
	}
	if p[2] != missing && p[2] != nil {
		pair := st.collect(p[2])
		if len(pair) != 2 {
			panic(raisef("ValueError", "separators must be a pair, not %d items", len(pair)))
		}
		e.item, e.key = textArg("tojson", pair[0]), textArg("tojson", pair[1])
	}
}

func stripTags(st *state, v any, a arguments) any {
	a.none("striptags")
	s := st.text(v)
	for {
		i := strings.Index(s, "<!--")
		if i < 0 {
			break
		}
		j := strings.Index(s[i:], "-->")
		if j < 0 {
			break
		}
		st.step(len(s))
		s = s[:i] + s[i+j+3:]
	}
	for {
		i := strings.IndexByte(s, '<')
		if i < 0 {
			break
		}
		j := strings.IndexByte(s[i:], '>')
		if j < 0 {
			break
		}
		st.step(len(s))
		s = s[:i] + s[i+j+1:]
	}
	s = strings.Join(strings.FieldsFunc(s, isSpace), " ")
	return strings.NewReplacer("&lt;", "<", "&gt;", ">", "&quot;", `"`, "&#39;", "'", "&#34;", `"`, "&amp;", "&").Replace(s)
}

func wordCount(st *state, v any, a arguments) any {
	a.none("wordcount")
	return len(strings.FieldsFunc(st.text(v), func(r rune) bool {
		return r != '_' && !unicode.IsLetter(r) && !unicode.IsNumber(r)
	}))
}

// wordWrap breaks lines at spaces; words longer than the width are cut.
func wordWrap(st *state, v any, a arguments) any {
	p := a.take("wordwrap", 0, "width", "break_long_words", "wrapstring", "break_on_hyphens")
	width, sep := intArg(p[0], 79), "\n"
	if p[2] != missing && p[2] != nil {
		sep = st.text(p[2])
	}
	if width <= 0 {
		panic(raisef("ValueError", "invalid width %d (must be > 0)", width))
	}
	breakLong := p[1] == missing || st.truth(p[1])
	s := st.text(v)
	st.size(len(s) * (1 + len(sep)))
	var out []string
	for _, line := range lines(s) {
		out = append(out, wrapLine(strings.TrimRightFunc(line, isLineEnd), width, breakLong)...)
	}
	return strings.Join(out, sep)
}

func wrapLine(line string, width int, breakLong bool) []string {
	var out []string
	current, used := "", 0
	flush := func() {
		if c := strings.TrimRight(current, " "); c != "" {
			out = append(out, c)
		}
		current, used = "", 0
	}
	for line != "" {
		end := strings.IndexByte(line, ' ')
		if end == 0 {
			end = len(line) - len(strings.TrimLeft(line, " "))
		}
		if end < 0 {
			end = len(line)
		}
		word := line[:end]
		line = line[end:]
		n := utf8.RuneCountInString(word)
		if used+n > width && used > 0 && (n <= width || !breakLong) {
			flush()
		}
		if word[0] == ' ' && used == 0 && len(out) > 0 {
			continue
		}
		for breakLong && n > width {
			runes := []rune(word)
			take := width - used
			current += string(runes[:take])
			flush()
			word, n = string(runes[take:]), n-take
		}
		current += word
		used += n
	}
	flush()
	if len(out) == 0 {
		return []string{""}
	}
	return out
}

func urlEncode(st *state, v any, a arguments) any {
	a.none("urlencode")
	var pairs []any
	switch d := v.(type) {
	case string, Markup:
		return quoteURL(st.text(v), "/")
	case *Dict:
		pairs = st.collect(&dictView{d, "items"})
	case *List, *Tuple, *generator:
		pairs = st.collect(v)
	default:
		return quoteURL(st.text(v), "/")
	}
	var parts []string
	for _, p := range pairs {
		kv := st.collect(p)
		if len(kv) != 2 {
			panic(raisef("ValueError", "urlencode: a pair has %d items", len(kv)))
		}
		parts = append(parts, quoteQuery(st.text(kv[0]))+"="+quoteQuery(st.text(kv[1])))
	}
	return strings.Join(parts, "&")
}

func quoteQuery(s string) string { return strings.ReplaceAll(quoteURL(s, ""), "%20", "+") }

func quoteURL(s, safe string) string {
	b := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("_.-~"+safe, c) >= 0 {
			b = append(b, c)
			continue
		}
		b = append(b, '%', "0123456789ABCDEF"[c>>4], "0123456789ABCDEF"[c&15])
	}
	return string(b)
}

func formatFilter(st *state, v any, a arguments) any {
	if len(a.pos) > 0 && len(a.kw) > 0 {
		panic(raisef("FilterArgumentError", "can't handle positional and keyword arguments at the same time"))
	}
	var operand any = &Tuple{a.pos}
	if len(a.kw) > 0 {
		d := NewDict()
		for _, k := range a.kw {
			d.put(k.name, k.value)
		}
		operand = d
	}
	return like(v, st.printf(st.text(v), operand))
}
