package app

import (
	"errors"
	"io"
	"log/slog"

	"hermes/backends"
	"hermes/configs"
	"hermes/envs"
	"hermes/rollout/tool"
)

// Host is what a command gives to the library behind it.
type Host struct {
	Env      func(name string) string // the environment, read once
	Section  func(name string) configs.Section
	In       io.Reader
	Out, Err io.Writer
	Screen   io.Writer       // the terminal behind Err, for what draws on it; nil: Err
	Width    func() int      // columns of the terminal behind Err; nil: none
	Drain    <-chan struct{} // closed by the first interrupt
	Terminal bool            // a person types into In
	// Intercept has f asked about every further interrupt; what f takes does not count.
	// nil: interrupts cannot be had.
	Intercept func(f func() bool)
	Handler   func(io.Writer) slog.Handler
	Backends  []backends.Kind
	Tools     []tool.Def
	Envs      []envs.Kind
	Version   string
	// Opened is told the run directory once the run has begun: from there on nothing is a
	// mistake of usage any more. nil: nobody asks.
	Opened func(dir string)
}

// screen is where the progress bar is drawn.
func (h Host) screen() io.Writer {
	if h.Screen != nil {
		return h.Screen
	}
	return h.Err
}

// Exit codes that a run decides on, as the commands document them.
const (
	codeOurs     = 1
	codeUsage    = 2
	codeFailures = 3
	codeStopped  = 4
)

// Error is an error with the exit code that it deserves. Err may be nil.
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

// usage marks an error that was found before anything was spent.
func usage(err error) error {
	var e *Error
	if err == nil || errors.As(err, &e) {
		return err
	}
	return &Error{Code: codeUsage, Err: err}
}
