package parsers

import (
	"strings"

	"hermes/internal/pyvalue"
)

// Bounds of reading lists of calls with nested quotes: bytes of one list, and places that
// are tried in one answer.
const (
	maxNested      = 16 << 10
	maxNestedTries = 4000
)

// nestedQuotes reads [f(k='it's'), …] at i..end, where quotes inside a string are not
// escaped: a quote ends its string only where an argument or a call can end. The calls are
// added, as recovered, if exactly one reading of the whole list is possible.
func (p *parse) nestedQuotes(i, end int) bool {
	text := strings.TrimSpace(p.text[i:end])
	if len(text) < 2 || len(text) > maxNested || text[0] != '[' || text[len(text)-1] != ']' {
		return false
	}
	n := &quoteReader{p: p, text: text, o: p.pyOptions()}
	bytes := false
	n.o.RawNewlines, n.o.ZeroPadded, n.o.Odd = true, true, &bytes
	n.calls(1, nil)
	if len(n.readings) != 1 || p.nested > maxNestedTries || bytes && p.opt.Dialect != Ours {
		return false
	}
	for k, c := range n.readings[0] {
		a, b := i+c.a, i+c.b
		if k == 0 {
			a = i
		}
		p.call(a, b, c.name, p.object(c.ps), Recovered)
	}
	return true
}

type nestedCall struct {
	name string
	ps   []pair
	a, b int
}

// quoteReader looks for the readings of one list.
type quoteReader struct {
	p        *parse
	text     string
	o        pyvalue.Options
	readings [][]nestedCall // at most two: more do not matter
}

func (n *quoteReader) over() bool {
	n.p.nested++
	return n.p.nested > maxNestedTries || len(n.readings) > 1
}

func (n *quoteReader) space(at int) int {
	for at < len(n.text) && isSpace(n.text[at]) {
		at++
	}
	return at
}

// calls reads calls from at to the closing bracket.
func (n *quoteReader) calls(at int, before []nestedCall) {
	if n.over() {
		return
	}
	at = n.space(at)
	j := at
	for j < len(n.text) && (isWord(n.text[j]) || n.text[j] == '.' || n.text[j] == '-') {
		j++
	}
	if j == at || j == len(n.text) || n.text[j] != '(' {
		return
	}
	n.arguments(j+1, nestedCall{name: n.text[at:j], a: at}, before)
}

// arguments reads k=v pairs from at on, then the rest of the list.
func (n *quoteReader) arguments(at int, c nestedCall, before []nestedCall) {
	if n.over() {
		return
	}
	at = n.space(at)
	if at < len(n.text) && n.text[at] == ')' {
		n.after(at+1, c, before)
		return
	}
	w := at
	for w < len(n.text) && isWord(n.text[w]) {
		w++
	}
	v := n.space(w)
	if w == at || v >= len(n.text) || n.text[v] != '=' {
		return
	}
	v, key := n.space(v+1), n.text[at:w]
	next := func(end int, value string) {
		d := c
		d.ps = append(d.ps[:len(d.ps):len(d.ps)], pair{key, value})
		switch e := n.space(end); {
		case e < len(n.text) && n.text[e] == ',':
			n.arguments(e+1, d, before)
		case e < len(n.text) && n.text[e] == ')':
			n.after(e+1, d, before)
		}
	}
	if v < len(n.text) && (n.text[v] == '\'' || n.text[v] == '"') {
		n.strings(v, next)
	} else if v < len(n.text) {
		if value, used, err := pyvalue.Read(n.text[v:], n.o); err == nil {
			next(v+used, value)
		}
	}
}

// strings tries each place where the string that begins at v can end.
func (n *quoteReader) strings(v int, next func(end int, value string)) {
	quote := n.text[v : v+1]
	for k := v + 1; k < len(n.text) && !n.over(); k++ {
		if n.text[k] != quote[0] || n.text[k-1] == '\\' {
			continue
		}
		if e := n.space(k + 1); e < len(n.text) && (n.text[e] == ')' || n.text[e] == ',' && n.key(e+1)) {
			inner := strings.ReplaceAll(strings.ReplaceAll(n.text[v+1:k], "\\"+quote, quote), quote, "\\"+quote)
			if value, used, err := pyvalue.Read(quote+inner+quote, n.o); err == nil && used == len(inner)+2 {
				next(k+1, value)
			}
		}
	}
}

// key tells whether NAME= is at i.
func (n *quoteReader) key(i int) bool {
	i = n.space(i)
	w := i
	for w < len(n.text) && isWord(n.text[w]) {
		w++
	}
	w2 := n.space(w)
	return w > i && w2 < len(n.text) && n.text[w2] == '='
}

// after goes on behind a call.
func (n *quoteReader) after(at int, c nestedCall, before []nestedCall) {
	c.b = at
	done := append(before[:len(before):len(before)], c)
	switch at = n.space(at); {
	case at < len(n.text) && n.text[at] == ',':
		n.calls(at+1, done)
	case at == len(n.text)-1 && n.text[at] == ']':
		n.readings = append(n.readings, done)
	}
}
