package jinja

import "strings"

var htmlEscaper = strings.NewReplacer("&", "&amp;", ">", "&gt;", "<", "&lt;", "'", "&#39;", `"`, "&#34;")

func escapeHTML(s string) string { return htmlEscaper.Replace(s) }

// escaped is markupsafe.escape.
func (st *state) escaped(v any) Markup {
	if m, ok := v.(Markup); ok {
		return m
	}
	s := st.text(v)
	st.size(len(s))
	return Markup(escapeHTML(s))
}

// markupMethod calls a method of str on a safe text: text arguments are
// escaped and text results are safe again, as markupsafe does it.
func (st *state) markupMethod(name string, m stringMethod, s Markup, a arguments) any {
	escape := func(v any) any {
		if t, ok := v.(string); ok {
			return escapeHTML(t)
		}
		return v
	}
	switch name {
	case "join":
		var parts []any
		for _, v := range st.collect(a.one("join")) {
			parts = append(parts, string(st.escaped(v)))
		}
		a.pos = []any{&List{parts}}
	case "replace", "format", "ljust", "rjust", "center", "strip", "lstrip", "rstrip", "removeprefix", "removesuffix", "partition", "rpartition":
		b := arguments{}
		for _, v := range a.pos {
			b.pos = append(b.pos, escape(v))
		}
		for _, k := range a.kw {
			b.kw = append(b.kw, keyword{k.name, escape(k.value)})
		}
		a = b
	}
	return asMarkup(m(st, string(s), a))
}

func asMarkup(v any) any {
	switch v := v.(type) {
	case string:
		return Markup(v)
	case *List:
		for i, x := range v.items {
			v.items[i] = asMarkup(x)
		}
	case *Tuple:
		for i, x := range v.items {
			v.items[i] = asMarkup(x)
		}
	}
	return v
}
