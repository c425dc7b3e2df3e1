package pipes

import (
	"time"

	"golang.org/x/sys/unix"

	"hermes/backends"
)

// Ended is the result of a command by its end alone.
func Ended(status unix.WaitStatus, used unix.Rusage) backends.Result {
	r := backends.Result{Code: status.ExitStatus(), CPU: time.Duration(used.Utime.Nano() + used.Stime.Nano())}
	if status.Signaled() {
		r.Signal = int(status.Signal())
		r.Code = 128 + r.Signal
	}
	return r
}

// Refused is the result of a command that could not be started.
func Refused(c backends.Cmd, r Refusal, began time.Time) backends.Result {
	text := []byte(r.text + "\n")
	res := backends.Result{Code: r.code, Took: time.Since(began)}
	if c.Merge {
		res.Stdout, res.OutBytes = text, int64(len(text))
	} else {
		res.Stderr, res.ErrBytes = text, int64(len(text))
	}
	return res
}

// Refusal is a command that could not be started through its own fault.
type Refusal struct {
	code int
	text string
}

func (r Refusal) Error() string { return r.text }

// ExitCode is that of a shell that could not start the command.
func (r Refusal) ExitCode() int { return r.code }

// Refuse is a refusal with its exit code.
func Refuse(code int, text string) error { return Refusal{code, text} }
