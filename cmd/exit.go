package cmd

import (
	"errors"
	"fmt"
)

// The exit codes of all commands.
const (
	ExitDone        = 0   // finished, the books balance
	ExitOurs        = 1   // something of ours failed for the whole run
	ExitUsage       = 2   // usage, configuration or input; nothing was started
	ExitFailures    = 3   // finished, with more infrastructure failures than allowed
	ExitStopped     = 4   // stopped early, resumable: a budget, or failures in a row
	ExitInterrupted = 130 // SIGINT, resumable
	ExitTerminated  = 143 // SIGTERM, resumable
)

// Exit is an error that decides the exit code. A nil Err ends the program silently: the
// command has said already what there was to say.
type Exit struct {
	Code int
	Err  error
}

func (e *Exit) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("exit code %d", e.Code)
	}
	return e.Err.Error()
}

// Unwrap returns the cause.
func (e *Exit) Unwrap() error { return e.Err }

// Usage is a mistake of the user, found before anything was started.
func Usage(format string, args ...any) error {
	return &Exit{Code: ExitUsage, Err: fmt.Errorf(format, args...)}
}

// Worse returns the exit code that wins when several fit: 1, 130 or 143, 4, 3, 0; a
// usage error beats all, since nothing was started.
func Worse(a, b int) int {
	rank := func(code int) int {
		switch code {
		case ExitDone:
			return 0
		case ExitFailures:
			return 1
		case ExitStopped:
			return 2
		case ExitInterrupted, ExitTerminated:
			return 3
		case ExitUsage:
			return 5
		}
		return 4
	}
	if rank(b) > rank(a) {
		return b
	}
	return a
}

// asExit finds the code that an error asks for.
func asExit(err error) (*Exit, bool) {
	var e *Exit
	ok := errors.As(err, &e)
	return e, ok
}
