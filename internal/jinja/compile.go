package jinja

// signal is how a statement ended.
type signal uint8

const (
	sigNone signal = iota
	sigBreak
	sigContinue
)

type (
	evalFn func(st *state, f *frame) any
	execFn func(st *state, f *frame) signal
)

// compiler turns the tree into closures. budget bounds the work of compiling.
type compiler struct {
	context map[string]int
	names   []string
	budget  int
	lib     *library
}

// scope is one frame while it is compiled. soft means inside an if, where an
// unknown filter is an error only when it is reached.
type scope struct {
	*compiler
	sym  *symbols
	soft bool
}

func compile(body []stmt) *Template {
	c := &compiler{context: map[string]int{}, budget: 50_000_000, lib: shared()}
	fn := &function{slots: map[slotKey]int{}}
	s := scope{c, newSymbols(nil, fn, &c.budget), false}
	s.sym.statements(body)
	enter := s.enter()
	run := s.block(body)
	return &Template{slots: len(fn.slots), context: c.names, body: func(st *state, f *frame) signal {
		enter(st, f)
		return run(st, f)
	}}
}

// inner is a new frame in the same function; function starts a new one.
func (s scope) inner() scope {
	return scope{s.compiler, newSymbols(s.sym, s.sym.fn, &s.budget), false}
}

func (s scope) function() scope {
	fn := &function{parent: s.sym.fn, slots: map[slotKey]int{}}
	return scope{s.compiler, newSymbols(s.sym, fn, &s.budget), false}
}

func (s scope) softened() scope {
	s.soft = true
	return s
}

func (c *compiler) contextSlot(name string) int {
	i, ok := c.context[name]
	if !ok {
		i = len(c.names)
		c.context[name] = i
		c.names = append(c.names, name)
	}
	return i
}

// enter compiles what happens to the variables of a frame when it begins.
func (s scope) enter() func(*state, *frame) {
	type start struct {
		slot int
		from evalFn // nil: missing
	}
	var starts []start
	for name, l := range s.sym.loads {
		switch {
		case l.kind == loadMissing:
			starts = append(starts, start{s.sym.slot(name), nil})
		case l.kind == loadAlias:
			starts = append(starts, start{s.sym.slot(name), s.raw(name, l.outer)})
		case l.kind == loadResolve && s.sym.stores[name]:
			i := s.contextSlot(name)
			starts = append(starts, start{s.sym.slot(name), func(st *state, _ *frame) any { return st.context[i] }})
		}
	}
	if len(starts) == 0 {
		return func(*state, *frame) {}
	}
	return func(st *state, f *frame) {
		for _, v := range starts {
			if v.from == nil {
				f.vars[v.slot] = missing
			} else {
				f.vars[v.slot] = v.from(st, f)
			}
		}
	}
}

// raw reads the variable of name that owner holds; it may be missing.
func (s scope) raw(name string, owner *symbols) evalFn {
	if owner.loads[name].kind == loadResolve && !owner.stores[name] {
		i := s.contextSlot(name)
		return func(st *state, _ *frame) any { return st.context[i] }
	}
	slot, hops := owner.slot(name), 0
	for fn := s.sym.fn; fn != owner.fn; fn = fn.parent {
		hops++
	}
	switch hops {
	case 0:
		return func(_ *state, f *frame) any { return f.vars[slot] }
	case 1:
		return func(_ *state, f *frame) any { return f.up.vars[slot] }
	}
	return func(_ *state, f *frame) any {
		for range hops {
			f = f.up
		}
		return f.vars[slot]
	}
}

func (s scope) variable(name string) evalFn {
	owner := s.sym.find(name)
	if owner == nil { // an expression outside the analysis, such as a macro default
		s.sym.load(name)
		owner = s.sym
	}
	read := s.raw(name, owner)
	undef := &Undefined{name: name, obj: missing}
	return func(st *state, f *frame) any {
		v := read(st, f)
		if v == missing {
			return undef
		}
		return v
	}
}

func (s scope) block(body []stmt) execFn {
	list := make([]execFn, 0, len(body))
	for _, b := range body {
		list = append(list, s.stmt(b))
	}
	switch len(list) {
	case 0:
		return func(*state, *frame) signal { return sigNone }
	case 1:
		return list[0]
	}
	return func(st *state, f *frame) signal {
		for _, run := range list {
			if sig := run(st, f); sig != sigNone {
				return sig
			}
		}
		return sigNone
	}
}

func (s scope) stmt(n stmt) execFn {
	switch n := n.(type) {
	case *dataStmt:
		return func(st *state, _ *frame) signal {
			st.write(n.text)
			return sigNone
		}
	case *printStmt:
		return s.print(n)
	case *ifStmt:
		return s.ifStmt(n)
	case *forStmt:
		return s.forStmt(n)
	case *setStmt:
		value, assign := s.expr(n.value), s.assign(n.target)
		return func(st *state, f *frame) signal {
			st.at = n.pos
			assign(st, f, value(st, f))
			return sigNone
		}
	case *setBlock:
		return s.setBlock(n)
	case *macroStmt:
		define, slot := s.macro(n.name, n.macroDef), s.sym.slot(n.name)
		return func(st *state, f *frame) signal {
			f.vars[slot] = define(st, f)
			return sigNone
		}
	case *callBlock:
		return s.callBlock(n)
	case *filterBlock:
		in := s.inner()
		in.sym.statements(n.body)
		in.sym.expr(n.filter)
		enter := in.enter()
		body := in.block(n.body)
		filter := in.filterOn(n.filter)
		return func(st *state, f *frame) signal {
			st.at = n.pos
			enter(st, f)
			var sig signal
			text := st.capture(func() { sig = body(st, f) })
			if sig == sigNone {
				st.write(st.text(filter(st, f, text)))
			}
			return sig
		}
	case *withStmt:
		return s.with(n)
	case *loopControl:
		return func(*state, *frame) signal { return n.signal }
	}
	panic(syntaxf(n.place(), "unknown statement"))
}

func (s scope) print(n *printStmt) execFn {
	if c, ok := n.value.(*constNode); ok {
		if text, ok := c.value.(string); ok {
			return func(st *state, _ *frame) signal {
				st.write(text)
				return sigNone
			}
		}
	}
	if sum, ok := n.value.(*binaryNode); ok && sum.op == "+" {
		return s.printSum(n, sum)
	}
	value := s.expr(n.value)
	return func(st *state, f *frame) signal {
		st.at = n.pos
		switch v := value(st, f).(type) {
		case string:
			st.write(v)
		default:
			st.write(st.text(v))
		}
		return sigNone
	}
}

// printSum writes the parts of a sum of texts one by one.
func (s scope) printSum(n *printStmt, sum *binaryNode) execFn {
	terms := s.terms(sum)
	return func(st *state, f *frame) signal {
		st.at = n.pos
		v, base, _ := terms(st, f)
		if len(st.texts) == base {
			st.write(st.text(v))
			return sigNone
		}
		for _, part := range st.texts[base:] {
			st.write(part)
		}
		st.texts = st.texts[:base]
		return sigNone
	}
}

func (s scope) ifStmt(n *ifStmt) execFn {
	s = s.softened()
	test, body := s.truth(n.test), s.block(n.body)
	var other execFn
	switch {
	case len(n.elif) > 0:
		other = s.ifStmt(n.elif[0].(*ifStmt))
	case len(n.els) > 0:
		other = s.block(n.els)
	}
	return func(st *state, f *frame) signal {
		st.at = n.pos
		if test(st, f) {
			return body(st, f)
		}
		if other != nil {
			return other(st, f)
		}
		return sigNone
	}
}

func (s scope) setBlock(n *setBlock) execFn {
	in := s.inner()
	in.sym.statements(n.body)
	if n.filter != nil {
		in.sym.expr(n.filter)
	}
	enter := in.enter()
	body := in.block(n.body)
	assign := s.assign(n.target)
	filter := func(_ *state, _ *frame, text any) any { return text }
	if n.filter != nil {
		filter = in.filterOn(n.filter)
	}
	return func(st *state, f *frame) signal {
		st.at = n.pos
		enter(st, f)
		var sig signal
		text := st.capture(func() { sig = body(st, f) })
		if sig == sigNone {
			assign(st, f, filter(st, f, text))
		}
		return sig
	}
}

func (s scope) with(n *withStmt) execFn {
	in := s.inner()
	for _, t := range n.targets {
		in.sym.params(t)
	}
	in.sym.statements(n.body)
	enter := in.enter()
	values := s.exprs(n.values)
	assigns := make([]assignFn, len(n.targets))
	for i, t := range n.targets {
		assigns[i] = in.assign(t)
	}
	body := in.block(n.body)
	return func(st *state, f *frame) signal {
		st.at = n.pos
		enter(st, f)
		got := make([]any, len(values))
		for i, v := range values {
			got[i] = v(st, f)
		}
		for i, a := range assigns {
			a(st, f, got[i])
		}
		return body(st, f)
	}
}

type assignFn func(st *state, f *frame, v any)

func (s scope) assign(target expr) assignFn {
	switch t := target.(type) {
	case *nameNode:
		slot := s.sym.slot(t.name)
		return func(_ *state, f *frame, v any) { f.vars[slot] = v }
	case *nsRefNode:
		space := s.variable(t.name)
		return func(st *state, f *frame, v any) {
			ns, ok := space(st, f).(*Namespace)
			if !ok {
				panic(raisef("TemplateRuntimeError", "cannot assign attribute on non-namespace object"))
			}
			ns.attrs.put(t.attr, v)
		}
	}
	seq := target.(*seqNode)
	parts := make([]assignFn, len(seq.items))
	for i, t := range seq.items {
		parts[i] = s.assign(t)
	}
	return func(st *state, f *frame, v any) {
		it := st.iterate(v)
		got := make([]any, 0, len(parts))
		for x, ok := it.next(); ok; x, ok = it.next() {
			got = append(got, x)
			if len(got) > len(parts) {
				panic(raisef("ValueError", "too many values to unpack (expected %d)", len(parts)))
			}
		}
		if len(got) < len(parts) {
			panic(raisef("ValueError", "not enough values to unpack (expected %d, got %d)", len(parts), len(got)))
		}
		for i, a := range parts {
			a(st, f, got[i])
		}
	}
}
