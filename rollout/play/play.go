// Package play puts words into a model's mouth: it takes a row through the one loop of
// package rollout with a model that says what is written down. Oracles, checks of
// environments and looks at finished samples are played this way; nothing is asked over
// a network and nothing is kept.
package play

import (
	"context"
	"fmt"
	"time"

	"hermes/backends"
	"hermes/datasets"
	"hermes/envs"
	"hermes/rollout"
	"hermes/rollout/artifact"
	"hermes/rollout/policy"
	"hermes/trajectory"
)

// Idle is what a model says that does nothing.
const Idle = "I have nothing to say."

// Player plays rows. It is safe for concurrent use.
type Player struct {
	Backend  backends.Backend
	Plan     rollout.Plan
	Toolsets []string // of rows whose task names none
	Seed     int64
	Turns    int    // model answers at most; 0: as many as are written down, and 20 more
	Image    string // of tasks that name none
	Verify   string // see [rollout.Options]
	// VerifyImage is that of verify separate, for tasks that name none.
	VerifyImage string
	Judge       policy.Policy
	Judges      map[string]policy.Policy // further ones by name
	// Keep gets what the scorer saw while the box is still there; may be nil.
	Keep     func(ctx context.Context, s artifact.Scene) error
	KeepTime time.Duration // for Keep; 0: 2 minutes
	// Images spares the players of many rows to look at the programs of every box; may be nil.
	Images *rollout.Images
}

// Play takes sample number sample of a row through the loop; turns are what the model
// says, one a turn. When they are used up it says [Idle]. The record always has an
// outcome; the error is ctx's alone.
func (p Player) Play(ctx context.Context, env envs.Env, row datasets.Row, sample int, turns []trajectory.Message) (*trajectory.Record, error) {
	limit := p.Turns
	if limit == 0 {
		limit = len(turns) + 20
	}
	r, err := rollout.NewRunner(rollout.Options{Env: env, Policy: script(turns), Backend: p.Backend, Plan: p.Plan, Judge: p.Judge, Judges: p.Judges, Keep: p.Keep,
		Image: p.Image, Verify: p.Verify, VerifyImage: p.VerifyImage, Limits: rollout.Limits{Turns: limit}, Faults: rollout.Show, Deadlines: rollout.Deadlines{Keep: p.KeepTime},
		Images: p.Images})
	if err != nil {
		return nil, err
	}
	key := trajectory.NewKey(row.ID, 0, 0, sample)
	return r.Run(ctx, rollout.Job{Row: row, Key: key, Group: row.ID, Sample: sample, Attempt: 1, Toolsets: p.Toolsets, Seed: key.Seed(p.Seed)})
}

// script is a policy that says these messages.
type script []trajectory.Message

func (s script) Info() policy.Info { return policy.Info{Model: "script", Mode: trajectory.ModeText} }

func (s script) Open([]trajectory.ToolSpec, policy.Options) (policy.Sampler, error) {
	return &reader{left: s}, nil
}

type reader struct {
	left []trajectory.Message
	n    int
}

// Next says the next message.
func (r *reader) Next(_ context.Context, _ trajectory.Prefix, pending []trajectory.Message, _ func(policy.Chunk)) (trajectory.Turn, error) {
	m := trajectory.Text(trajectory.Assistant, Idle)
	if len(r.left) > 0 {
		m, r.left = r.left[0], r.left[1:]
	}
	m.Role = trajectory.Assistant
	m.Calls = append([]trajectory.Call(nil), m.Calls...)
	for i := range m.Calls {
		r.n++
		m.Calls[i].ID = fmt.Sprintf("call_%d", r.n)
	}
	t := trajectory.Turn{Sampled: trajectory.Delta{Message: m}, Finish: trajectory.FinishStop, Model: "script"}
	if len(m.Calls) > 0 {
		t.Finish = trajectory.FinishCalls
	}
	for _, g := range pending {
		t.Given = append(t.Given, trajectory.Delta{Message: g})
	}
	return t, nil
}

// Close does nothing.
func (r *reader) Close() error { return nil }
