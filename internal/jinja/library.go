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
	return &library{builtinFilters(), builtinTests(), builtinStringMethods()}
})
