// Package policy asks models. A [Policy] is shared by all rollouts; a [Sampler] belongs
// to one rollout and keeps what makes a turn cost no more than what the turn added.
package policy

import (
	"context"
	"encoding/json"

	"hermes/rollout/policy/wire"
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
	Group           string       // replica affinity with --affinity group
	Attempt         int          // from 1
	Tape            Tape         // stored answers to replay; nil: none
	Notes           func(string) // called with remarks, as at a change of replica or model; may be nil

	// Put stores a captured tensor and returns its SHA-256; nil: it is hashed only.
	Put func([]byte) (string, error)
}

// Tape holds stored answers of an earlier, interrupted attempt and takes new ones.
type Tape = wire.Tape

// Chunk is a piece of an answer as it streams.
type Chunk struct {
	Content   string
	Reasoning string
	Restart   bool // the answer starts again: forget what was shown of it
}

// ErrorKind says whose fault a failed request is and whether to try again.
type ErrorKind = wire.Kind

// The kinds of errors.
const (
	Overlong    = wire.Overlong    // the context window is full
	Limited     = wire.Limited     // 429 or overload, after retries
	Auth        = wire.Auth        // 401, 403, no credit
	NoModel     = wire.NoModel     // the server does not know the model
	NoTools     = wire.NoTools     // the model, or its server as it was started, calls no tools
	Unavailable = wire.Unavailable // 5xx, resets, time-outs, after retries
	Rejected    = wire.Rejected    // 400: the request itself
	Malformed   = wire.Malformed   // an answer that is no answer
	Budget      = wire.Budget      // a budget of the run is spent
	Offline     = wire.Offline     // a cassette that has no such request
	Inexact     = wire.Inexact     // an answer without trustworthy tokens and log-probs
	Stale       = wire.Stale       // tokens of weights that are too far apart
	Leaked      = wire.Leaked      // an answer with the key of the request in it
)

// Error is a failed model request.
type Error = wire.Error
