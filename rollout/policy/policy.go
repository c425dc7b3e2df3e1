// Package policy asks models. A [Policy] is shared by all rollouts; a [Sampler] belongs
// to one rollout and keeps what makes a turn cost no more than what the turn added.
package policy

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"hermes/trajectory"
)

// Policy opens samplers. It is safe for concurrent use.
type Policy interface {
	Open(tools []trajectory.ToolSpec, o Options) (Sampler, error)
	Info() Info
}

// Info describes a policy.
type Info struct {
	Model   string
	Mode    trajectory.Mode
	Context int // tokens; 0: unknown
	Images  bool
}

// Sampler asks the model for one rollout. It caches by NodeID and cuts its cache when
// the trace was rewound. It changes no trace: the loop commits.
type Sampler interface {
	// Next returns the next turn: pending messages, then the answer. on (may be nil) sees
	// the answer while it streams. A context cancelled after the first token returns the
	// partial turn with FinishAborted and a nil error.
	Next(ctx context.Context, p trajectory.Prefix, pending []trajectory.Message, on func(Chunk)) (trajectory.Turn, error)
	Close() error
}

// Options are the sampling options of one rollout. Pointers distinguish "not sent" from zero.
type Options struct {
	MaxTokens       int // of one answer; 0: the server's default
	Temperature     *float64
	TopP            *float64
	TopK            *int
	MinP            *float64
	Stop            []string
	Seed            *uint64 // of the rollout; each turn derives its own
	ReasoningEffort string
	Extra           json.RawMessage // a JSON object merged into every request
	Key             trajectory.Key
	Group           string          // replica affinity with --affinity group
	Attempt         int             // from 1
	Tape            Tape            // stored answers to replay; nil: none
	Script          json.RawMessage // the row's turns for a scripted model, sent as hermes_script when told so
	Notes           func(string)    // moves of replica or model are told here; may be nil
}

// Tape holds stored answers of an earlier, interrupted attempt and takes new ones.
type Tape interface {
	// Lookup returns the next stored answer if its request had this digest.
	Lookup(digest [32]byte) (answer []byte, ok bool)
	// Store keeps an answer that was just bought, before it is used.
	Store(digest [32]byte, answer []byte) error
}

// Chunk is a piece of an answer as it streams.
type Chunk struct {
	Content   string
	Reasoning string
	Call      string // name of a call that begins
	Tokens    int
}

// ErrorKind says whose fault a failed request is and whether to try again.
type ErrorKind string

// The kinds of errors.
const (
	Overlong    ErrorKind = "overlong"    // the context window is full
	Limited     ErrorKind = "limited"     // 429 or overload, after retries
	Auth        ErrorKind = "auth"        // 401, 403
	NoModel     ErrorKind = "no_model"    // the server does not know the model
	Unavailable ErrorKind = "unavailable" // 5xx, resets, time-outs, after retries
	Rejected    ErrorKind = "rejected"    // 400: the request itself
	Malformed   ErrorKind = "malformed"   // an answer that is no answer
	Budget      ErrorKind = "budget"      // a budget of the run is spent
)

// Error is a failed model request.
type Error struct {
	Kind  ErrorKind
	After time.Duration // when the server says to come back
	Err   error
}

func (e *Error) Error() string { return fmt.Sprintf("model request %s: %v", e.Kind, e.Err) }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }
