package wire

import (
	"fmt"
	"time"
)

// Kind says whose fault a failed request is and whether to try again.
type Kind string

// The kinds of errors.
const (
	Overlong    Kind = "overlong"    // the context window is full
	Limited     Kind = "limited"     // 429 or overload, after retries
	Auth        Kind = "auth"        // 401, 403, no credit
	NoModel     Kind = "no_model"    // the server does not know the model
	NoTools     Kind = "no_tools"    // the model, or its server as it was started, calls no tools
	Unavailable Kind = "unavailable" // 5xx, resets, time-outs, after retries
	Rejected    Kind = "rejected"    // 400: the request itself
	Malformed   Kind = "malformed"   // an answer that is no answer
	Budget      Kind = "budget"      // a budget of the run is spent
	Offline     Kind = "offline"     // a cassette that has no such request
	Inexact     Kind = "inexact"     // an answer without trustworthy tokens and log-probs
	Stale       Kind = "stale"       // tokens of weights that are too far apart
	Leaked      Kind = "leaked"      // an answer with the key of the request in it
)

// Error is a failed model request.
type Error struct {
	Kind   Kind
	After  time.Duration // when the server says to come back
	Status int           // of the answer; 0: there was none
	Err    error

	overload bool // the server is full: send less
	refused  bool // no process listens there: another replica at once
	keyed    bool // the fault of this key: another key at once
}

func (e *Error) Error() string { return fmt.Sprintf("model request %s: %v", e.Kind, e.Err) }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Retryable reports whether the same request may succeed later.
func (e *Error) Retryable() bool {
	switch e.Kind {
	case Limited, Unavailable, Malformed:
		return true
	}
	return false
}

// Tape holds stored answers of an earlier, interrupted attempt and takes new ones.
type Tape interface {
	// Lookup returns the next stored answer if its request had this digest.
	Lookup(digest [32]byte) (answer []byte, ok bool)
	// Store keeps an answer that was just bought, before it is used.
	Store(digest [32]byte, answer []byte) error
}

// Peeker is a [Tape] that can be asked without consequence: a look-up with another digest
// may end the replay, so that a chain of models asks first whose answer comes next.
type Peeker interface {
	// Peek reports whether the next stored answer's request had this digest.
	Peek(digest [32]byte) bool
}
