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
	"time"

	"hermes/backends"
	"hermes/datasets"
	"hermes/rollout/tool"
	"hermes/trajectory"
)

// Task is one row made ready: the messages for the model and the contents of the box.
type Task struct {
	Row       datasets.Row
	Messages  []trajectory.Message // opening messages: system, prefill, the task
	Image     string
	Dir       string
	Env       map[string]string
	Files     map[string]string // path → text, written before the loop
	Toolsets  []string          // nil: the run's
	Artifacts []string          // files and folders of the box that are kept beside what the scorer saw
	Time      time.Duration     // bounds the loop below the run's own limit; 0: nothing does
	ScoreTime time.Duration     // what the scorer needs at most, above what a run allows; 0: no more
	Hidden    any               // the environment's own: gold answer, checker …
	Verify    Verify            // where it is scored
	// Processes says that what the model left running is part of what it was asked for, a
	// server say. Else it is ended before the task is scored.
	Processes bool
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

// ErrFailed is the error of an environment that is a separate program and did not do as
// it should: it raised, hung, or broke the protocol. Wherever it comes up in a rollout,
// the environment's author is meant.
var ErrFailed = errors.New("the environment failed")

// World is what a verifier may touch. Box is nil when the rollout needed none and the
// task needs none.
type World struct {
	Box   backends.Sandbox
	Tools Caller
	Judge Judge
	// Judges are further ones by name, for panels; nil: there are none.
	Judges map[string]Judge
	Rand   *rand.Rand
	State  *State // of this rollout, the same in all of the environment's methods
	// BoxState is what Prepare found out about Box: where a task is scored in another box than
	// the model's, that was prepared too. Else it is State.
	BoxState *State
	// Saw takes what the scorer saw, for the artifacts of the sample; nil: it is not kept.
	Saw func(Exhibit)
	// Suspects takes signs of a hack; nil: they are not kept. See Suspect.
	Suspects func(Hack)
	// Control says that this is a box in which no model worked: what is asked is whether the
	// scorer comes to a judgement at all.
	Control bool
}

// Exhibit is a command of the scorer with what came out, and files that it read.
type Exhibit struct {
	Name   string // a word: checker, verifier …
	Cmd    backends.Cmd
	Result backends.Result
	Files  map[string][]byte // by name: reward files
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

// ErrJudge is the error of a judge that refused, talked, or could not be reached. A panel
// with a quorum counts it as an abstention; anywhere else it voids the sample. A budget
// that is spent is none.
var ErrJudge = errors.New("the judge failed")

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

// Responder answers the model where it makes no calls, instead of ending: a simulated
// user, a game, a teacher. It returns the next messages, which must be the user's (or the
// system's); none end the rollout with the model's answer. Turn, token and context limits
// go on counting. An error voids the rollout, as the scorer's does. ep.Stop is how the
// rollout would end; ep.Trace must not be changed. w.Box is nil while no tool has opened
// it, and w.Rand goes on from one response of a rollout to the next.
type Responder interface {
	Respond(ctx context.Context, t Task, w World, ep Episode) ([]trajectory.Message, error)
}

// Stepper looks at the box after each turn of the model whose calls have run, before the
// model is asked again: progress that [trajectory.Score].Turns pays. An error voids the
// rollout, as the scorer's does. w.Box is nil while no tool has opened it; ep.Trace must
// not be changed.
type Stepper interface {
	Step(ctx context.Context, t Task, w World, ep Episode) error
}

// NeedsBox is implemented by environments whose scorer needs the box even when no tool
// opened it.
type NeedsBox interface{ NeedsBox(t Task) bool }

// GroupScorer changes the scores of a group once all of its samples are scored: ranks,
// diversity, a judge that compares. scores[i] belongs to eps[i]; what it was before stays
// in the record of the sample. An error leaves the group without scores.
type GroupScorer interface {
	ScoreGroup(ctx context.Context, t Task, eps []Episode, scores []trajectory.Score) error
}

// Toolsetter names the toolsets of a run that asks for none. An empty list means no
// tools but the environment's own.
type Toolsetter interface{ Toolsets() []string }

// Oracle plays a task perfectly: the model's messages, one a turn, which earn the full
// reward when the loop plays them. Where an environment has it, the contract is checked
// with it, and `--model oracle` plays it.
type Oracle interface {
	Oracle(t Task) ([]trajectory.Message, error)
}

// Hider lists texts that must not be readable in the box while the model works: gold
// answers, tests, reference patches. A text of fewer than 8 characters is looked for as a
// whole line. Without it the row's own gold answers are looked for.
type Hider interface{ Hidden(t Task) []string }
