package jinja

import "sync"

// library is the set of names that every template knows. Its functions reach it
// through the rendering, not through a package variable: filters call tests,
// tests call methods, and methods call each other.
type library struct {
	filters map[string]filterFn
	tests   map[string]testerFn
	str     map[string]stringMethod
}

var shared = sync.OnceValue(func() *library {
	l := &library{builtinFilters(), builtinTests(), builtinStringMethods()}
	for name, fn := range l.filters {
		weight := weigh(name)
		l.filters[name] = func(st *state, v any, a arguments) any {
			if s, ok := str(v); ok {
				st.step(weight * len(s))
			}
			return fn(st, v, a)
		}
	}
	for name, fn := range l.str {
		weight := weigh(name)
		l.str[name] = func(st *state, s string, a arguments) any {
			st.step(weight * len(s))
			return fn(st, s, a)
		}
	}
	for name, fn := range l.tests {
		l.tests[name] = func(st *state, v any, a arguments) bool {
			if s, ok := str(v); ok {
				st.step(len(s))
			}
			return fn(st, v, a)
		}
	}
	return l
})

// weigh says what a filter or method costs for each byte of the text that it is called on: about
// how many nanoseconds. TestWorkIsWeighed holds it against the clock.
func weigh(name string) int {
	switch name {
	case "default", "d", "safe", "string", "first", "attr":
		return 0
	case "title", "swapcase", "urlencode", "strip", "lstrip", "rstrip", "trim", "expandtabs", "replace",
		"find", "rfind", "index", "rindex", "count":
		return 4
	case "split", "rsplit", "splitlines", "indent", "wordwrap", "wordcount", "striptags":
		return 16 // a value or more for each word
	}
	return 1
}
