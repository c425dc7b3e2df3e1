package configs

import (
	"errors"
	"fmt"
)

// Error is a mistake in the configuration, which the user must correct. It is reported before
// anything has started, in one line that begins with the place.
type Error struct {
	File string // file or variable name
	Line int    // from 1; 0: the file has no lines, or the whole file is meant
	Msg  string // names the key and what is wrong; never the value of a secret
}

func (e *Error) Error() string {
	if e.Line > 0 {
		return fmt.Sprintf("%s:%d: %s", e.File, e.Line, e.Msg)
	}
	return e.File + ": " + e.Msg
}

// IsError reports whether err is, or wraps, a mistake in the configuration.
func IsError(err error) bool {
	var e *Error
	return errors.As(err, &e)
}
