package jinja

import "math/big"

type testerFn = func(st *state, v any, a arguments) bool

func builtinTests() map[string]testerFn {
	t := map[string]testerFn{
		"defined":   func(_ *state, v any, _ arguments) bool { _, is := v.(*Undefined); return !is },
		"undefined": func(_ *state, v any, _ arguments) bool { _, is := v.(*Undefined); return is },
		"none":      func(_ *state, v any, _ arguments) bool { return v == nil },
		"true":      func(_ *state, v any, _ arguments) bool { return v == true },
		"false":     func(_ *state, v any, _ arguments) bool { return v == false },
		"boolean":   func(_ *state, v any, _ arguments) bool { _, is := v.(bool); return is },
		"string":    func(_ *state, v any, _ arguments) bool { _, is := str(v); return is },
		"mapping":   func(_ *state, v any, _ arguments) bool { _, is := v.(*Dict); return is },
		"escaped":   func(_ *state, v any, _ arguments) bool { _, is := v.(Markup); return is },
		"callable": func(_ *state, v any, _ arguments) bool {
			_, is := v.(caller)
			_, undefined := v.(*Undefined)
			return is || undefined
		},
		"float":    func(_ *state, v any, _ arguments) bool { _, is := v.(float64); return is },
		"number":   func(_ *state, v any, _ arguments) bool { _, _, _, k := number(v); return k != 0 },
		"integer":  isInteger,
		"iterable": isIterable,
		"sequence": isSequence,
		"odd":      func(st *state, v any, _ arguments) bool { return st.equal(st.arith("%", v, 2), 1, 0) },
		"even":     func(st *state, v any, _ arguments) bool { return st.equal(st.arith("%", v, 2), 0, 0) },
		"divisibleby": func(st *state, v any, a arguments) bool {
			return st.equal(st.arith("%", v, a.one("divisibleby")), 0, 0)
		},
		"lower": func(st *state, v any, _ arguments) bool {
			return st.lib.str["islower"](st, st.text(v), arguments{}).(bool)
		},
		"upper": func(st *state, v any, _ arguments) bool {
			return st.lib.str["isupper"](st, st.text(v), arguments{}).(bool)
		},
		"sameas": sameAs,
		"filter": func(st *state, v any, _ arguments) bool { s, _ := str(v); return st.lib.filters[s] != nil },
		"test":   func(st *state, v any, _ arguments) bool { s, _ := str(v); return st.lib.tests[s] != nil },
	}
	for op, names := range map[string][]string{
		"==": {"eq", "equalto", "=="}, "!=": {"ne", "!="}, "<": {"lt", "lessthan", "<"}, "<=": {"le", "<="},
		">": {"gt", "greaterthan", ">"}, ">=": {"ge", ">="}, "in": {"in"},
	} {
		for _, name := range names {
			t[name] = func(st *state, v any, a arguments) bool { return st.compare(op, v, a.one(name)) }
		}
	}
	return t
}

func isInteger(_ *state, v any, _ arguments) bool {
	switch v.(type) {
	case int, *big.Int:
		return true
	}
	return false
}

func isIterable(_ *state, v any, _ arguments) bool {
	switch v.(type) {
	case string, Markup, *List, *Tuple, *Dict, *dictView, *generator, *Undefined, rangeValue, *loopContext:
		return true
	}
	return false
}

// isSequence asks for a length and items by key, which a dict has too.
func isSequence(_ *state, v any, _ arguments) bool {
	switch v.(type) {
	case string, Markup, *List, *Tuple, *Dict, rangeValue, *Undefined:
		return true
	}
	return false
}

func sameAs(_ *state, v any, a arguments) bool {
	w := a.one("sameas")
	switch v.(type) {
	case nil, bool, int, *List, *Tuple, *Dict, *Namespace, *Macro, *generator:
		return v == w
	}
	return false
}
