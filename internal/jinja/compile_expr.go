package jinja

import "slices"

func (s scope) exprs(list []expr) []evalFn {
	out := make([]evalFn, len(list))
	for i, e := range list {
		out[i] = s.expr(e)
	}
	return out
}

func (s scope) expr(e expr) evalFn {
	switch n := e.(type) {
	case *constNode:
		return func(*state, *frame) any { return n.value }
	case *nameNode:
		return s.variable(n.name)
	case *seqNode:
		return s.sequence(n)
	case *dictNode:
		keys, values := s.exprs(n.keys), s.exprs(n.values)
		return func(st *state, f *frame) any {
			d := NewDict()
			st.step(16 * len(keys))
			for i, k := range keys {
				d.put(k(st, f), values[i](st, f))
			}
			return d
		}
	case *attrNode:
		of := s.expr(n.of)
		return func(st *state, f *frame) any { return st.attr(of(st, f), n.name) }
	case *itemNode:
		return s.item(n)
	case *sliceNode:
		return s.slice(n)
	case *callNode:
		return s.call(n)
	case *filterNode:
		return s.filter(n, s.expr(n.of))
	case *testNode:
		test := s.test(n)
		return func(st *state, f *frame) any { return test(st, f) }
	case *unaryNode:
		return s.unary(n)
	case *binaryNode:
		return s.binary(n)
	case *compareNode:
		test := s.compare(n)
		return func(st *state, f *frame) any { return test(st, f) }
	case *concatNode:
		return s.concat(n)
	case *condNode:
		return s.cond(n)
	}
	panic(syntaxf(e.place(), "this cannot stand in an expression"))
}

func (s scope) sequence(n *seqNode) evalFn {
	items := s.exprs(n.items)
	return func(st *state, f *frame) any {
		st.step(16 * len(items))
		out := make([]any, len(items))
		for i, e := range items {
			out[i] = e(st, f)
		}
		if n.tuple {
			return &Tuple{out}
		}
		return &List{out}
	}
}

func (s scope) item(n *itemNode) evalFn {
	of := s.expr(n.of)
	if c, ok := n.key.(*constNode); ok {
		if key, ok := c.value.(string); ok {
			boxed := c.value
			return func(st *state, f *frame) any {
				v := of(st, f)
				if d, ok := v.(*Dict); ok {
					if x, ok := d.Get(key); ok {
						return x
					}
				}
				return st.item(v, boxed)
			}
		}
	}
	key := s.expr(n.key)
	return func(st *state, f *frame) any {
		v := of(st, f)
		return st.item(v, key(st, f))
	}
}

func (s scope) slice(n *sliceNode) evalFn {
	of := s.expr(n.of)
	bound := func(e expr) evalFn {
		if e == nil {
			return func(*state, *frame) any { return nil }
		}
		return s.expr(e)
	}
	start := bound(n.start)
	stop := bound(n.stop)
	inc := bound(n.inc)
	return func(st *state, f *frame) any {
		v := of(st, f)
		return st.slice(v, start(st, f), stop(st, f), inc(st, f))
	}
}

func (s scope) call(n *callNode) evalFn {
	args := s.arguments(n.callArgs)
	if a, ok := n.fn.(*attrNode); ok {
		of := s.expr(a.of)
		method := s.lib.str[a.name]
		return func(st *state, f *frame) any {
			self := of(st, f)
			if text, ok := self.(string); ok && method != nil {
				return method(st, text, args(st, f))
			}
			return st.call(st.attr(self, a.name), args(st, f))
		}
	}
	fn := s.expr(n.fn)
	return func(st *state, f *frame) any {
		callee := fn(st, f)
		return st.call(callee, args(st, f))
	}
}

// filterOn compiles a chain of filters whose innermost takes a captured text.
func (s scope) filterOn(e expr) func(*state, *frame, any) any {
	n := e.(*filterNode)
	if n.of == nil {
		filter, args := s.lookupFilter(n), s.arguments(n.callArgs)
		return func(st *state, f *frame, text any) any { return filter(st, text, args(st, f)) }
	}
	inner := s.filterOn(n.of)
	filter, args := s.lookupFilter(n), s.arguments(n.callArgs)
	return func(st *state, f *frame, text any) any {
		v := inner(st, f, text)
		return filter(st, v, args(st, f))
	}
}

func (s scope) lookupFilter(n *filterNode) filterFn {
	if filter, ok := s.lib.filters[n.name]; ok {
		return filter
	}
	if !s.soft {
		e := syntaxf(n.pos, "No filter named %s.", reprString(n.name))
		e.Kind = "TemplateAssertionError"
		panic(e)
	}
	return func(*state, any, arguments) any {
		panic(raisef("TemplateRuntimeError", "No filter named %s found.", reprString(n.name)))
	}
}

func (s scope) filter(n *filterNode, of evalFn) evalFn {
	filter, args := s.lookupFilter(n), s.arguments(n.callArgs)
	return func(st *state, f *frame) any {
		v := of(st, f)
		return filter(st, v, args(st, f))
	}
}

type testFn func(st *state, f *frame) bool

func (s scope) test(n *testNode) testFn {
	of, args := s.expr(n.of), s.arguments(n.callArgs)
	test, ok := s.lib.tests[n.name]
	if !ok && !s.soft {
		e := syntaxf(n.pos, "No test named %s.", reprString(n.name))
		e.Kind = "TemplateAssertionError"
		panic(e)
	}
	if !ok {
		test = func(*state, any, arguments) bool {
			panic(raisef("TemplateRuntimeError", "No test named %s found.", reprString(n.name)))
		}
	}
	return func(st *state, f *frame) bool {
		v := of(st, f)
		return test(st, v, args(st, f))
	}
}

// truth compiles an expression of which only the truth is wanted.
func (s scope) truth(e expr) testFn {
	switch n := e.(type) {
	case *testNode:
		return s.test(n)
	case *compareNode:
		return s.compare(n)
	case *unaryNode:
		if n.op == "not" {
			of := s.truth(n.of)
			return func(st *state, f *frame) bool { return !of(st, f) }
		}
	case *binaryNode:
		switch n.op {
		case "and":
			left, right := s.truth(n.left), s.truth(n.right)
			return func(st *state, f *frame) bool { return left(st, f) && right(st, f) }
		case "or":
			left, right := s.truth(n.left), s.truth(n.right)
			return func(st *state, f *frame) bool { return left(st, f) || right(st, f) }
		}
	}
	value := s.expr(e)
	return func(st *state, f *frame) bool { return st.truth(value(st, f)) }
}

func (s scope) unary(n *unaryNode) evalFn {
	if n.op == "not" {
		test := s.truth(n)
		return func(st *state, f *frame) any { return test(st, f) }
	}
	of := s.expr(n.of)
	if n.op == "-" {
		return func(st *state, f *frame) any { return st.negate(of(st, f)) }
	}
	return func(st *state, f *frame) any { return st.plus(of(st, f)) }
}

func (s scope) binary(n *binaryNode) evalFn {
	if n.op == "+" {
		return s.sum(n)
	}
	left, right := s.expr(n.left), s.expr(n.right)
	switch op := n.op; op {
	case "and":
		return func(st *state, f *frame) any {
			if v := left(st, f); !st.truth(v) {
				return v
			}
			return right(st, f)
		}
	case "or":
		return func(st *state, f *frame) any {
			if v := left(st, f); st.truth(v) {
				return v
			}
			return right(st, f)
		}
	default:
		return func(st *state, f *frame) any {
			v := left(st, f)
			return st.arith(op, v, right(st, f))
		}
	}
}

// sum is a chain of additions; see terms.
func (s scope) sum(n *binaryNode) evalFn {
	terms := s.terms(n)
	return func(st *state, f *frame) any {
		v, base, size := terms(st, f)
		if len(st.texts) > base {
			return st.join(base, size)
		}
		return v
	}
}

// termsFn evaluates a chain of additions. Where the sum is text, it leaves the parts on the
// state from base on, size bytes in all; else it is v.
type termsFn func(st *state, f *frame) (v any, base, size int)

// terms is a chain of additions. Texts, of which templates make their messages, are joined
// once, at the end, or not at all where they are written out, and charged as if each
// addition had made one.
func (s scope) terms(n *binaryNode) termsFn {
	var terms []expr
	first := expr(n)
	for {
		b, ok := first.(*binaryNode)
		if !ok || b.op != "+" {
			break
		}
		first, terms = b.left, append(terms, b.right)
	}
	slices.Reverse(terms)
	of, rest := s.expr(first), s.exprs(terms)
	return func(st *state, f *frame) (v any, base, size int) {
		v, base = of(st, f), len(st.texts)
		for _, e := range rest {
			next := e(st, f)
			if text, ok := next.(string); ok {
				if begin, ok := v.(string); ok && len(st.texts) == base {
					st.texts, size = append(st.texts, begin), len(begin)
				}
				if len(st.texts) > base {
					st.texts, size = append(st.texts, text), size+len(text)
					st.size(size)
					continue
				}
			}
			if len(st.texts) > base {
				v = st.join(base, size)
			}
			v = st.add(v, next)
		}
		return v, base, size
	}
}

// join takes the texts from base on off the state, as one of size bytes.
func (st *state) join(base, size int) string {
	text := join(st.texts[base:], size)
	st.texts = st.texts[:base]
	return text
}

func (s scope) compare(n *compareNode) testFn {
	first, rest := s.expr(n.first), s.exprs(n.rest)
	if len(rest) == 1 {
		op, second := n.ops[0], rest[0]
		if op == "==" || op == "!=" {
			equal := op == "=="
			return func(st *state, f *frame) bool {
				v := first(st, f)
				return st.equal(v, second(st, f), 0) == equal
			}
		}
		return func(st *state, f *frame) bool {
			v := first(st, f)
			return st.compare(op, v, second(st, f))
		}
	}
	return func(st *state, f *frame) bool {
		v := first(st, f)
		for i, e := range rest {
			w := e(st, f)
			if !st.compare(n.ops[i], v, w) {
				return false
			}
			v = w
		}
		return true
	}
}

func (s scope) concat(n *concatNode) evalFn {
	parts := s.exprs(n.parts)
	return func(st *state, f *frame) any {
		var texts [8]string
		list := texts[:0]
		size := 0
		for _, p := range parts {
			t := st.text(p(st, f))
			size += len(t)
			list = append(list, t)
		}
		st.size(size)
		return join(list, size)
	}
}

func (s scope) cond(n *condNode) evalFn {
	s = s.softened()
	test, yes := s.truth(n.test), s.expr(n.yes)
	if n.no == nil {
		undef := &Undefined{hint: "the inline if-expression on line " + itoa(n.line) +
			" evaluated to false and no else section was defined.", obj: missing}
		return func(st *state, f *frame) any {
			if test(st, f) {
				return yes(st, f)
			}
			return undef
		}
	}
	no := s.expr(n.no)
	return func(st *state, f *frame) any {
		if test(st, f) {
			return yes(st, f)
		}
		return no(st, f)
	}
}
