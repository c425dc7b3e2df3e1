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
	s = strings.Join(strings.FieldsFunc(st.without(st.without(s, "<!--", "-->"), "<", ">"), isSpace), " ")
	return strings.NewReplacer("&lt;", "<", "&gt;", ">", "&quot;", `"`, "&#39;", "'", "&#34;", `"`, "&amp;", "&").Replace(s)
}

// without removes what is from open to end, the first of them first: what comes together
// then may be another.
func (st *state) without(s, open, end string) string {
	var kept []byte
	for {
		i := strings.Index(s, open)
		if i < 0 {
			break
		}
		n := strings.Index(s[i:], end)
		if n < 0 {
			break
		}
		kept = append(kept, s[:i]...)
		s = s[i+n+len(end):]
		near := max(len(kept)-len(open)+1, 0) // an opening may begin before the gap
		if seam := string(kept[near:]) + s[:min(len(open)-1, len(s))]; strings.Contains(seam, open) {
			st.step(len(s))
			s, kept = string(kept[near:])+s, kept[:near]
		}
	}
	return string(kept) + s
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
	from := 0
	to := 0
	used := 0 // the open line is line[from:to], of so many characters
	flush := func() {
		if c := strings.TrimRight(line[from:to], " "); c != "" {
			out = append(out, c)
		}
		from, used = to, 0
	}
	for to < len(line) {
		word := line[to:]
		end := strings.IndexByte(word, ' ')
		if end == 0 {
			end = len(word) - len(strings.TrimLeft(word, " "))
		}
		if end > 0 {
			word = word[:end]
		}
		n := utf8.RuneCountInString(word)
		if used+n > width && used > 0 && (n <= width || !breakLong) {
			flush()
		}
		if word[0] == ' ' && used == 0 && len(out) > 0 {
			to += len(word)
			from = to
			continue
		}
		for breakLong && n > width {
			size := 0
			for range width - used {
				_, k := utf8.DecodeRuneInString(word[size:])
				size += k
			}
			n -= width - used
			to, word = to+size, word[size:]
			flush()
		}
		to += len(word)
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
