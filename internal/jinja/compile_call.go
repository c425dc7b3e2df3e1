package jinja

func (s scope) forStmt(n *forStmt) execFn {
	loop := s.inner()
	if n.recursive {
		loop = s.function()
	}
	extended := n.recursive || mentions(n.body, "loop")
	if extended {
		loop.sym.param("loop")
	}
	loop.sym.params(n.target)
	loop.sym.statements(n.body)
	enter, assign := loop.enter(), loop.assign(n.target)
	loopSlot := -1
	if extended {
		loopSlot = loop.sym.slot("loop")
	}
	body := loop.block(n.body)
	filter := loop.loopFilter(s, n)
	var els execFn
	if len(n.els) > 0 {
		in := s.inner()
		if n.recursive {
			in = scope{s.compiler, newSymbols(s.sym, loop.sym.fn, &s.budget), false}
		}
		in.sym.statements(n.els)
		enterElse, run := in.enter(), in.block(n.els)
		els = func(st *state, f *frame) signal {
			enterElse(st, f)
			return run(st, f)
		}
	}
	run := func(st *state, f *frame, it *iterator, ctx *loopContext) signal {
		turns, outer := 0, st.visited
		for {
			var item any
			var ok bool
			if ctx != nil {
				item, ok = ctx.advance()
			} else {
				item, ok = it.next()
			}
			if !ok {
				break
			}
			turns++
			st.step(0)
			enter(st, f)
			if loopSlot >= 0 {
				f.vars[loopSlot] = ctx
			}
			assign(st, f, item)
			if st.watch != nil {
				st.visitItem(item)
			}
			if body(st, f) == sigBreak {
				break
			}
		}
		st.visit(outer)
		if turns == 0 && els != nil {
			return els(st, f)
		}
		return sigNone
	}
	iter := s.expr(n.iter)
	if n.recursive {
		return s.recursiveLoop(n, loop.sym.fn, iter, filter, run)
	}
	return func(st *state, f *frame) signal {
		st.at = n.pos
		v := iter(st, f)
		it := st.iterate(v)
		if filter != nil {
			it = filter(st, f, it)
			v = nil
		}
		if !extended {
			return run(st, f, &it, nil)
		}
		return run(st, f, nil, newLoopContext(v, it))
	}
}

// loopFilter compiles the condition of a for loop: a new frame, asked
// one item ahead of the loop.
func (loop scope) loopFilter(s scope, n *forStmt) func(*state, *frame, iterator) iterator {
	if n.test == nil {
		return nil
	}
	in := s.function()
	in.sym.params(n.target)
	in.sym.expr(n.test)
	enter := in.enter()
	assign := in.assign(n.target)
	test := in.truth(n.test)
	fn := in.sym.fn
	return func(st *state, f *frame, it iterator) iterator {
		inner := newFrame(len(fn.slots), f)
		return iterator{more: func() (any, bool) {
			for {
				v, ok := it.next()
				if !ok {
					return nil, false
				}
				st.step(0)
				enter(st, inner)
				assign(st, inner, v)
				if test(st, inner) {
					return v, true
				}
			}
		}}
	}
}

func (s scope) recursiveLoop(n *forStmt, fn *function, iter evalFn, filter func(*state, *frame, iterator) iterator,
	run func(*state, *frame, *iterator, *loopContext) signal) execFn {
	return func(st *state, f *frame) signal {
		st.at = n.pos
		var recurse func(v any, depth int) string
		recurse = func(v any, depth int) string {
			st.enter()
			it := st.iterate(v)
			if filter != nil {
				it, v = filter(st, f, it), nil
			}
			ctx := newLoopContext(v, it)
			ctx.depth0, ctx.recurse = depth, recurse
			inner := newFrame(len(fn.slots), f)
			text := st.capture(func() { run(st, inner, nil, ctx) })
			st.depth--
			return text
		}
		st.write(recurse(iter(st, f), 0))
		return sigNone
	}
}

// macro compiles a macro or the body of a call block into its maker.
func (s scope) macro(name string, def macroDef) func(*state, *frame) *Macro {
	in := s.function()
	m := Macro{name: name, params: def.params}
	for _, p := range def.params {
		in.sym.param(p)
		if p == "caller" {
			m.ownCaller = true
		}
	}
	for _, d := range def.defaults {
		in.sym.expr(d)
	}
	in.sym.statements(def.body)
	special := func(name string) (bool, int) {
		for _, p := range def.params {
			if p == name {
				return false, 0
			}
		}
		if !mentions(def.body, name) {
			return false, 0
		}
		in.sym.param(name)
		return true, in.sym.slot(name)
	}
	var callerSlot, kwSlot, argSlot int
	m.caller, callerSlot = special("caller")
	m.kwargs, kwSlot = special("kwargs")
	m.varargs, argSlot = special("varargs")
	enter := in.enter()
	slots := make([]int, len(def.params))
	for i, p := range def.params {
		slots[i] = in.sym.slot(p)
	}
	defaults := in.exprs(def.defaults)
	body := in.block(def.body)
	fn := in.sym.fn
	m.run = func(st *state, up *frame, b bound) string {
		f := newFrame(len(fn.slots), up)
		copyTo(f, slots, b.params)
		if m.caller {
			f.vars[callerSlot] = b.caller
		}
		if m.kwargs {
			f.vars[kwSlot] = b.kwargs
		}
		if m.varargs {
			f.vars[argSlot] = b.varargs
		}
		enter(st, f)
		first := len(slots) - len(defaults)
		for i, slot := range slots {
			if f.vars[slot] != missing {
				continue
			}
			if i >= first {
				f.vars[slot] = defaults[i-first](st, f)
			} else {
				f.vars[slot] = &Undefined{hint: "parameter " + reprString(def.params[i]) + " was not provided", name: def.params[i], obj: missing}
			}
		}
		return st.capture(func() { body(st, f) })
	}
	return func(_ *state, f *frame) *Macro {
		made := m
		made.frame = f
		return &made
	}
}

func copyTo(f *frame, slots []int, values []any) {
	for i, v := range values {
		f.vars[slots[i]] = v
	}
}

func (s scope) callBlock(n *callBlock) execFn {
	define := s.macro("caller", n.macroDef)
	if n.call == nil {
		return func(st *state, f *frame) signal {
			st.at = n.pos
			text := define(st, f).call(st, arguments{}).(string)
			start := st.top.points()
			runes := len([]rune(text))
			st.spans = append(st.spans, [2]int{start, start + runes})
			st.write(text)
			return sigNone
		}
	}
	call := n.call.(*callNode)
	fn, args := s.expr(call.fn), s.arguments(call.callArgs)
	return func(st *state, f *frame) signal {
		st.at = n.pos
		callee := fn(st, f)
		a := args(st, f)
		a.kw = append(a.kw, keyword{"caller", define(st, f)})
		st.write(st.text(st.call(callee, a)))
		return sigNone
	}
}

// arguments compiles the arguments of a call.
func (s scope) arguments(n callArgs) func(*state, *frame) arguments {
	pos, values := s.exprs(n.args), s.exprs(n.values)
	var dynArgs, dynKw evalFn
	if n.dynArgs != nil {
		dynArgs = s.expr(n.dynArgs)
	}
	if n.dynKw != nil {
		dynKw = s.expr(n.dynKw)
	}
	if len(pos) == 0 && len(values) == 0 && dynArgs == nil && dynKw == nil {
		return func(*state, *frame) arguments { return arguments{} }
	}
	return func(st *state, f *frame) arguments {
		var a arguments
		if len(pos) > 0 {
			a.pos = make([]any, len(pos))
			for i, p := range pos {
				a.pos[i] = p(st, f)
			}
		}
		for i, v := range values {
			a.kw = append(a.kw, keyword{n.names[i], v(st, f)})
		}
		if dynArgs != nil {
			a.pos = append(a.pos, st.collect(dynArgs(st, f))...)
		}
		if dynKw != nil {
			d, ok := dynKw(st, f).(*Dict)
			if !ok {
				panic(typeErrorf("argument after ** must be a mapping"))
			}
			for i, k := range d.keys {
				name, ok := k.(string)
				if !ok {
					panic(typeErrorf("keywords must be strings"))
				}
				a.kw = append(a.kw, keyword{name, d.vals[i]})
			}
		}
		return a
	}
}
