package jinja

import (
	"math/big"
	"strconv"
	"strings"
)

// tuple reads one expression, or several with commas between them.
func (p *parser) tuple(cond bool, ends []string) expr {
	return p.tupleIn(cond, ends, false)
}

func (p *parser) tupleIn(cond bool, ends []string, parens bool) expr {
	start := p.cur().pos
	var items []expr
	tuple := false
	for {
		if len(items) > 0 {
			p.expectOp(",")
		}
		if p.tupleEnd(ends) {
			break
		}
		items = append(items, p.expression(cond))
		if !p.op(",") {
			break
		}
		tuple = true
	}
	if !tuple {
		if len(items) > 0 {
			return items[0]
		}
		if !parens {
			panic(syntaxf(p.cur().pos, "Expected an expression, got %s", p.cur()))
		}
	}
	return &seqNode{start, items, true}
}

func (p *parser) tupleEnd(ends []string) bool {
	t := p.cur()
	if t.kind == tokVarEnd || t.kind == tokBlockEnd || p.op(")") {
		return true
	}
	for _, e := range ends {
		if p.name(e) {
			return true
		}
	}
	return false
}

func (p *parser) expression(cond bool) expr {
	p.deeper()
	defer func() { p.depth-- }()
	if !cond {
		return p.or()
	}
	left := p.or()
	for n := 0; p.name("if"); n++ {
		p.links(n)
		at := p.next().pos
		node := &condNode{pos: at, yes: left, test: p.or()}
		if p.skip(tokName, "else") {
			node.no = p.expression(true)
		}
		left = node
	}
	return left
}

func (p *parser) or() expr {
	left := p.and()
	for n := 0; p.name("or"); n++ {
		p.links(n)
		at := p.next().pos
		left = &binaryNode{at, "or", left, p.and()}
	}
	return left
}

func (p *parser) and() expr {
	left := p.not()
	for n := 0; p.name("and"); n++ {
		p.links(n)
		at := p.next().pos
		left = &binaryNode{at, "and", left, p.not()}
	}
	return left
}

func (p *parser) not() expr {
	if p.name("not") {
		p.deeper()
		defer func() { p.depth-- }()
		at := p.next().pos
		return &unaryNode{at, "not", p.not()}
	}
	return p.compare()
}

func (p *parser) compare() expr {
	at := p.cur().pos
	left := p.sum()
	var ops []string
	var rest []expr
	for {
		p.links(len(ops))
		t := p.cur()
		op := t.text
		switch {
		case t.kind == tokOp && (op == "==" || op == "!=" || op == "<" || op == "<=" || op == ">" || op == ">="):
			p.next()
		case p.name("in"):
			p.next()
		case p.name("not") && p.look().kind == tokName && p.look().text == "in":
			p.next()
			p.next()
			op = "not in"
		default:
			if len(ops) == 0 {
				return left
			}
			return &compareNode{at, left, ops, rest}
		}
		ops = append(ops, op)
		rest = append(rest, p.sum())
	}
}

func (p *parser) chain(operand func() expr, ops ...string) expr {
	left := operand()
	for n := 0; p.cur().kind == tokOp; n++ {
		p.links(n)
		t := p.cur()
		found := false
		for _, op := range ops {
			found = found || op == t.text
		}
		if !found {
			break
		}
		p.next()
		left = &binaryNode{t.pos, t.text, left, operand()}
	}
	return left
}

func (p *parser) sum() expr { return p.chain(p.concat, "+", "-") }

func (p *parser) concat() expr {
	at := p.cur().pos
	parts := []expr{p.product()}
	for p.skip(tokOp, "~") {
		parts = append(parts, p.product())
	}
	if len(parts) == 1 {
		return parts[0]
	}
	return &concatNode{at, parts}
}

func (p *parser) product() expr { return p.chain(p.power, "*", "/", "//", "%") }

func (p *parser) power() expr {
	return p.chain(func() expr { return p.unary(true) }, "**")
}

func (p *parser) unary(filter bool) expr {
	p.deeper()
	defer func() { p.depth-- }()
	var node expr
	if t := p.cur(); p.op("-") || p.op("+") {
		p.next()
		node = &unaryNode{t.pos, t.text, p.unary(false)}
	} else {
		node = p.primary()
	}
	node = p.postfix(node)
	if filter {
		node = p.filterExpr(node)
	}
	return node
}

func (p *parser) primary() expr {
	t := p.next()
	switch t.kind {
	case tokName:
		switch t.text {
		case "true", "True":
			return &constNode{t.pos, true}
		case "false", "False":
			return &constNode{t.pos, false}
		case "none", "None":
			return &constNode{t.pos, nil}
		}
		return &nameNode{t.pos, t.text}
	case tokString:
		var b strings.Builder
		b.WriteString(t.text)
		for p.cur().kind == tokString {
			b.WriteString(p.next().text)
		}
		return &constNode{t.pos, b.String()}
	case tokInt:
		return &constNode{t.pos, parseInt(t)}
	case tokFloat:
		f, _ := strconv.ParseFloat(t.text, 64)
		return &constNode{t.pos, f}
	case tokOp:
		switch t.text {
		case "(":
			inner := p.tupleIn(true, nil, true)
			p.expectOp(")")
			return inner
		case "[":
			return p.list(t)
		case "{":
			return p.dict(t)
		}
	}
	panic(syntaxf(t.pos, "unexpected %s", t))
}

func parseInt(t token) any {
	text := strings.ReplaceAll(t.text, "_", "")
	base := 10
	if len(text) > 1 && text[0] == '0' && (text[1]|0x20) >= 'a' {
		base = 0
	}
	n, ok := new(big.Int).SetString(text, base)
	if !ok || len(text) > 4300 {
		panic(syntaxf(t.pos, "bad number of %d digits", len(text)))
	}
	return shrink(n)
}

func (p *parser) list(open token) expr {
	node := &seqNode{pos: open.pos}
	for !p.op("]") {
		if len(node.items) > 0 {
			p.expectOp(",")
		}
		if p.op("]") {
			break
		}
		node.items = append(node.items, p.expression(true))
	}
	p.expectOp("]")
	return node
}

func (p *parser) dict(open token) expr {
	node := &dictNode{pos: open.pos}
	for !p.op("}") {
		if len(node.keys) > 0 {
			p.expectOp(",")
		}
		if p.op("}") {
			break
		}
		node.keys = append(node.keys, p.expression(true))
		p.expectOp(":")
		node.values = append(node.values, p.expression(true))
	}
	p.expectOp("}")
	return node
}

func (p *parser) postfix(node expr) expr {
	for n := 0; p.cur().kind == tokOp; n++ {
		p.links(n)
		switch p.cur().text {
		case ".", "[":
			node = p.subscript(node)
		case "(":
			at := p.cur().pos
			node = &callNode{at, node, p.arguments()}
		default:
			return node
		}
	}
	return node
}

func (p *parser) filterExpr(node expr) expr {
	for n := 0; ; n++ {
		p.links(n)
		switch {
		case p.op("|"):
			node = p.filters(node, false)
		case p.name("is"):
			node = p.test(node)
		case p.op("("):
			at := p.cur().pos
			node = &callNode{at, node, p.arguments()}
		default:
			return node
		}
	}
}

func (p *parser) subscript(node expr) expr {
	open := p.next()
	if open.text == "." {
		switch t := p.next(); t.kind {
		case tokName:
			return &attrNode{t.pos, node, t.text}
		case tokInt:
			return &itemNode{t.pos, node, &constNode{t.pos, parseInt(t)}}
		default:
			panic(syntaxf(t.pos, "expected name or number"))
		}
	}
	var keys []expr
	var slice *sliceNode
	commas := false
	for !p.op("]") {
		if len(keys) > 0 || slice != nil {
			p.expectOp(",")
			commas = true
		}
		if p.op("]") {
			break
		}
		start := p.cur().pos
		if s := p.slice(); s != nil {
			s.pos, s.of = start, node
			slice = s
			continue
		}
		keys = append(keys, p.lastKey)
	}
	p.expectOp("]")
	switch {
	case slice != nil && (commas || len(keys) > 0):
		panic(syntaxf(open.pos, "a slice among several subscripts is not known"))
	case slice != nil:
		return slice
	case len(keys) == 0:
		panic(syntaxf(open.pos, "expected subscript"))
	case len(keys) == 1 && !commas:
		return &itemNode{open.pos, node, keys[0]}
	}
	return &itemNode{open.pos, node, &seqNode{open.pos, keys, true}}
}

// slice reads start:stop:step, or one expression, which it leaves in lastKey.
func (p *parser) slice() *sliceNode {
	s := &sliceNode{}
	if !p.op(":") {
		key := p.expression(true)
		if !p.op(":") {
			p.lastKey = key
			return nil
		}
		s.start = key
	}
	p.expectOp(":")
	if !p.op(":") && !p.op("]") && !p.op(",") {
		s.stop = p.expression(true)
	}
	if p.skip(tokOp, ":") && !p.op("]") && !p.op(",") {
		s.inc = p.expression(true)
	}
	return s
}

func (p *parser) arguments() callArgs {
	var a callArgs
	open := p.expectOp("(")
	fail := func() { panic(syntaxf(open.pos, "invalid syntax for function call expression")) }
	for first := true; !p.op(")"); first = false {
		if !first {
			p.expectOp(",")
			if p.op(")") {
				break
			}
		}
		switch {
		case p.op("*"):
			if a.dynArgs != nil || a.dynKw != nil {
				fail()
			}
			p.next()
			a.dynArgs = p.expression(true)
		case p.op("**"):
			if a.dynKw != nil {
				fail()
			}
			p.next()
			a.dynKw = p.expression(true)
		case p.cur().kind == tokName && p.look().kind == tokOp && p.look().text == "=":
			if a.dynKw != nil {
				fail()
			}
			a.names = append(a.names, p.next().text)
			p.next()
			a.values = append(a.values, p.expression(true))
		default:
			if a.dynArgs != nil || a.dynKw != nil || len(a.names) > 0 {
				fail()
			}
			a.args = append(a.args, p.expression(true))
		}
	}
	p.expectOp(")")
	return a
}

// dotted reads a name with dots in it.
func (p *parser) dotted() token {
	t := p.expect(tokName, "name")
	for p.skip(tokOp, ".") {
		t.text += "." + p.expect(tokName, "name").text
	}
	return t
}

// filters reads a chain of filters; inline means that the first has no bar.
func (p *parser) filters(node expr, inline bool) expr {
	for n := 0; inline || p.op("|"); n++ {
		p.links(n)
		if !inline {
			p.next()
		}
		inline = false
		name := p.dotted()
		f := &filterNode{pos: name.pos, of: node, name: name.text}
		if p.op("(") {
			f.callArgs = p.arguments()
		}
		node = f
	}
	return node
}

func (p *parser) test(node expr) expr {
	at := p.next().pos
	negated := p.skip(tokName, "not")
	name := p.dotted()
	t := &testNode{pos: name.pos, of: node, name: name.text}
	next := p.cur()
	switch {
	case p.op("("):
		t.callArgs = p.arguments()
	case next.kind == tokName && (next.text == "else" || next.text == "or" || next.text == "and"):
	case next.kind == tokName, next.kind == tokString, next.kind == tokInt, next.kind == tokFloat, p.op("["), p.op("{"):
		if next.kind == tokName && next.text == "is" {
			panic(syntaxf(next.pos, "You cannot chain multiple tests with is"))
		}
		p.deeper()
		t.args = []expr{p.postfix(p.primary())}
		p.depth--
	}
	if negated {
		return &unaryNode{at, "not", t}
	}
	return t
}
