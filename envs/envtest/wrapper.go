package envtest

import (
	"context"

	"hermes/envs"
	"hermes/rollout/tool"
	"hermes/trajectory"
)

// wrapper has every ability of an environment: what the inner one lacks does what the
// loop would do without it.
type wrapper struct{ envs.Env }

func (e wrapper) Prepare(ctx context.Context, t envs.Task, w envs.World) error {
	if p, ok := e.Env.(envs.Preparer); ok {
		return p.Prepare(ctx, t, w)
	}
	return nil
}

func (e wrapper) Tools(ctx context.Context, t envs.Task, w envs.World) ([]tool.Def, error) {
	if x, ok := e.Env.(envs.Tooler); ok {
		return x.Tools(ctx, t, w)
	}
	return nil, nil
}

func (e wrapper) Respond(ctx context.Context, t envs.Task, w envs.World, ep envs.Episode) ([]trajectory.Message, error) {
	if r, ok := e.Env.(envs.Responder); ok {
		return r.Respond(ctx, t, w, ep)
	}
	return nil, nil
}

func (e wrapper) Step(ctx context.Context, t envs.Task, w envs.World, ep envs.Episode) error {
	if s, ok := e.Env.(envs.Stepper); ok {
		return s.Step(ctx, t, w, ep)
	}
	return nil
}

// NeedsBox decides for the wrapper as the loop decides for the inner one, to which a
// Preparer alone gives a box.
func (e wrapper) NeedsBox(t envs.Task) bool {
	if n, ok := e.Env.(envs.NeedsBox); ok {
		return n.NeedsBox(t)
	}
	_, prepares := e.Env.(envs.Preparer)
	return prepares
}
