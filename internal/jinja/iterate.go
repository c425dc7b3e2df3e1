package jinja

import "unicode/utf8"

// iterator walks a list, or asks more for each item.
type iterator struct {
	items []any
	more  func() (any, bool)
}

func (it *iterator) next() (any, bool) {
	if it.more != nil {
		return it.more()
	}
	if len(it.items) == 0 {
		return nil, false
	}
	v := it.items[0]
	it.items = it.items[1:]
	return v, true
}

func chars(s string) iterator {
	return iterator{more: func() (any, bool) {
		if s == "" {
			return nil, false
		}
		_, n := utf8.DecodeRuneInString(s)
		c := s[:n]
		s = s[n:]
		return c, true
	}}
}

// iterate is Python's iter. It panics with a TypeError on what cannot be walked.
func (st *state) iterate(v any) iterator {
	switch v := v.(type) {
	case *List:
		return iterator{items: v.items}
	case *Tuple:
		return iterator{items: v.items}
	case *Dict:
		return iterator{items: v.keys}
	case *dictView:
		switch v.kind {
		case "keys":
			return iterator{items: v.dict.keys}
		case "values":
			return iterator{items: v.dict.vals}
		}
		i := 0
		return iterator{more: func() (any, bool) {
			if i == len(v.dict.keys) {
				return nil, false
			}
			i++
			return &Tuple{[]any{v.dict.keys[i-1], v.dict.vals[i-1]}}, true
		}}
	case string:
		return chars(v)
	case Markup:
		return chars(string(v))
	case *generator:
		return iterator{more: v.next}
	case *Undefined:
		if v.unsafe {
			panic(v.fail())
		}
		return iterator{}
	case rangeValue:
		i := 0
		return iterator{more: func() (any, bool) {
			if i == v.count {
				return nil, false
			}
			i++
			return v.start + (i-1)*v.step, true
		}}
	case *loopContext:
		return iterator{more: func() (any, bool) {
			x, ok := v.advance()
			return &Tuple{[]any{x, v}}, ok
		}}
	}
	panic(typeErrorf("'%s' object is not iterable", typeName(v)))
}

// lazy makes a generator whose iteration is prepared when it is first asked.
func lazy(start func() func() (any, bool)) *generator {
	var more func() (any, bool)
	done := false
	return &generator{iterator{more: func() (any, bool) {
		if done {
			return nil, false
		}
		if more == nil {
			more = start()
		}
		v, ok := more()
		done = !ok
		return v, ok
	}}}
}

// collect is Python's list(v).
func (st *state) collect(v any) []any {
	it := st.iterate(v)
	if it.more == nil {
		st.size(16 * len(it.items))
		return append([]any(nil), it.items...)
	}
	var out []any
	for x, ok := it.next(); ok; x, ok = it.next() {
		st.step(0)
		out = append(out, x)
		if 16*len(out) > st.maxBytes {
			panic(limitf("a list of %d items exceeds %d bytes", len(out), st.maxBytes))
		}
	}
	return out
}

// length is Python's len; ok is false where there is none.
func (st *state) length(v any) (int, bool) {
	switch v := v.(type) {
	case string:
		st.step(len(v))
		return utf8.RuneCountInString(v), true
	case Markup:
		st.step(len(v))
		return utf8.RuneCountInString(string(v)), true
	case *List:
		return len(v.items), true
	case *Tuple:
		return len(v.items), true
	case *Dict:
		return len(v.keys), true
	case *dictView:
		return len(v.dict.keys), true
	case rangeValue:
		return v.count, true
	case *Undefined:
		if v.unsafe {
			panic(v.fail())
		}
		return 0, true
	case *loopContext:
		return v.length(st), true
	}
	return 0, false
}
