// Package tool is the contract of a tool: what a model is shown of it ([Def.Spec]), what it
// needs ([Scope]) and how a call is answered ([Handler], [Result]).
//
// A tool's state lives in the closure that Open returns, once per rollout; nothing is
// shared between rollouts. A [Set] is the tools of one rollout.
package tool

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"hermes/backends"
	"hermes/trajectory"
)

// Def is one tool.
type Def struct {
	Spec    trajectory.ToolSpec // the description is embedded from the .md beside the tool
	Aliases []string            // other names that a call may use; not shown to models
	Toolset string              // its home toolset, which exists because tools name it
	About   string              // what the toolset is for, in lists; one of its tools says it
	Traits  Traits
	Ready   func(ctx context.Context) error // asked once before the run's identity is fixed; nil: always
	Open    func(s *Scope) (Handler, error) // once per rollout
	// Fits narrows the tool to what the box and the other tools offer (no python3: no
	// execute_code). It may rewrite the spec. nil: always fits. Asked once per run for the
	// run-wide image and again per row with its own image.
	Fits func(ctx context.Context, box backends.Sandbox) error
	// Respec rewrites the spec when the names of the rollout's other tools are known.
	Respec func(spec trajectory.ToolSpec, names []string) trajectory.ToolSpec
}

// Traits tell how a tool may be used.
type Traits struct {
	ReadOnly    bool
	Parallel    bool                                // may run beside other parallel calls of the same turn
	Paths       func(args json.RawMessage) []string // with Parallel: calls with overlapping paths wait for each other
	Interactive bool                                // needs a person
	FromCode    bool                                // callable from execute_code
	NeedsBox    bool
	ResultLimit int // characters; 0: the set's default; negative: unlimited
}

// Handler answers one call. An error is infrastructure (the box is lost) and voids the
// rollout; what the model did wrong is a [Result] with Failed set.
type Handler func(ctx context.Context, args json.RawMessage) (Result, error)

// Result is the answer to one call.
type Result struct {
	Text   string            // what the model reads, usually a JSON object
	Parts  []trajectory.Part // further parts (images)
	Failed bool              // counted as a failure of the call
	Fault  Fault             // set when the call never reached its handler, or the handler panicked
}

// Fault says why a call was not answered by its tool.
type Fault string

// The faults of a call. All but FaultPanic are the model's.
const (
	FaultUnknown   Fault = "unknown_tool"
	FaultJSON      Fault = "invalid_json"
	FaultArguments Fault = "invalid_arguments"
	FaultPanic     Fault = "panic"
)

// Errorf is the result {"error": "…"} of a failed call.
func Errorf(format string, args ...any) Result {
	return Result{Text: JSON(map[string]string{"error": fmt.Sprintf(format, args...)}), Failed: true}
}

// JSON encodes v without escaping HTML. It panics on values that cannot be encoded.
func JSON(v any) string {
	b, err := trajectory.AppendJSON(nil, v)
	if err != nil {
		panic(fmt.Sprintf("tool.JSON: %v", err))
	}
	return string(b)
}

// Typed decodes the arguments into A strictly: unknown keys and wrong types are answered
// to the model. Coercion by the schema has happened before (Set.Call).
func Typed[A any](f func(context.Context, A) (Result, error)) Handler {
	return func(ctx context.Context, raw json.RawMessage) (Result, error) {
		var a A
		d := json.NewDecoder(bytes.NewReader(raw))
		d.DisallowUnknownFields()
		if err := d.Decode(&a); err != nil {
			return Errorf("invalid arguments: %v", err), nil
		}
		if _, err := d.Token(); !errors.Is(err, io.EOF) {
			return Errorf("invalid arguments: more than one JSON value"), nil
		}
		return f(ctx, a)
	}
}

// Ask is what a tool is about to do on the host, for a person who decides.
type Ask struct {
	Kind string // what is alike, in the plural: "commands", "changes of files"; a person may allow all of it
	What string // all of it, of one or more lines: the tool, the whole command or text, the folder
}

// Scope is what the tools of one rollout may use.
type Scope struct {
	Key  trajectory.Key
	Box  func(ctx context.Context) (backends.Sandbox, error) // opens the box at the first need
	Log  *slog.Logger
	Rand *rand.Rand
	Now  func() time.Time
	// Dispatch calls another tool of the same rollout, as execute_code does.
	Dispatch func(ctx context.Context, name string, args json.RawMessage) (Result, error)
	// Isolated says that commands of the box cannot harm the host.
	Isolated bool
	// Approve asks before something is done on the host; nil allows everything (batch runs in boxes).
	Approve func(ctx context.Context, a Ask) (bool, error)
	// Specs lists what code may call through Dispatch, sorted by name. NewSet sets it.
	Specs func() []trajectory.ToolSpec
	// Notify sends a text to the conversation later, when a background process ends. With nil no
	// one listens, and tools must say so instead of promising it.
	Notify func(text string)

	cleanup []func(context.Context) error
	mu      sync.Mutex
	making  sync.Mutex // guards shared; make may register clean-ups
	shared  map[any]any
}

// Shared returns the state that several tools of one rollout share under key; the first
// caller makes it. Keys are values of unexported types, as with context.WithValue.
func (s *Scope) Shared(key any, make func() any) any {
	s.making.Lock()
	defer s.making.Unlock()
	if v, ok := s.shared[key]; ok {
		return v
	}
	if s.shared == nil {
		s.shared = map[any]any{}
	}
	v := make()
	s.shared[key] = v
	return v
}

// Cleanup registers what undoes the tool; the last registered runs first.
// It may be called while calls run.
func (s *Scope) Cleanup(f func(context.Context) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cleanup = append(s.cleanup, f)
}

// Close runs the clean-ups and joins their errors.
func (s *Scope) Close(ctx context.Context) error {
	s.mu.Lock()
	list := s.cleanup
	s.cleanup = nil
	s.mu.Unlock()
	var errs []error
	for i := len(list) - 1; i >= 0; i-- {
		errs = append(errs, list[i](ctx))
	}
	return errors.Join(errs...)
}
