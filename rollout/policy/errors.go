package policy

import (
	"fmt"
	"net/http"
)

func malformed(format string, args ...any) *Error {
	return &Error{Kind: Malformed, Status: http.StatusOK, Err: fmt.Errorf(format, args...)}
}

// inexact is an answer that cannot be used for training: to ask the same again is no use.
func inexact(format string, args ...any) *Error {
	return &Error{Kind: Inexact, Err: fmt.Errorf(format, args...)}
}
