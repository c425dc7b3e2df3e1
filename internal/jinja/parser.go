package jinja

// maxNesting bounds nested expressions and blocks of a source, maxChain the
// links of one chain such as a + b + c: both become nested closures.
const (
	maxNesting = 150
	maxChain   = 5000
)

// parser is a recursive descent parser with the grammar of Jinja2. It fails by
// panicking with an *Error.
type parser struct {
	tokens []token
	at     int
	depth  int
	loops  int // loops around this place within one function

	functions int             // macros, calls, withs and blocks around this place
	blocks    map[string]bool // the names of blocks

	lastKey expr // see slice
}

func (p *parser) cur() token { return p.tokens[p.at] }

func (p *parser) look() token {
	if p.at+1 < len(p.tokens) {
		return p.tokens[p.at+1]
	}
	return p.tokens[p.at]
}

func (p *parser) next() token {
	t := p.tokens[p.at]
	if t.kind != tokEOF {
		p.at++
	}
	return t
}

func (p *parser) is(kind tokenKind, text string) bool {
	t := p.cur()
	return t.kind == kind && t.text == text
}

func (p *parser) op(text string) bool   { return p.is(tokOp, text) }
func (p *parser) name(text string) bool { return p.is(tokName, text) }

func (p *parser) skip(kind tokenKind, text string) bool {
	if !p.is(kind, text) {
		return false
	}
	p.next()
	return true
}

func (p *parser) expectOp(text string) token {
	if !p.op(text) {
		panic(syntaxf(p.cur().pos, "expected token '%s', got %s", text, p.cur()))
	}
	return p.next()
}

func (p *parser) expect(kind tokenKind, what string) token {
	if p.cur().kind != kind {
		panic(syntaxf(p.cur().pos, "expected token '%s', got %s", what, p.cur()))
	}
	return p.next()
}

// deeper guards the recursion of the parser; call the result on the way out.
func (p *parser) deeper() {
	p.depth++
	if p.depth > maxNesting {
		e := limitf("the source is nested deeper than %d", maxNesting)
		e.Line, e.Column = p.cur().line, p.cur().col
		panic(e)
	}
}

func (p *parser) links(n int) {
	if n > maxChain {
		e := limitf("a chain of more than %d operators", maxChain)
		e.Line, e.Column = p.cur().line, p.cur().col
		panic(e)
	}
}

func (p *parser) template() []stmt {
	body, _ := p.until()
	return body
}

// until reads statements up to a tag whose name is among ends, and returns that
// tag. With no ends it reads to the end of the source.
func (p *parser) until(ends ...string) (body []stmt, end token) {
	p.deeper()
	defer func() { p.depth-- }()
	for {
		switch t := p.next(); t.kind {
		case tokData:
			body = append(body, &dataStmt{t.pos, t.text})
		case tokVarBegin:
			body = append(body, &printStmt{t.pos, p.tuple(true, nil)})
			p.expect(tokVarEnd, "end of print statement")
		case tokBlockBegin:
			tag := p.expect(tokName, "name")
			for _, e := range ends {
				if tag.text == e {
					return body, tag
				}
			}
			body = append(body, p.statement(tag))
			p.expect(tokBlockEnd, "end of statement block")
		default:
			if len(ends) > 0 {
				panic(syntaxf(t.pos, "unexpected end of template: looking for '%s'", ends[0]))
			}
			return body, t
		}
	}
}

// block reads the end of the opening tag, the body, and the name of the closing one.
func (p *parser) block(ends ...string) ([]stmt, token) {
	p.skip(tokOp, ":")
	p.expect(tokBlockEnd, "end of statement block")
	return p.until(ends...)
}

func (p *parser) statement(tag token) stmt {
	switch tag.text {
	case "if":
		return p.ifStatement(tag)
	case "for":
		return p.forStatement(tag)
	case "set":
		return p.set(tag)
	case "macro":
		name := p.expect(tokName, "name")
		p.assignable(name)
		def := p.signature()
		def.body = p.function("endmacro")
		return &macroStmt{tag.pos, name.text, def}
	case "call":
		return p.callBlock(tag)
	case "generation":
		return &callBlock{tag.pos, nil, macroDef{body: p.function("endgeneration")}}
	case "filter":
		f := p.filters(nil, true)
		body, _ := p.block("endfilter")
		return &filterBlock{tag.pos, f, body}
	case "with":
		return p.with(tag)
	case "block":
		return p.blockStatement(tag)
	case "extends", "include", "import", "from":
		panic(syntaxf(tag.pos, "the tag '%s' needs other templates; a chat template is one file: copy their text into it", tag.text))
	case "print":
		return &printStmt{tag.pos, p.tuple(true, nil)}
	case "break", "continue":
		if p.loops == 0 {
			e := syntaxf(tag.pos, "'%s' outside loop", tag.text)
			e.Kind = "SyntaxError"
			panic(e)
		}
		if tag.text == "break" {
			return &loopControl{tag.pos, sigBreak}
		}
		return &loopControl{tag.pos, sigContinue}
	}
	panic(syntaxf(tag.pos, "Encountered unknown tag '%s'.", tag.text))
}

// function reads the body of something that becomes a function, so
// that loops around it cannot be left from inside.
func (p *parser) function(end string) []stmt {
	loops := p.loops
	p.loops = 0
	p.functions++
	body, _ := p.block(end)
	p.functions--
	p.loops = loops
	return body
}

func (p *parser) ifStatement(tag token) stmt {
	first := &ifStmt{pos: tag.pos}
	for node, links := first, 0; ; links++ {
		p.links(links)
		node.test = p.tuple(false, nil)
		body, end := p.block("elif", "else", "endif")
		node.body = body
		switch end.text {
		case "elif":
			inner := &ifStmt{pos: end.pos}
			node.elif = []stmt{inner}
			node = inner
			continue
		case "else":
			node.els, _ = p.block("endif")
		}
		return first
	}
}

func (p *parser) forStatement(tag token) stmt {
	f := &forStmt{pos: tag.pos}
	f.target = p.target(true)
	if !p.skip(tokName, "in") {
		panic(syntaxf(p.cur().pos, "expected token 'in', got %s", p.cur()))
	}
	f.iter = p.tuple(false, []string{"recursive"})
	if p.skip(tokName, "if") {
		f.test = p.expression(true)
	}
	f.recursive = p.skip(tokName, "recursive")
	p.loops++
	body, end := p.block("endfor", "else")
	p.loops--
	f.body = body
	if end.text == "else" {
		f.els, _ = p.block("endfor")
	}
	return f
}

func (p *parser) set(tag token) stmt {
	target := p.setTarget()
	if p.skip(tokOp, "=") {
		return &setStmt{tag.pos, target, p.tuple(true, nil)}
	}
	s := &setBlock{pos: tag.pos, target: target}
	if p.op("|") {
		s.filter = p.filters(nil, false)
	}
	s.body, _ = p.block("endset")
	return s
}

func (p *parser) callBlock(tag token) stmt {
	var def macroDef
	if p.op("(") {
		def = p.signature()
	}
	call := p.expression(true)
	if _, ok := call.(*callNode); !ok {
		panic(syntaxf(tag.pos, "expected call"))
	}
	def.body = p.function("endcall")
	return &callBlock{tag.pos, call, def}
}

func (p *parser) with(tag token) stmt {
	w := &withStmt{pos: tag.pos}
	for p.cur().kind != tokBlockEnd {
		if len(w.targets) > 0 {
			p.expectOp(",")
		}
		w.targets = append(w.targets, p.target(false))
		p.expectOp("=")
		w.values = append(w.values, p.expression(true))
	}
	p.functions++ // to blocks the names of a with are hidden too
	w.body, _ = p.block("endwith")
	p.functions--
	return w
}

func (p *parser) signature() macroDef {
	var def macroDef
	p.expectOp("(")
	for !p.op(")") {
		if len(def.params) > 0 {
			p.expectOp(",")
		}
		name := p.expect(tokName, "name")
		p.assignable(name)
		if p.skip(tokOp, "=") {
			def.defaults = append(def.defaults, p.expression(true))
		} else if len(def.defaults) > 0 {
			panic(syntaxf(name.pos, "non-default argument follows default argument"))
		}
		def.params = append(def.params, name.text)
	}
	p.expectOp(")")
	return def
}

func (p *parser) assignable(t token) {
	switch t.text {
	case "true", "false", "none", "True", "False", "None":
		panic(syntaxf(t.pos, "can't assign to '%s'", t.text))
	}
}

// target reads names to assign to, as a for loop or with block has them.
func (p *parser) target(tuple bool) expr {
	return p.targets(tuple, false)
}

func (p *parser) setTarget() expr { return p.targets(true, true) }

func (p *parser) targets(tuple, namespace bool) expr {
	start := p.cur().pos
	var items []expr
	commas := false
	for {
		items = append(items, p.oneTarget(namespace))
		if !tuple || !p.skip(tokOp, ",") {
			break
		}
		commas = true
		if t := p.cur(); t.kind == tokBlockEnd || p.op("=") || p.op(")") || p.name("in") {
			break
		}
	}
	if !commas {
		return items[0]
	}
	return &seqNode{start, items, true}
}

func (p *parser) oneTarget(namespace bool) expr {
	if p.op("(") {
		p.deeper()
		defer func() { p.depth-- }()
		p.next()
		inner := p.targets(true, namespace)
		p.expectOp(")")
		return inner
	}
	name := p.expect(tokName, "name")
	p.assignable(name)
	if namespace && p.skip(tokOp, ".") {
		return &nsRefNode{name.pos, name.text, p.expect(tokName, "name").text}
	}
	return &nameNode{name.pos, name.text}
}
