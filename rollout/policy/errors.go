package policy

import (
	"fmt"
	"net/http"
)

// Malformedf is an answer that is no answer: the same may be asked again.
func Malformedf(format string, args ...any) *Error {
	return &Error{Kind: Malformed, Status: http.StatusOK, Err: fmt.Errorf(format, args...)}
}

// Inexactf is an answer that cannot be used for training: to ask the same again is no use.
func Inexactf(format string, args ...any) *Error {
	return &Error{Kind: Inexact, Err: fmt.Errorf(format, args...)}
}
