package wire

import (
	"context"
	"errors"
	"io/fs"
	"syscall"

	"hermes/backends"
)

// Fault is an error as it travels.
type Fault struct {
	Kind  string `json:"kind"`
	Errno int    `json:"errno,omitempty"`
	Op    string `json:"op,omitempty"` // set for errors about a path
	Text  string `json:"text"`
}

// kinds are the errors that keep their identity on the way.
func kinds() map[string]error {
	return map[string]error{"closed": backends.ErrClosed, "broken": backends.ErrBroken, "too_large": backends.ErrTooLarge,
		"not_exist": fs.ErrNotExist, "exist": fs.ErrExist, "permission": fs.ErrPermission, "invalid": fs.ErrInvalid,
		"unsupported": errors.ErrUnsupported, "unavailable": backends.ErrUnavailable, "lost": backends.ErrLost, "canceled": context.Canceled, "escapes": ErrEscapes, "slow": backends.ErrSlow}
}

func ToFault(err error) Fault {
	f := Fault{Kind: "other", Text: err.Error()}
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		f.Op, f.Text = pe.Op, pe.Err.Error()
	}
	if no, ok := errors.AsType[syscall.Errno](err); ok {
		f.Errno = int(no)
	}
	for _, name := range []string{"closed", "broken", "too_large", "slow", "canceled", "escapes", "not_exist", "exist", "permission", "invalid", "unsupported", "unavailable", "lost"} {
		if errors.Is(err, kinds()[name]) {
			f.Kind = name
			break
		}
	}
	return f
}

// RemoteError is an error that happened in the box.
type RemoteError struct {
	text string
	is   []error
}

func (e *RemoteError) Error() string { return e.text }

func (e *RemoteError) Unwrap() []error { return e.is }

// Err rebuilds the error; path is the caller's own.
func (f Fault) Err(path string) error {
	e := &RemoteError{text: f.Text}
	if len(e.text) > 1000 {
		e.text = e.text[:1000]
	}
	if k, ok := kinds()[f.Kind]; ok {
		e.is = append(e.is, k)
	}
	if f.Errno > 0 && f.Errno < 4096 {
		e.is = append(e.is, syscall.Errno(f.Errno))
	}
	if f.Op == "" {
		return e
	}
	return &fs.PathError{Op: f.Op, Path: path, Err: e}
}
