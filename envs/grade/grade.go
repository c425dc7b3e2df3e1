// Package grade judges answers: exact text, numbers, choices, mathematics, JSON, commands
// and tests run in the box, tool calls, the state that is left, models with a rubric.
//
// A [Spec] is what a user asked for: a name, one grader with options, or a list with
// weights and gates. [Spec.Bind] gives it the gold answer of a row and returns the
// [Grader], a value without state that is safe for concurrent use. A row without the field
// that a grader needs is refused there, before any model is asked.
package grade

import (
	"context"
	"strings"

	"hermes/envs"
	"hermes/trajectory"
)

// Grader judges an episode. An error means that the grader failed, never that the
// answer is wrong.
type Grader interface {
	Grade(ctx context.Context, w envs.World, ep envs.Episode) (trajectory.Score, error)
}

// Func is a Grader.
type Func func(ctx context.Context, w envs.World, ep envs.Episode) (trajectory.Score, error)

// Grade calls f.
func (f Func) Grade(ctx context.Context, w envs.World, ep envs.Episode) (trajectory.Score, error) {
	return f(ctx, w, ep)
}

// Answer is the text of the last assistant message.
func Answer(ep envs.Episode) string {
	last := ""
	for m := range ep.Trace.Prefix().Messages() {
		if m.Role == trajectory.Assistant {
			last = m.Content()
		}
	}
	return strings.TrimSpace(last)
}

func verdict(ok bool, detail string) trajectory.Score {
	s := trajectory.Score{Detail: detail}
	if ok {
		s.Reward = 1
	}
	return s
}

func short(s string) string {
	s = strings.TrimSpace(s)
	if r := []rune(s); len(r) > 300 {
		return string(r[:150]) + " … " + string(r[len(r)-150:])
	}
	return s
}
