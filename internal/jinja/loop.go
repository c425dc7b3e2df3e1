package jinja

// loopContext is the variable loop: it looks one item ahead when asked.
type loopContext struct {
	of       any // what is walked, nil when only the iterator is known
	it       iterator
	index0   int
	len      int // -1: not known yet
	after    any // missing: not looked ahead
	current  any
	before   any
	changed  any
	depth0   int
	recurse  func(v any, depth int) string
	finished bool
}

func newLoopContext(of any, it iterator) *loopContext {
	return &loopContext{of: of, it: it, index0: -1, len: -1, after: missing, current: missing, before: missing, changed: missing}
}

func (l *loopContext) pull() any {
	if l.finished {
		return missing
	}
	v, ok := l.it.next()
	if !ok {
		l.finished = true
		return missing
	}
	return v
}

func (l *loopContext) advance() (any, bool) {
	v := l.after
	l.after = missing
	if v == missing {
		v = l.pull()
		if v == missing {
			return nil, false
		}
	}
	l.index0++
	l.before, l.current = l.current, v
	return v, true
}

func (l *loopContext) peek() any {
	if l.after == missing {
		l.after = l.pull()
	}
	return l.after
}

func (l *loopContext) length(st *state) int {
	if l.len >= 0 {
		return l.len
	}
	if l.of != nil {
		if n, ok := st.length(l.of); ok {
			l.len = n
			return n
		}
	}
	rest := &generator{l.it}
	items := st.collect(rest)
	l.it = iterator{items: items}
	l.len = len(items) + l.index0 + 1
	if l.after != missing {
		l.len++
	}
	return l.len
}

func (l *loopContext) attr(st *state, name string) (any, bool) {
	switch name {
	case "index":
		return l.index0 + 1, true
	case "index0":
		return l.index0, true
	case "first":
		return l.index0 == 0, true
	case "last":
		return l.peek() == missing, true
	case "length":
		return l.length(st), true
	case "revindex":
		return l.length(st) - l.index0, true
	case "revindex0":
		return l.length(st) - l.index0 - 1, true
	case "depth":
		return l.depth0 + 1, true
	case "depth0":
		return l.depth0, true
	case "previtem":
		if l.index0 == 0 {
			return &Undefined{hint: "there is no previous item", obj: missing}, true
		}
		return l.before, true
	case "nextitem":
		if v := l.peek(); v != missing {
			return v, true
		}
		return &Undefined{hint: "there is no next item", obj: missing}, true
	case "cycle":
		return &builtin{"cycle", func(_ *state, a arguments) any {
			if len(a.pos) == 0 {
				panic(typeErrorf("no items for cycling given"))
			}
			return a.pos[l.index0%len(a.pos)]
		}}, true
	case "changed":
		return &builtin{"changed", func(st *state, a arguments) any {
			now := &Tuple{a.pos}
			if l.changed != missing && st.equal(l.changed, now, 0) {
				return false
			}
			l.changed = now
			return true
		}}, true
	}
	return nil, false
}

func (l *loopContext) call(_ *state, a arguments) any {
	if l.recurse == nil {
		panic(typeErrorf("The loop must have the 'recursive' marker to be called recursively."))
	}
	return l.recurse(a.one("loop"), l.depth0+1)
}
