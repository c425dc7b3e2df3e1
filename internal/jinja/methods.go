package jinja

import (
	"math"
	"math/big"
	"slices"
)

type method = func(st *state, self any, a arguments) any

// methods are those of the other types, as "type.name".
var methods = map[string]method{
	"dict.items":  view("items"),
	"dict.keys":   view("keys"),
	"dict.values": view("values"),
	"dict.get": func(_ *state, self any, a arguments) any {
		if len(a.kw) > 0 {
			panic(typeErrorf("dict.get() takes no keyword arguments"))
		}
		p := a.take("get", 1, "key", "default")
		if v, ok := self.(*Dict).lookup(p[0]); ok {
			return v
		}
		if p[1] == missing {
			return nil
		}
		return p[1]
	},
	"dict.copy": func(st *state, self any, a arguments) any {
		a.none("copy")
		st.size(16 * len(self.(*Dict).keys))
		return self.(*Dict).clone()
	},
	"dict.fromkeys": func(st *state, _ any, a arguments) any {
		p := a.take("fromkeys", 1, "iterable", "value")
		if p[1] == missing {
			p[1] = nil
		}
		d := NewDict()
		for _, k := range st.collect(p[0]) {
			d.put(k, p[1])
		}
		return d
	},
	"list.copy": func(st *state, self any, a arguments) any {
		a.none("copy")
		return &List{st.collect(self)}
	},
	"list.index": indexOf, "tuple.index": indexOf, "range.index": indexOf,
	"list.count": countOf, "tuple.count": countOf, "range.count": countOf,
	"float.is_integer": func(_ *state, self any, a arguments) any {
		a.none("is_integer")
		f := self.(float64)
		return f == math.Trunc(f) && !math.IsInf(f, 0)
	},
	"int.bit_length": func(_ *state, self any, a arguments) any {
		a.none("bit_length")
		return new(big.Int).Abs(toBig(self)).BitLen()
	},
}

func view(kind string) method {
	return func(_ *state, self any, a arguments) any {
		a.none("dict." + kind)
		return &dictView{self.(*Dict), kind}
	}
}

func indexOf(st *state, self any, a arguments) any {
	items := st.collect(self)
	p := a.take("index", 1, "value", "start", "stop")
	from, n, _ := bounds(len(items), orNone(p[1]), orNone(p[2]), nil)
	for i := from; i < from+n; i++ {
		if st.equal(items[i], p[0], 0) {
			return i
		}
	}
	panic(raisef("ValueError", "%s is not in %s", reprShort(p[0]), typeName(self)))
}

func orNone(v any) any {
	if v == missing {
		return nil
	}
	return v
}

func countOf(st *state, self any, a arguments) any {
	v, n := a.one("count"), 0
	for _, x := range st.collect(self) {
		if st.equal(x, v, 0) {
			n++
		}
	}
	return n
}

// sort orders values by key, stably, as sorted does.
func (st *state) sort(items []any, key func(any) any, reverse bool) {
	st.step(16 * len(items))
	type pair struct{ key, value any }
	pairs := make([]pair, len(items))
	for i, v := range items {
		pairs[i] = pair{key(v), v}
	}
	slices.SortStableFunc(pairs, func(a, b pair) int {
		if reverse {
			a, b = b, a
		}
		c := st.order("<", a.key, b.key, 0)
		if c == 2 {
			return 0
		}
		return c
	})
	for i, p := range pairs {
		items[i] = p.value
	}
}
