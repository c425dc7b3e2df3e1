package jinja

// arguments are those of one call.
type arguments struct {
	pos []any
	kw  []keyword
}

type keyword struct {
	name  string
	value any
}

// take binds arguments to parameters as Python does for a function of that
// name; what was not given is missing. The first required ones must be there.
func (a arguments) take(fn string, required int, params ...string) []any {
	out := make([]any, len(params))
	for i := range out {
		out[i] = missing
	}
	if len(a.pos) > len(params) {
		panic(typeErrorf("%s() takes at most %d arguments (%d given)", fn, len(params), len(a.pos)))
	}
	copy(out, a.pos)
	for _, k := range a.kw {
		found := false
		for i, p := range params {
			if p != k.name {
				continue
			}
			if out[i] != missing {
				panic(typeErrorf("%s() got multiple values for argument '%s'", fn, p))
			}
			out[i], found = k.value, true
		}
		if !found {
			panic(typeErrorf("%s() got an unexpected keyword argument '%s'", fn, k.name))
		}
	}
	for i := range required {
		if out[i] == missing {
			panic(typeErrorf("%s() missing 1 required positional argument: '%s'", fn, params[i]))
		}
	}
	return out
}

// none checks that a function without parameters got none.
func (a arguments) none(fn string) {
	if len(a.pos)+len(a.kw) > 0 {
		panic(typeErrorf("%s() takes no arguments (%d given)", fn, len(a.pos)+len(a.kw)))
	}
}

// one is the argument of a function that takes exactly one.
func (a arguments) one(fn string) any {
	if len(a.pos) != 1 || len(a.kw) > 0 {
		panic(typeErrorf("%s() takes exactly one argument (%d given)", fn, len(a.pos)+len(a.kw)))
	}
	return a.pos[0]
}

type caller interface {
	call(st *state, a arguments) any
}

// builtin is a function of ours; boundMethod one that belongs to a value.
type builtin struct {
	name string
	fn   func(st *state, a arguments) any
}

func (b *builtin) call(st *state, a arguments) any { return b.fn(st, a) }

type boundMethod struct {
	name string
	self any
	fn   func(st *state, self any, a arguments) any
}

func (b *boundMethod) call(st *state, a arguments) any { return b.fn(st, b.self, a) }

func (st *state) call(fn any, a arguments) any {
	c, ok := fn.(caller)
	if !ok {
		defined(fn)
		panic(typeErrorf("'%s' object is not callable", typeName(fn)))
	}
	at := st.at
	st.step(0)
	v := c.call(st, a)
	st.at = at
	return v
}

// Macro is a macro of the template, or the body of a call block.
type Macro struct {
	name      string
	params    []string
	caller    bool // the body mentions caller, kwargs, varargs
	kwargs    bool
	varargs   bool
	ownCaller bool // caller is among the parameters
	run       func(st *state, up *frame, b bound) string
	frame     *frame
}

// bound are the arguments of one macro call.
type bound struct {
	params  []any
	caller  any
	kwargs  *Dict
	varargs *Tuple
}

func (m *Macro) call(st *state, a arguments) any {
	b := bound{params: make([]any, len(m.params)), caller: missing}
	n := copy(b.params, a.pos)
	foundCaller := n == len(m.params) && m.ownCaller
	rest := NewDict()
	for _, k := range a.kw {
		rest.put(k.name, k.value)
	}
	used := map[string]bool{}
	for i := n; i < len(m.params); i++ {
		b.params[i] = missing
		if v, ok := rest.Get(m.params[i]); ok {
			b.params[i] = v
			used[m.params[i]] = true
		}
		foundCaller = foundCaller || m.params[i] == "caller"
	}
	if m.caller && !foundCaller {
		b.caller = &Undefined{hint: "No caller defined", name: "caller", obj: missing}
		if v, ok := rest.Get("caller"); ok {
			used["caller"] = true
			if v != nil {
				b.caller = v
			}
		}
	}
	b.kwargs = NewDict()
	for i, k := range rest.keys {
		if name := k.(string); !used[name] {
			b.kwargs.put(k, rest.vals[i])
		}
	}
	if !m.kwargs && len(b.kwargs.keys) > 0 {
		if _, ok := b.kwargs.Get("caller"); ok {
			panic(typeErrorf("macro %s was invoked with two values for the special caller argument. This is most likely a bug.", reprString(m.name)))
		}
		panic(typeErrorf("macro %s takes no keyword argument %s", reprString(m.name), reprShort(b.kwargs.keys[0])))
	}
	b.varargs = &Tuple{a.pos[n:]}
	if !m.varargs && len(a.pos) > n {
		panic(typeErrorf("macro %s takes not more than %d argument(s)", reprString(m.name), len(m.params)))
	}
	st.enter()
	text := m.run(st, m.frame, b)
	st.depth--
	return text
}
