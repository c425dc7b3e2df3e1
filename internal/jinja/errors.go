package jinja

import "fmt"

// Inside the package failures travel as panics with an *Error and are turned
// into returned errors at the two entry points, as encoding/json does it: an
// evaluator of nested closures would otherwise be half error plumbing.
func catch(err *error) {
	switch r := recover().(type) {
	case nil:
	case *Error:
		*err = r
	default:
		panic(r)
	}
}

// raisef makes the error that Python would raise.
func raisef(kind, format string, args ...any) *Error {
	return &Error{Class: ClassTemplate, Kind: kind, Message: fmt.Sprintf(format, args...)}
}

func typeErrorf(format string, args ...any) *Error { return raisef("TypeError", format, args...) }

func limitf(format string, args ...any) *Error {
	return &Error{Class: ClassLimit, Kind: "LimitError", Message: fmt.Sprintf(format, args...)}
}
