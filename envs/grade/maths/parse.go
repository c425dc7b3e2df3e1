package maths

import (
	"errors"
	"math/big"
	"slices"
	"strings"
)

// maxDepth bounds nesting.
const maxDepth = 150

var errSyntax = errors.New("cannot be read as mathematics")

// parse reads tidied text.
func parse(s string) (*node, error) {
	toks, ok := lex(s)
	for len(toks) > 0 && slices.Contains([]string{".", ",", ";", "cr"}, toks[len(toks)-1].text) {
		toks = toks[:len(toks)-1]
	}
	if !ok || len(toks) == 0 {
		return nil, errSyntax
	}
	p := &parser{toks: toks}
	n := p.list()
	if p.failed || p.pos < len(p.toks) {
		return nil, errSyntax
	}
	return n, nil
}

// parser reads by recursive descent. After a failure peek gives the end, so that all
// callers return.
type parser struct {
	toks   []token
	pos    int
	depth  int
	bars   int // open |
	failed bool
}

func (p *parser) peek() token {
	if p.failed || p.pos >= len(p.toks) {
		return token{}
	}
	return p.toks[p.pos]
}

func (p *parser) fail() *node {
	p.failed = true
	return sym("?")
}

// take goes past the next token if it has one of the texts.
func (p *parser) take(k kind, texts ...string) (string, bool) {
	if t := p.peek(); t.kind == k && k != end && slices.Contains(texts, t.text) {
		p.pos++
		return t.text, true
	}
	return "", false
}

// list reads elements up to what cannot follow one.
func (p *parser) list() *node {
	p.depth++
	if p.depth > maxDepth {
		return p.fail()
	}
	defer func() { p.depth-- }()
	var kids []*node
	for {
		for { // empty places: ", and"
			if t := p.peek(); len(kids) > 0 && t.kind == prose && conjunction(t.text) {
				p.pos++
				continue
			}
			if _, ok := p.take(mark, ",", ";"); !ok || len(kids) == 0 {
				break
			}
		}
		kids = append(kids, p.relation())
		t := p.peek()
		if t.kind == prose && conjunction(t.text) {
			p.pos++
			continue
		}
		if t.kind == mark && (t.text == "," || t.text == ";") {
			if p.pos+1 < len(p.toks) {
				p.pos++
				continue
			}
		}
		break
	}
	if len(kids) == 1 {
		return kids[0]
	}
	return &node{op: oList, kids: kids}
}

// conjunction tells whether text joins two answers: and, or, "for part (a) and".
func conjunction(text string) bool {
	for _, w := range strings.Fields(strings.ToLower(text)) {
		w = strings.Trim(w, ",.")
		if w == "and" || w == "or" {
			return true
		}
	}
	return text == ","
}

func relOf(t token) string {
	switch {
	case t.kind == mark && (t.text == "=" || t.text == "<" || t.text == ">"):
		return t.text
	case t.kind == command:
		switch t.text {
		case "le", "leq", "leqslant":
			return "≤"
		case "ge", "geq", "geqslant":
			return "≥"
		case "lt":
			return "<"
		case "gt":
			return ">"
		case "ne", "neq":
			return "≠"
		case "in":
			return "∈"
		case "approx", "sim", "simeq":
			return "≈"
		case "equiv":
			return "="
		}
	}
	return ""
}

// relation reads a = b < c. What follows ≈ is dropped: it is rounded.
func (p *parser) relation() *node {
	n := &node{op: oRel, kids: []*node{p.union()}}
	for r := relOf(p.peek()); r != ""; r = relOf(p.peek()) {
		p.pos++
		k := p.union()
		if r == "≈" {
			continue
		}
		n.kids, n.rels = append(n.kids, k), append(n.rels, r)
	}
	if len(n.rels) == 0 {
		return n.kids[0]
	}
	return n
}

func (p *parser) union() *node {
	n := &node{op: oUnion, kids: []*node{p.ratio()}}
	for {
		t := p.peek()
		if t.kind != command || !slices.Contains([]string{"cup", "cap", "setminus", "bigcup"}, t.text) {
			break
		}
		p.pos++
		if name := strings.TrimPrefix(t.text, "big"); n.name == "" || n.name == name {
			n.name = name
		} else {
			return p.fail() // without brackets the order is anyone's guess
		}
		n.kids = append(n.kids, p.ratio())
	}
	if len(n.kids) == 1 {
		return n.kids[0]
	}
	return n
}

func (p *parser) ratio() *node {
	n := &node{op: oRatio, kids: []*node{p.sum()}}
	for {
		if _, ok := p.take(mark, ":"); !ok {
			break
		}
		n.kids = append(n.kids, p.sum())
	}
	if len(n.kids) == 1 {
		return n.kids[0]
	}
	return n
}

func (p *parser) sum() *node {
	var kids []*node
	negate := false
	for first := true; ; first = false {
		t := p.peek()
		switch {
		case t.kind == mark && (t.text == "+" || t.text == "-"):
			p.pos++
			negate = negate != (t.text == "-")
			if !first || p.depth > 0 {
				for { // - - 3
					s, ok := p.take(mark, "+", "-")
					if !ok {
						break
					}
					negate = negate != (s == "-")
				}
			}
		case t.kind == command && (t.text == "pm" || t.text == "mp"):
			p.pos++
			left := number(0)
			if len(kids) > 0 {
				left = sum(kids...)
			}
			kids = []*node{{op: oPM, name: t.text, kids: []*node{left, p.product()}}}
			continue
		case !first:
			if len(kids) == 1 {
				return kids[0]
			}
			return sum(kids...)
		}
		k := p.product()
		if negate {
			k = negative(k)
		}
		kids, negate = append(kids, k), false
	}
}

func (p *parser) product() *node {
	n := p.power()
	for {
		t := p.peek()
		switch {
		case t.kind == mark && t.text == "*", t.kind == command && slices.Contains([]string{"cdot", "times", "ast"}, t.text):
			p.pos++
			n = product(n, p.signed())
		case t.kind == mark && t.text == "/", t.kind == command && t.text == "div":
			p.pos++
			n = product(n, inverse(p.signed()))
		case t.kind == prose && !conjunction(t.text) && p.pos > 0:
			p.pos++ // a unit
		case p.begins(t):
			before := n
			k := p.power()
			if whole(before) && properFraction(k) && t.kind == command {
				n = sum(before, k) // 1½
			} else {
				n = product(before, k)
			}
		default:
			return n
		}
		if p.failed {
			return n
		}
	}
}

func whole(n *node) bool { return n.op == oNum && n.num.IsInt() && n.num.Sign() > 0 }

func properFraction(n *node) bool {
	return n.op == oMul && len(n.kids) == 2 && whole(n.kids[0]) && n.kids[1].op == oPow && whole(n.kids[1].kids[0])
}

// signed reads a factor that may have a sign: 2 · -3.
func (p *parser) signed() *node {
	if s, ok := p.take(mark, "-", "+"); ok {
		p.depth++
		if p.depth > maxDepth {
			return p.fail()
		}
		defer func() { p.depth-- }()
		if k := p.signed(); s == "-" {
			return negative(k)
		} else {
			return k
		}
	}
	return p.power()
}

// begins reports whether a factor can begin with t where no sign of multiplication is written.
func (p *parser) begins(t token) bool {
	switch t.kind {
	case letter:
		return true
	case numeral:
		return p.pos > 0 && p.toks[p.pos-1].kind != numeral
	case command:
		return relOf(t) == "" && !slices.Contains([]string{"cup", "cap", "setminus", "bigcup", "pm", "mp", "cdot", "times", "div", "ast", "mid", "to", "rightarrow", "Rightarrow", "dots", "ldots", "cdots", "cr"}, t.text) &&
			!strings.HasPrefix(t.text, "end:")
	case mark:
		return t.text == "(" || t.text == "[" || t.text == "{" || t.text == "{{" || t.text == "|" && p.bars == 0
	}
	return false
}

func (p *parser) power() *node {
	p.depth++
	if p.depth > maxDepth {
		return p.fail()
	}
	defer func() { p.depth-- }()
	n := p.primary()
	for {
		t := p.peek()
		switch {
		case t.kind == mark && t.text == "^":
			p.pos++
			n = &node{op: oPow, kids: []*node{n, p.script()}}
		case t.kind == mark && t.text == "!":
			p.pos++
			n = call("!", n)
		case t.kind == mark && t.text == "%":
			p.pos++
			c := *n
			c.percent = true
			n = &c
		case t.kind == mark && t.text == "'" && n.op == oSym:
			p.pos++
			n = sym(n.name + "'")
		default:
			return n
		}
		if p.failed {
			return n
		}
	}
}

// script is what follows ^ or _: a group, or one token.
func (p *parser) script() *node {
	t := p.peek()
	if t.kind == mark && t.text == "-" {
		p.pos++
		return negative(p.primary())
	}
	return p.argument()
}

// argument is a group in braces, or one digit, letter or command: \frac12.
func (p *parser) argument() *node {
	t := p.peek()
	if t.kind == numeral && len(t.text) > 1 && p.pos > 0 && p.toks[p.pos-1].text != "^" {
		p.toks[p.pos].text = t.text[1:]
		p.toks = slices.Insert(slices.Clone(p.toks), p.pos, token{numeral, t.text[:1], t.gap})
	}
	return p.primary()
}

func decimal(text string) (*node, bool) {
	r, ok := new(big.Rat).SetString(strings.TrimSuffix(text, "."))
	return &node{op: oNum, num: r, decimal: strings.Contains(strings.TrimSuffix(text, "."), ".")}, ok
}
