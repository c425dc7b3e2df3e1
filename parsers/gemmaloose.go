package parsers

import (
	"slices"
	"strings"

	"hermes/internal/pyvalue"
	"hermes/internal/schema"
)

// marked reads the string whose opening mark is at r.i, in our dialect. It ends at the
// first mark behind which an argument, a list or a call goes on or ends. A mark before that
// one is part of the string; the model meant a quote, and another reading is possible.
func (r *gemmaReader) marked(s, root schema.Node) string {
	text, from := r.p.text, r.i+len(r.mark)
	inner, first := 0, -1
	for e := r.p.index(r.mark, from); e >= 0; e = r.p.index(r.mark, e+len(r.mark)) {
		if first < 0 {
			first = e
		}
		if r.ends(e + len(r.mark)) {
			r.i = e + len(r.mark)
			raw := text[from:e]
			if inner > 0 {
				r.doubt(Ambiguous)
				if r.mark != "<escape>" {
					raw = strings.ReplaceAll(raw, r.mark, `"`)
				}
			}
			return r.typed(s, root, raw)
		}
		if comma := r.keyBefore(from, e); comma > from { // the mark opens the next argument
			r.doubt(Recovered)
			r.i = comma
			return r.typed(s, root, text[from:comma])
		}
		if c := r.p.index(r.close, from); c >= 0 && c < e && r.p.spent > len(text) {
			break
		}
		inner++
		r.p.spent += e - from
		if r.p.spent > 8*len(text)+1<<16 {
			break
		}
	}
	if first < 0 {
		r.cut = true
		r.i = len(text)
		return quote(text[from:])
	}
	r.doubt(Malformed)
	r.i = first + len(r.mark)
	return quote(text[from:first])
}

// typed is a string as the schema wants it. A marked text stays text where texts are allowed.
func (r *gemmaReader) typed(s, root schema.Node, raw string) string {
	switch {
	case s != nil && !slices.Contains(s.Types(root), "string"):
		return r.p.declared(s, root, raw)
	case s == nil && root == nil && r.mark == "<escape>" && isJSON(raw):
		return strings.TrimSpace(raw)
	}
	return quote(raw)
}

// ends says that a value may end before i.
func (r *gemmaReader) ends(i int) bool {
	text := r.p.text
	k := r.p.skipSpace(i)
	closed := false
	for k < len(text) && (text[k] == '}' || text[k] == ']') {
		closed = true
		k = r.p.skipSpace(k + 1)
	}
	switch {
	case k == len(text):
		return true
	case r.p.at(r.close, k):
		mark, open := r.p.index(r.mark, k), r.p.index(r.open, k)
		return mark < 0 || open >= 0 && open < mark // else a text ends behind the call
	case text[k] != ',':
		return closed && strings.HasPrefix(text[k:], "<|tool_call>")
	}
	k = r.p.skipSpace(k + 1)
	if k == len(text) || r.p.at(r.mark, k) || strings.IndexByte("{[}]\"'-", text[k]) >= 0 {
		return true
	}
	w := k
	for w < len(text) && (isWord(text[w]) || text[w] == '-' || text[w] == '.') {
		w++
	}
	if w == k {
		return false
	}
	v := r.p.skipSpace(w)
	if r.object { // a key follows, not another word of the value
		return v == len(text) || text[v] == ':' || text[v] == '='
	}
	return v == len(text) || strings.IndexByte(":=,]}", text[v]) >= 0
}

// keyBefore finds the comma of ",KEY:" that is right before e, not before from; -1 is none.
func (r *gemmaReader) keyBefore(from, e int) int {
	text := strings.TrimRight(r.p.text[from:e], " ")
	if !strings.HasSuffix(text, ":") {
		return -1
	}
	text = strings.TrimRight(text[:len(text)-1], " ")
	n := len(text)
	for n > 0 && isWord(text[n-1]) {
		n--
	}
	if n == len(text) {
		return -1
	}
	text = strings.TrimRight(text[:n], " ")
	if !strings.HasSuffix(text, ",") {
		return -1
	}
	return from + len(text) - 1
}

// quoted reads a string as JSON or Python write it: models do so in lists.
func (r *gemmaReader) quoted(s, root schema.Node) (string, bool) {
	v, n, err := pyvalue.Read(r.p.text[r.i:], pyvalue.Options{RawNewlines: true, JSONEscapes: true})
	if err != nil || !r.ends(r.i+n) {
		r.p.spent += n
		return "", false
	}
	t, ok := unquote(v)
	if !ok {
		return "", false
	}
	r.i += n
	r.doubt(Recovered)
	if s != nil && !slices.Contains(s.Types(root), "string") {
		return r.p.bySchema(s, root, t), true
	}
	return quote(t), true
}

// bareEnd is where a value without marks ends that stopped at i: a lone closing mark ends it,
// and in an object a comma that no key follows is part of it.
func (r *gemmaReader) bareEnd(from, i int) int {
	text := r.p.text
	if m := r.p.index(r.mark, from); m >= 0 && m <= i+256 && r.ends(m+len(r.mark)) && !strings.ContainsAny(text[min(i, m):m], ":={}[]") {
		r.doubt(Recovered)
		return m + len(r.mark)
	}
	for r.object && i < len(text) && text[i] == ',' && !r.ends(i) {
		r.doubt(Recovered)
		for i++; i < len(text) && strings.IndexByte(",}]", text[i]) < 0 && !r.p.at(r.close, i); i++ {
		}
	}
	if strings.TrimSpace(text[from:i]) == "" {
		r.doubt(Recovered)
	}
	return i
}
