// Package exit gives errors the exit codes that the commands document.
package exit

import (
	"errors"
	"fmt"
	"syscall"
)

// Exit codes that a run decides on.
const (
	codeOurs     = 1
	codeUsage    = 2
	codeFailures = 3
	codeStopped  = 4
)

// Error is an error with its exit code. Err may be nil.
type Error struct {
	Code int
	Err  error
}

func (e *Error) Error() string {
	if e.Err == nil {
		return "stopped"
	}
	return e.Err.Error()
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Usage marks an error that was found before anything was spent. One that has a code
// keeps it; nil stays nil.
func Usage(err error) error {
	var e *Error
	if err == nil || errors.As(err, &e) {
		return err
	}
	return &Error{Code: codeUsage, Err: err}
}

// Ours marks a failure of hermes or its machine. Where the disk is full it says what to do.
func Ours(err error) error {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		err = fmt.Errorf("%w: make room, and the same command resumes", err)
	}
	return &Error{Code: codeOurs, Err: err}
}

// Failures marks a result that failed more than is accepted.
func Failures(err error) error { return &Error{Code: codeFailures, Err: err} }

// Stopped marks a run that ended early and can be resumed.
func Stopped(err error) error { return &Error{Code: codeStopped, Err: err} }

// Code is the exit code of an error: 0 for nil, that of hermes' own failures where it has none.
func Code(err error) int {
	var e *Error
	switch {
	case err == nil:
		return 0
	case errors.As(err, &e):
		return e.Code
	}
	return codeOurs
}

// IsUsage reports whether err is marked by [Usage].
func IsUsage(err error) bool { return Code(err) == codeUsage }

// IsFailures reports whether err is marked by [Failures].
func IsFailures(err error) bool { return Code(err) == codeFailures }
