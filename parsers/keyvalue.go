package parsers

import (
	"strings"

	"hermes/internal/schema"
)

// keyValue reads <open>NAME<key>k</key><value>v</value>…<close>.
type keyValue struct {
	outer, outerClose string // around all calls; may be empty
	open, close, sep  string
	key, keyClose     string
	kind, kindClose   string // around the type of a value, between key and value; may be empty
	val, valClose     string
	json              bool // an object {"name", "arguments"} may be in place of name and pairs
	bare              bool // in our dialect: calls without the marks around all calls are recovered
	strict            bool // a call that holds other text is none
	loose             bool // the marks around all calls are not whole
}

func (g keyValue) read(p *parse) {
	at := p.pos
	first := g.open
	if g.outer != "" {
		first = g.outer
	}
	for {
		i := p.index(first, at)
		if g.bare && p.opt.Dialect == Ours {
			if b := p.index(g.open, at); b >= 0 && (i < 0 || b < i) {
				p.content(at, b)
				one := g
				one.loose = true
				at = one.call(p, b)
				p.odd = false
				continue
			}
		}
		if i < 0 {
			p.content(at, len(p.text))
			return
		}
		p.content(at, i)
		if g.outer == "" {
			at = g.call(p, i)
			continue
		}
		at = g.group(p, i)
	}
}

// group reads the calls between the outer marks.
func (g keyValue) group(p *parse, i int) int {
	at := i + len(g.outer)
	if p.k.NeedClose && p.index(g.outerClose, at) < 0 {
		p.refuse(i, len(p.text), "truncated", "%s without %s", g.outer, g.outerClose)
		return len(p.text)
	}
	p.frame(i, at)
	if g.bare && p.opt.Dialect == Ours && p.index(g.outerClose, at) < 0 {
		g.loose = true
		defer func() { p.odd = false }()
	}
	for {
		j := p.skipSpace(at)
		switch {
		case j == len(p.text):
			p.frame(at, j)
			return j
		case p.at(g.outerClose, j):
			p.frame(at, j+len(g.outerClose))
			return j + len(g.outerClose)
		case p.at(g.open, j):
			p.frame(at, j)
			at = g.call(p, j)
		default:
			stop := len(p.text)
			for _, m := range []string{g.open, g.outerClose} {
				if k := p.index(m, j); k >= 0 && k < stop {
					stop = k
				}
			}
			p.refuse(at, stop, "malformed", "text between the calls")
			at = stop
		}
	}
}

func (g keyValue) call(p *parse, i int) int {
	at := i + len(g.open)
	p.odd = p.odd || g.loose
	if j := p.skipSpace(at); g.json && j < len(p.text) && p.text[j] == '{' {
		return tagged{open: g.open, close: g.close, keys: nameArguments}.block(p, i)
	}
	stop := len(p.text)
	for _, m := range []string{g.sep, g.key, g.close, g.open, "\n", `\n<`} {
		if m == "" {
			continue
		}
		if j := p.index(m, at); j >= 0 && j < stop {
			if m == "\n" && strings.TrimSpace(p.text[at:j]) == "" {
				continue
			}
			stop = j
		}
	}
	name := strings.TrimSpace(p.text[at:stop])
	if stop == len(p.text) || name == "" {
		if c := p.index(g.close, at); c >= 0 && name == "" {
			stop = c + len(g.close)
			p.refuse(i, stop, "malformed", "a call without a name")
			return stop
		}
		p.refuse(i, stop, "truncated", "the text ends in the name of a call")
		return stop
	}
	if brace := strings.IndexByte(name, '{'); p.opt.Dialect == Ours && brace > 0 && !p.tools.has(name) {
		j := at + strings.IndexByte(p.text[at:], '{')
		if end, err := (scanner{text: p.text}).value(j, 0); err == nil { // an object in place of the pairs
			k := p.skipSpace(end)
			st := Recovered
			if p.at(g.close, k) {
				k += len(g.close)
			} else if k < len(p.text) {
				k, st = end, Malformed
			}
			p.call(i, k, strings.TrimSpace(name[:brace]), p.text[j:end], st)
			return k
		}
	}
	if j := p.skipSpace(stop); p.opt.Dialect == Ours && j < len(p.text) && p.text[j] == '{' {
		if end, err := (scanner{text: p.text}).value(j, 0); err == nil && p.at(g.close, p.skipSpace(end)) {
			k := p.skipSpace(end) + len(g.close)
			p.call(i, k, name, p.text[j:end], Recovered)
			return k
		}
	}
	if g.sep != "" && p.at(g.sep, stop) {
		stop += len(g.sep)
	}
	return g.pairs(p, i, name, stop)
}

func (g keyValue) pairs(p *parse, i int, name string, at int) int {
	var ps []pair
	state := Complete
	for {
		k := g.skip(p, at)
		switch {
		case k == len(p.text) && p.k.NeedEnd:
			p.refuse(i, k, "truncated", "call of %q is cut", name)
			return k
		case k == len(p.text):
			p.call(i, k, name, p.object(ps), worse(state, Truncated))
			return k
		case p.at(g.close, k):
			p.call(i, k+len(g.close), name, p.object(ps), state)
			return k + len(g.close)
		case p.at(g.open, k) || g.outerClose != "" && p.at(g.outerClose, k):
			p.call(i, k, name, p.object(ps), worse(state, Recovered))
			return k
		case p.at(g.key, k):
			one, next, st := g.pair(p, name, k)
			ps, at, state = append(ps, one...), next, worse(state, st)
		default:
			next := len(p.text)
			for _, m := range []string{g.key, g.close, g.open} {
				if j := p.index(m, k); j >= 0 && j < next {
					next = j
				}
			}
			if g.strict {
				if c := p.index(g.close, k); c >= 0 {
					next = c + len(g.close)
				}
				p.refuse(i, next, "malformed", "text between the parameters of %q", name)
				return next
			}
			p.fault(k, next, "stray_text", "text between the parameters of %q", name)
			at, state = next, worse(state, Recovered)
		}
	}
}

// skip passes blanks; SGLang also passes a spelled "\n".
func (g keyValue) skip(p *parse, i int) int {
	i = p.skipSpace(i)
	for p.at(`\n`, i) {
		i = p.skipSpace(i + 2)
	}
	return i
}

func (g keyValue) pair(p *parse, tool string, k int) ([]pair, int, State) {
	from := k + len(g.key)
	end := p.index(g.keyClose, from)
	if end < 0 {
		return nil, len(p.text), Truncated
	}
	key := strings.TrimSpace(p.text[from:end])
	v := g.skip(p, end+len(g.keyClose))
	kind := ""
	if e := p.index(g.kindClose, v); p.at(g.kind, v) && e >= 0 {
		kind = strings.TrimSpace(p.text[v+len(g.kind) : e])
		v = g.skip(p, e+len(g.kindClose))
	}
	if !p.at(g.val, v) {
		if p.opt.Dialect == Ours {
			return nil, v, worse(Malformed, cutAt(v, len(p.text))) // a key without its value
		}
		return nil, v, worse(Recovered, cutAt(v, len(p.text)))
	}
	v += len(g.val)
	end, next, st := g.valueEnd(p, v)
	if st == Truncated {
		return nil, next, st
	}
	raw := p.text[v:end]
	p.keep(key+" "+kind, v, end)
	if !p.keyLike(tool, key) {
		st = worse(st, Malformed)
	}
	if kind != "" && p.tools.params(tool).Prop(key) == nil { // the text says the type that the schema does not
		return []pair{{key, p.declared(schema.Node{"type": kind}, nil, raw)}}, next, st
	}
	return []pair{{key, p.coerce(tool, key, raw)}}, next, st
}

// plausible says, for our dialect, that a call may end before i: no value ends behind it that
// began before.
func (g keyValue) plausible(p *parse, i int) bool {
	if p.opt.Dialect != Ours {
		return true
	}
	end := p.index(g.valClose, i)
	if end < 0 {
		return true
	}
	val := p.index(g.val, i)
	return val >= 0 && val < end
}

// holds says that the value at..end holds tags of the family: it may be two.
func (g keyValue) holds(p *parse, at, end int) bool {
	for _, m := range []string{g.key, g.val, g.keyClose} {
		if i := p.index(m, at); i >= 0 && i < end {
			return true
		}
	}
	return false
}

// valueEnd finds the closing tag that is followed by frame.
func (g keyValue) valueEnd(p *parse, at int) (end, next int, st State) {
	first := p.index(g.valClose, at)
	if first < 0 {
		return len(p.text), len(p.text), Truncated
	}
	for c := first; c >= 0; c = p.index(g.valClose, c+len(g.valClose)) {
		k := g.skip(p, c+len(g.valClose))
		if k == len(p.text) || p.at(g.key, k) || p.at(g.close, k) && g.plausible(p, k+len(g.close)) || p.at(g.open, k) {
			if c == first && !(p.opt.Dialect == Ours && g.holds(p, at, c)) {
				return c, c + len(g.valClose), Complete
			}
			return c, c + len(g.valClose), Ambiguous
		}
	}
	return first, first + len(g.valClose), Complete
}
