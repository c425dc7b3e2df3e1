// Package build makes the parts of a run out of settings: model, boxes, tools, environment,
// rows, grader, judges, figures for W&B. It is the only room that knows every other one.
//
// A constructor returns its part, which is closed by whoever asked for it, or an error and
// nothing to close. Parts are safe for concurrent use once they are made.
package build

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
	// nil: there are no interrupts.
	Intercept func(f func() bool)
	Log       *slog.Logger // to Err; nil: one is made with Handler
	Handler   func(io.Writer) slog.Handler
	Backends  []backends.Kind
	Tools     []tool.Def
	Envs      []envs.Kind
	Version   string
	// Opened is called with the run directory once the run has begun: from there on nothing is a
	// mistake of usage any more. May be nil.
	Opened func(dir string)
}

// Bar is where the progress bar is drawn.
func (h Host) Bar() io.Writer {
	if h.Screen != nil {
		return h.Screen
	}
	return h.Err
}

// Logger logs to Err.
func (h Host) Logger() *slog.Logger {
	if h.Log != nil {
		return h.Log
	}
	return slog.New(h.Handler(h.Err))
}

// Closers are what is to be closed, the last first. The zero value is empty.
type Closers []func() error

// Add has f called by Close.
func (c *Closers) Add(f func() error) { *c = append(*c, f) }

// Log calls Close and logs what fails: the results are written.
func (c *Closers) Log(log *slog.Logger) {
	if err := c.Close(); err != nil {
		log.Warn("clean-up", "err", err)
	}
}

// Close calls all and joins their errors. It does nothing the second time.
func (c *Closers) Close() error {
	var errs []error
	for i := len(*c) - 1; i >= 0; i-- {
		errs = append(errs, (*c)[i]())
	}
	*c = nil
	return errors.Join(errs...)
}
