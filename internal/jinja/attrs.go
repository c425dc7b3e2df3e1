package jinja

import (
	"strings"
	"unicode/utf8"
)

// attr is value.name: a method first, then a key.
func (st *state) attr(v any, name string) any {
	if x, ok := st.pyAttr(v, name); ok {
		return x
	}
	switch v := v.(type) {
	case *Dict:
		if x, ok := v.Get(name); ok {
			return x
		}
	case *Undefined:
		panic(v.fail())
	}
	return &Undefined{obj: v, name: name}
}

// item is value[key]: an item first, then a method.
func (st *state) item(v, key any) any {
	if x, ok := st.subscript(v, key); ok {
		return x
	}
	if name, ok := str(key); ok {
		if x, ok := st.pyAttr(v, name); ok {
			return x
		}
	}
	return &Undefined{obj: v, name: key}
}

func (st *state) subscript(v, key any) (any, bool) {
	switch c := v.(type) {
	case *Dict:
		switch key.(type) {
		case *List, *Dict, *Undefined:
			return nil, false
		}
		return c.lookup(key)
	case *List:
		return at(c.items, key)
	case *Tuple:
		return at(c.items, key)
	case string:
		return st.charAt(c, key)
	case Markup:
		x, ok := st.charAt(string(c), key)
		if s, text := x.(string); text {
			x = Markup(s)
		}
		return x, ok
	case rangeValue:
		if i, ok := index(key, c.count); ok {
			return c.start + i*c.step, true
		}
	case *Undefined:
		panic(c.fail())
	}
	return nil, false
}

func index(key any, n int) (int, bool) {
	i, ok := integer(key)
	if i < 0 {
		i += n
	}
	return i, ok && i >= 0 && i < n
}

func at(items []any, key any) (any, bool) {
	if i, ok := index(key, len(items)); ok {
		return items[i], true
	}
	return nil, false
}

func (st *state) charAt(s string, key any) (any, bool) {
	if i, ok := integer(key); !ok || i >= len(s) || i < -len(s) {
		return nil, false
	}
	st.step(len(s))
	if isASCII(s) {
		i, ok := index(key, len(s))
		if !ok {
			return nil, false
		}
		return s[i : i+1], true
	}
	runes := []rune(s)
	if i, ok := index(key, len(runes)); ok {
		return string(runes[i]), true
	}
	return nil, false
}

func isASCII(s string) bool {
	for i := 0; i < len(s); i++ {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// mutators are the methods that the sandbox refuses.
var mutators = map[string]string{
	"list": " append clear pop reverse insert sort extend remove ",
	"dict": " clear pop popitem setdefault update ",
}

// pyAttr is Python's getattr on a value, through the sandbox.
func (st *state) pyAttr(v any, name string) (any, bool) {
	switch c := v.(type) {
	case *Undefined:
		if strings.HasPrefix(name, "__") {
			return nil, false
		}
		panic(c.fail())
	case *Namespace:
		if x, ok := c.attrs.Get(name); ok {
			return x, true
		}
		return nil, false
	case *loopContext:
		if x, ok := c.attr(st, name); ok {
			return x, true
		}
	case string:
		if m := st.lib.str[name]; m != nil {
			return &boundMethod{name, v, func(st *state, self any, a arguments) any { return m(st, self.(string), a) }}, true
		}
	case Markup:
		if m := st.lib.str[name]; m != nil {
			return &boundMethod{name, v, func(st *state, self any, a arguments) any {
				return st.markupMethod(name, m, self.(Markup), a)
			}}, true
		}
	case *Macro:
		switch name {
		case "name":
			return c.name, true
		case "arguments":
			t := &Tuple{}
			for _, p := range c.params {
				t.items = append(t.items, p)
			}
			return t, true
		case "caller", "catch_kwargs", "catch_varargs":
			return map[string]bool{"caller": c.caller, "catch_kwargs": c.kwargs, "catch_varargs": c.varargs}[name], true
		}
	case object:
		if x, ok := c.attr(name); ok {
			return x, true
		}
	case *Dict: // nearly always a key
		if !dictAttr(name) {
			return nil, false
		}
	}
	kind := typeName(v)
	if m := methods[kind+"."+name]; m != nil {
		return &boundMethod{name, v, m}, true
	}
	if strings.Contains(mutators[kind], " "+name+" ") || isDunder(name) {
		return &Undefined{hint: "access to attribute " + reprString(name) + " of " + reprString(typeName(v)) + " object is unsafe.", obj: v, name: name, unsafe: true}, true
	}
	return nil, false
}

// dictAttr reports whether name may be an attribute of a dict: a method, also one
// that the sandbox refuses, or what every object has.
func dictAttr(name string) bool {
	switch name {
	case "items", "keys", "values", "get", "copy", "fromkeys", "clear", "pop", "popitem", "setdefault", "update":
		return true
	}
	return strings.HasPrefix(name, "__")
}

// isDunder lists what every Python object has and the sandbox hides.
func isDunder(name string) bool {
	if !strings.HasPrefix(name, "__") {
		return false
	}
	return strings.Contains(" __class__ __delattr__ __dir__ __doc__ __eq__ __format__ __ge__ __getattribute__ __getstate__ __gt__ __hash__ __init__"+
		" __init_subclass__ __le__ __lt__ __ne__ __new__ __reduce__ __reduce_ex__ __repr__ __setattr__ __sizeof__ __str__ __subclasshook__ ", " "+name+" ")
}

func (st *state) slice(v, start, stop, step any) any {
	switch v := v.(type) {
	case *Undefined:
		panic(v.fail())
	case string:
		return st.sliceText(v, start, stop, step)
	case Markup:
		return Markup(st.sliceText(string(v), start, stop, step))
	case *List:
		return &List{st.sliceItems(v.items, start, stop, step)}
	case *Tuple:
		return &Tuple{st.sliceItems(v.items, start, stop, step)}
	case rangeValue:
		from, n, by := bounds(v.count, start, stop, step)
		return rangeValue{v.start + from*v.step, n, by * v.step}
	case *Dict:
		panic(typeErrorf("unhashable type: 'slice'"))
	}
	panic(typeErrorf("'%s' object is not subscriptable", typeName(v)))
}

func (st *state) sliceItems(items []any, start, stop, step any) []any {
	from, n, by := bounds(len(items), start, stop, step)
	st.size(16 * n)
	out := make([]any, n)
	for i := range out {
		out[i] = items[from+i*by]
	}
	return out
}

func (st *state) sliceText(s string, start, stop, step any) string {
	st.size(len(s))
	st.step(2 * len(s))
	if isASCII(s) {
		from, n, by := bounds(len(s), start, stop, step)
		if by == 1 || n == 0 {
			return s[from : from+n]
		}
		out := make([]byte, n)
		for i := range out {
			out[i] = s[from+i*by]
		}
		return string(out)
	}
	runes := []rune(s)
	from, n, by := bounds(len(runes), start, stop, step)
	out := make([]rune, n)
	for i := range out {
		out[i] = runes[from+i*by]
	}
	return string(out)
}

// bounds turns a Python slice of something of length n into its first index,
// the number of items and the step between them.
func bounds(n int, start, stop, step any) (from, count, by int) {
	num := func(v any, none int) (int, bool) {
		if v == nil {
			return none, true
		}
		i, ok := integer(v)
		if !ok {
			panic(typeErrorf("slice indices must be integers or None or have an __index__ method"))
		}
		return i, false
	}
	by, _ = num(step, 1)
	if by == 0 {
		panic(raisef("ValueError", "slice step cannot be zero"))
	}
	by = max(min(by, n+1), -n-1)
	low, high := 0, n
	if by < 0 {
		low, high = -1, n-1
	}
	clamp := func(v any, none int) int {
		i, absent := num(v, none)
		if absent {
			return i
		}
		if i < 0 {
			i = max(i, -n-1) + n
		}
		return max(low, min(i, high))
	}
	var to int
	if by > 0 {
		from, to = clamp(start, low), clamp(stop, high)
		count = (to - from + by - 1) / by
	} else {
		from, to = clamp(start, high), clamp(stop, low)
		count = (from - to - by - 1) / -by
	}
	if count <= 0 {
		return 0, 0, by
	}
	return from, count, by
}
