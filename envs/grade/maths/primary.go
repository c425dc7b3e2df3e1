package maths

import (
	"slices"
	"strings"
)

func (p *parser) primary() *node {
	p.depth++
	if p.depth > maxDepth {
		return p.fail()
	}
	defer func() { p.depth-- }()
	t := p.peek()
	p.pos++
	switch t.kind {
	case numeral:
		if len(t.text) > 400 {
			return p.fail()
		}
		n, ok := decimal(t.text)
		if !ok {
			return p.fail()
		}
		if s := p.subscript(); s != "" {
			return sym(t.text + "_" + s) // a number in another base
		}
		return n
	case letter:
		return p.symbol(t.text)
	case prose:
		return &node{op: oText, name: t.text}
	case command:
		return p.command(t.text)
	case mark:
		switch t.text {
		case "(", "[":
			return p.bracket(t.text, ")", "]")
		case "{":
			n := p.list()
			if _, ok := p.take(mark, "}"); !ok {
				return p.fail()
			}
			return n
		case "{{":
			return p.set()
		case "|":
			p.bars++
			n := p.list()
			p.bars--
			if _, ok := p.take(mark, "|"); !ok {
				return p.fail()
			}
			return call("abs", n)
		}
	}
	return p.fail()
}

func (p *parser) symbol(name string) *node {
	if s := p.subscript(); s != "" {
		name += "_" + s
	}
	return sym(name)
}

// subscript is what follows _, as text.
func (p *parser) subscript() string {
	if _, ok := p.take(mark, "_"); !ok {
		return ""
	}
	from := p.pos
	p.argument()
	if p.failed {
		return "?"
	}
	var b strings.Builder
	for _, t := range p.toks[from:p.pos] {
		if t.text != "{" && t.text != "}" {
			b.WriteString(t.text)
		}
	}
	return b.String()
}

func (p *parser) bracket(open string, closing ...string) *node {
	bars := p.bars
	p.bars = 0
	n := p.list()
	p.bars = bars
	shut, ok := p.take(mark, closing...)
	if !ok {
		return p.fail()
	}
	if n.op == oList {
		return &node{op: oTuple, name: open + shut, kids: n.kids}
	}
	if open+shut != "()" && open+shut != "[]" {
		return p.fail() // half an interval
	}
	return n
}

func (p *parser) set() *node {
	if _, ok := p.take(mark, "}}"); ok {
		return sym("∅") // {}
	}
	n := p.list()
	if _, ok := p.take(mark, "}}"); !ok {
		return p.fail()
	}
	if n.op == oList {
		return &node{op: oSet, kids: n.kids}
	}
	return &node{op: oSet, kids: []*node{n}}
}

func (p *parser) command(name string) *node {
	switch name {
	case "frac", "tfrac", "dfrac", "cfrac":
		over := p.argument()
		under := p.argument()
		return product(over, inverse(under))
	case "binom", "dbinom", "tbinom":
		return call("binom", p.argument(), p.argument())
	case "sqrt":
		var root *node
		if t := p.peek(); t.kind == mark && t.text == "[" {
			p.pos++
			root = p.bracket("[", "]")
		}
		arg := p.argument()
		if root == nil {
			root = number(2)
		}
		return &node{op: oPow, kids: []*node{arg, inverse(root)}}
	case "pi", "infty", "inf", "emptyset", "varnothing":
		return sym(map[string]string{"pi": "π", "infty": "∞", "inf": "∞", "emptyset": "∅", "varnothing": "∅"}[name])
	case "lfloor", "lceil":
		n := p.list()
		if _, ok := p.take(command, "r"+name[1:]); !ok {
			return p.fail()
		}
		return call(name[1:], n)
	case "sum", "prod", "int", "lim":
		return p.big(name)
	case "boxed", "fbox", "overline", "vec", "overrightarrow", "hat", "bar", "tilde", "widehat", "underline":
		n := p.argument()
		if name == "boxed" || name == "fbox" || name == "underline" {
			return n
		}
		return sym(name + " " + n.canon())
	case "sin", "cos", "tan", "cot", "sec", "csc", "arcsin", "arccos", "arctan", "sinh", "cosh", "tanh", "ln", "log", "exp", "abs", "lg":
		return p.function(name)
	}
	if strings.HasPrefix(name, "begin:") {
		return p.matrix(strings.TrimPrefix(name, "begin:"))
	}
	if relOf(token{kind: command, text: name}) != "" || strings.HasPrefix(name, "end:") ||
		slices.Contains([]string{"cup", "cap", "cdot", "times", "div", "mid", "to", "ldots", "dots", "cdots", "rightarrow", "Rightarrow", "cr"}, name) {
		return p.fail()
	}
	return p.symbol(name) // Greek, \mathbb{R}, and what we do not know
}

// function reads \sin^2 x, \log_2 8: the argument is a group in brackets or the next factor.
func (p *parser) function(name string) *node {
	var args []*node
	if _, ok := p.take(mark, "_"); ok {
		args = append(args, p.argument())
	}
	var exponent *node
	if _, ok := p.take(mark, "^"); ok {
		exponent = p.script()
	}
	bare := p.peek().kind == numeral // \sin{2}x is x times a number
	arg := p.power()
	if t := p.peek(); bare && arg.op == oNum && (t.kind == letter || t.kind == command && t.text == "pi") { // sin 2x
		arg = product(arg, p.power())
	}
	n := call(name, append([]*node{arg}, args...)...)
	if exponent != nil {
		return &node{op: oPow, kids: []*node{n, exponent}}
	}
	return n
}

// big reads \sum_{k=0}^{n} of the product that follows.
func (p *parser) big(name string) *node {
	n := &node{op: oBig, name: name, kids: []*node{sym(""), sym("")}}
	for range 2 {
		if _, ok := p.take(mark, "_"); ok {
			n.kids[0] = p.argument()
		} else if _, ok := p.take(mark, "^"); ok {
			n.kids[1] = p.script()
		}
	}
	n.kids = append(n.kids, p.product())
	return n
}

// matrix reads rows up to \end.
func (p *parser) matrix(env string) *node {
	if !strings.Contains(env, "matrix") && env != "array" && env != "cases" {
		return p.fail()
	}
	if t := p.peek(); env == "array" && t.text == "{" { // the columns
		for !p.failed && p.peek().kind != end {
			if t := p.peek(); t.text == "}" {
				p.pos++
				break
			}
			p.pos++
		}
	}
	n := &node{op: oMat}
	row := &node{op: oTuple, name: "row"}
	for !p.failed {
		row.kids = append(row.kids, p.relation())
		t := p.peek()
		p.pos++
		if t.text == "&" {
			continue
		}
		if t.text != "cr" && t.text != "end:"+env || t.kind == end {
			return p.fail()
		}
		n.kids, row = append(n.kids, row), &node{op: oTuple, name: "row"}
		if _, ok := p.take(command, "end:"+env); ok || t.text != "cr" {
			return n
		}
	}
	return n
}
