// Package envs is the contract of an environment: where tasks come from, what a task
// needs, and how an episode is scored in the very box that the agent used.
//
// An environment neither asks models nor knows the loop; what it needs of them are the
// two small interfaces [Caller] and [Judge]. An error of Score voids the rollout and is
// never a zero.
package envs

import (
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"

	"hermes/backends"
	"hermes/datasets"
	"hermes/rollout/tool"
	"hermes/trajectory"
)

// Task is one row made ready: what the model is told and what the box holds.
type Task struct {
	Row      datasets.Row
	Messages []trajectory.Message // opening messages: system, prefill, the task
	Image    string
	Dir      string
	Env      map[string]string
	Files    map[string]string // path → text, written before the loop
	Toolsets []string          // nil: the run's
	Hidden   any               // the environment's own: gold answer, checker …
}

// Env is one environment. It is safe for concurrent use.
type Env interface {
	// Task is pure: the same row gives the same task.
	Task(row datasets.Row) (Task, error)
	Score(ctx context.Context, t Task, w World, ep Episode) (trajectory.Score, error)
}

// ErrUnscored says that a task has nothing to be judged by. It is no failure: the sample
// is kept without a score.
var ErrUnscored = errors.New("the task has no grader")

// World is what a verifier may touch. Box is nil when the rollout needed none and the
// task needs none.
type World struct {
	Box   backends.Sandbox
	Tools Caller
	Judge Judge
	Rand  *rand.Rand
}

// Episode is what happened, for the scorer.
type Episode struct {
	Trace  *trajectory.Trace
	Stop   trajectory.Stop
	Errors []ToolError
}

// ToolError is one failed call.
type ToolError struct {
	Turn int
	Name string
	Text string
}

// Caller calls the rollout's tools.
type Caller interface {
	Call(ctx context.Context, name string, args json.RawMessage) (string, error)
}

// Judge asks a model for an answer that fits a JSON schema.
type Judge interface {
	Ask(ctx context.Context, prompt string, schema json.RawMessage) (json.RawMessage, error)
}

// Preparer puts files into the box before the loop.
type Preparer interface {
	Prepare(ctx context.Context, t Task, w World) error
}

// Tooler brings tools of the environment's own.
type Tooler interface {
	Tools(ctx context.Context, t Task, w World) ([]tool.Def, error)
}

// NeedsBox is implemented by environments whose scorer needs the box even when no tool
// opened it.
type NeedsBox interface{ NeedsBox(t Task) bool }
