package jinja

import (
	"fmt"
	"strconv"
	"strings"
)

// attrGetter reads an attribute path such as "a.b.0" off each item.
func (st *state) attrGetter(path any) func(any) any {
	var parts []any
	if s, ok := str(path); ok {
		for _, p := range strings.Split(s, ".") {
			if i, err := strconv.Atoi(p); err == nil && p[0] != '-' && p[0] != '+' {
				parts = append(parts, i)
			} else {
				parts = append(parts, p)
			}
		}
	} else {
		parts = []any{path}
	}
	return func(v any) any {
		for _, p := range parts {
			v = st.item(v, p)
		}
		return v
	}
}

// selecting makes select, reject, selectattr and rejectattr: lazy, and
// nothing for a falsy input.
func selecting(name string, byAttr, keep bool) filterFn {
	return func(st *state, v any, a arguments) any {
		return lazy(func() func() (any, bool) {
			if !st.truth(v) {
				return func() (any, bool) { return nil, false }
			}
			accept := st.predicate(name, byAttr, a)
			it := st.iterate(v)
			return func() (any, bool) {
				for x, ok := it.next(); ok; x, ok = it.next() {
					st.step(0)
					if accept(x) == keep {
						return x, true
					}
				}
				return nil, false
			}
		})
	}
}

func (st *state) predicate(name string, byAttr bool, a arguments) func(any) bool {
	get := func(v any) any { return v }
	if byAttr {
		if len(a.pos) == 0 {
			panic(raisef("FilterArgumentError", "Missing parameter for attribute name"))
		}
		get = st.attrGetter(a.pos[0])
		a.pos = a.pos[1:]
	}
	if len(a.pos) == 0 {
		return func(v any) bool { return st.truth(get(v)) }
	}
	test, ok := st.lib.tests[st.text(a.pos[0])]
	if !ok {
		panic(raisef("TemplateRuntimeError", "No test named %s.", reprShort(a.pos[0])))
	}
	rest := arguments{a.pos[1:], a.kw}
	return func(v any) bool { return test(st, get(v), rest) }
}

func mapFilter(st *state, v any, a arguments) any {
	return lazy(func() func() (any, bool) {
		if !st.truth(v) {
			return func() (any, bool) { return nil, false }
		}
		fn := st.mapping(a)
		it := st.iterate(v)
		return func() (any, bool) {
			x, ok := it.next()
			if !ok {
				return nil, false
			}
			st.step(0)
			return fn(x), true
		}
	})
}

func (st *state) mapping(a arguments) func(any) any {
	if len(a.pos) == 0 && len(a.kw) > 0 {
		p := a.take("map", 1, "attribute", "default")
		get := st.attrGetter(p[0])
		return func(v any) any {
			v = get(v)
			if _, ok := v.(*Undefined); ok && p[1] != missing {
				return p[1]
			}
			return v
		}
	}
	if len(a.pos) == 0 {
		panic(raisef("FilterArgumentError", "map requires a filter argument"))
	}
	filter, ok := st.lib.filters[st.text(a.pos[0])]
	if !ok {
		panic(raisef("TemplateRuntimeError", "No filter named %s.", reprShort(a.pos[0])))
	}
	rest := arguments{a.pos[1:], a.kw}
	return func(v any) any { return filter(st, v, rest) }
}

// folded makes texts compare without case, unless sensitive.
func (st *state) folded(sensitive any, get func(any) any) func(any) any {
	if sensitive != missing && st.truth(sensitive) {
		return get
	}
	return func(v any) any {
		v = get(v)
		if s, ok := str(v); ok {
			return lowerText(s)
		}
		return v
	}
}

func same(v any) any { return v }

func (st *state) optionalAttr(v any) func(any) any {
	if v == missing || v == nil {
		return same
	}
	return st.attrGetter(v)
}

func sortFilter(st *state, v any, a arguments) any {
	p := a.take("sort", 0, "reverse", "case_sensitive", "attribute")
	items := st.collect(v)
	get := st.optionalAttr(p[2])
	if s, ok := str(p[2]); ok && strings.Contains(s, ",") {
		var getters []func(any) any
		for _, part := range strings.Split(s, ",") {
			getters = append(getters, st.folded(p[1], st.attrGetter(part)))
		}
		get = func(v any) any {
			key := &List{}
			for _, g := range getters {
				key.items = append(key.items, g(v))
			}
			return key
		}
	}
	st.sort(items, st.folded(p[1], get), p[0] != missing && st.truth(p[0]))
	return &List{items}
}

func dictSort(st *state, v any, a arguments) any {
	p := a.take("dictsort", 0, "case_sensitive", "by", "reverse")
	d, ok := v.(*Dict)
	if !ok {
		defined(v)
		panic(raisef("AttributeError", "'%s' object has no attribute 'items'", typeName(v)))
	}
	at := 0
	if p[1] != missing && st.text(p[1]) != "key" {
		at = 1
		if st.text(p[1]) != "value" {
			panic(raisef("FilterArgumentError", "You can only sort by either \"key\" or \"value\""))
		}
	}
	items := st.collect(&dictView{d, "items"})
	key := st.folded(p[0], func(v any) any { return v.(*Tuple).items[at] })
	st.sort(items, key, p[2] != missing && st.truth(p[2]))
	return &List{items}
}

func uniqueFilter(st *state, v any, a arguments) any {
	p := a.take("unique", 0, "case_sensitive", "attribute")
	return lazy(func() func() (any, bool) {
		get := st.folded(p[0], st.optionalAttr(p[1]))
		seen := map[any]bool{}
		it := st.iterate(v)
		return func() (any, bool) {
			for x, ok := it.next(); ok; x, ok = it.next() {
				st.step(0)
				if k := hashKey(get(x)); !seen[k] {
					seen[k] = true
					return x, true
				}
			}
			return nil, false
		}
	})
}

func groupBy(st *state, v any, a arguments) any {
	p := a.take("groupby", 1, "attribute", "default", "case_sensitive")
	get := st.attrGetter(p[0])
	read := func(v any) any {
		v = get(v)
		if _, ok := v.(*Undefined); ok && p[1] != missing && p[1] != nil {
			return p[1]
		}
		return v
	}
	key := st.folded(p[2], read)
	items := st.collect(v)
	st.sort(items, key, false)
	var groups []any
	var last any
	for _, x := range items {
		k := key(x)
		if len(groups) == 0 || !st.equal(last, k, 0) {
			groups = append(groups, &group{read(x), &List{}})
			last = k
		}
		g := groups[len(groups)-1].(*group)
		g.list.items = append(g.list.items, x)
	}
	for i, g := range groups {
		g := g.(*group)
		groups[i] = &Tuple{[]any{g.grouper, g.list}}
	}
	return &List{groups}
}

type group struct {
	grouper any
	list    *List
}

func extreme(name string) filterFn {
	return func(st *state, v any, a arguments) any {
		p := a.take(name, 0, "case_sensitive", "attribute")
		key := st.folded(p[0], st.optionalAttr(p[1]))
		it := st.iterate(v)
		best, ok := it.next()
		if !ok {
			return &Undefined{hint: "No aggregated item, sequence was empty.", obj: missing}
		}
		for x, more := it.next(); more; x, more = it.next() {
			c := st.order("<", key(x), key(best), 0)
			if name == "min" && c == -1 || name == "max" && c == 1 {
				best = x
			}
		}
		return best
	}
}

func sumFilter(st *state, v any, a arguments) any {
	p := a.take("sum", 0, "attribute", "start")
	get := st.optionalAttr(p[0])
	var total any = 0
	if p[1] != missing {
		total = p[1]
	}
	it := st.iterate(v)
	for x, ok := it.next(); ok; x, ok = it.next() {
		total = st.add(total, get(x))
	}
	return total
}

func batchFilter(st *state, v any, a arguments) any {
	p := a.take("batch", 1, "linecount", "fill_with")
	n := intArg(p[0], 1)
	return lazy(func() func() (any, bool) {
		it := st.iterate(v)
		return func() (any, bool) {
			var row []any
			for len(row) == 0 || len(row) != n {
				x, ok := it.next()
				if !ok {
					break
				}
				st.step(0)
				row = append(row, x)
			}
			if len(row) == 0 {
				return nil, false
			}
			for p[1] != missing && p[1] != nil && len(row) < n {
				st.size(16 * len(row) & 63)
				row = append(row, p[1])
				if 16*len(row) > st.maxBytes {
					panic(limitf("a list of %d items exceeds %d bytes", len(row), st.maxBytes))
				}
			}
			return &List{row}, true
		}
	})
}

func sliceFilter(st *state, v any, a arguments) any {
	p := a.take("slice", 1, "slices", "fill_with")
	n := intArg(p[0], 1)
	return lazy(func() func() (any, bool) {
		items := st.collect(v)
		if n == 0 {
			panic(raisef("ZeroDivisionError", "integer division or modulo by zero"))
		}
		i, at := 0, 0
		return func() (any, bool) {
			if i >= n {
				return nil, false
			}
			st.step(0)
			size := len(items) / n
			if i < len(items)%n {
				size++
			}
			row := append([]any(nil), items[at:at+size]...)
			if i >= len(items)%n && p[1] != missing && p[1] != nil {
				row = append(row, p[1])
			}
			at += size
			i++
			return &List{row}, true
		}
	})
}

func fileSize(st *state, v any, a arguments) any {
	p := a.take("filesizeformat", 0, "binary")
	bytes := toFloat(floatFilter(st, v, arguments{}))
	base, units := 1000.0, []string{"kB", "MB", "GB", "TB", "PB", "EB", "ZB", "YB"}
	if p[0] != missing && st.truth(p[0]) {
		base, units = 1024, []string{"KiB", "MiB", "GiB", "TiB", "PiB", "EiB", "ZiB", "YiB"}
	}
	if bytes == 1 {
		return "1 Byte"
	}
	if bytes < base {
		return fmt.Sprintf("%d Bytes", int(bytes))
	}
	unit := base
	for i, name := range units {
		unit *= base
		if bytes < unit || i == len(units)-1 {
			return fmt.Sprintf("%.1f %s", base*bytes/unit, name)
		}
	}
	return ""
}
