package build

import (
	"context"
	"errors"

	"hermes/internal/exit"
	"hermes/internal/settings"
	"hermes/rollout"
	"hermes/rollout/play"
	"hermes/trajectory"
)

// ErrOtherEnv says that a run cannot be played again with these settings.
var ErrOtherEnv = errors.New("the run was made with another environment or other settings")

// Player plays answers that are given, in boxes and with tools, without a model.
type Player struct {
	play.Player
	Isolated bool // commands do not reach this machine
	boxes    *Boxes
}

// NewPlayer opens boxes and tools for answers that are given; what is wrong is a usage
// error. Close it. env may be nil.
func NewPlayer(ctx context.Context, h Host, env *Env, f settings.ToolFlags, seed int64) (*Player, error) {
	s := settings.Parts{PartsFlags: settings.PartsFlags{ToolFlags: f}, Seed: seed, Usual: env.Toolsets()}
	boxes, err := OpenBoxes(ctx, h, s)
	if err != nil {
		return nil, exit.Usage(err)
	}
	tools, err := ChooseTools(h, s)
	if err == nil {
		err = tools.Fit(ctx, boxes.Backend, f.Image)
	}
	if err != nil {
		return nil, exit.Usage(errors.Join(err, boxes.Close()))
	}
	return &Player{boxes: boxes, Isolated: boxes.Backend.Traits().Isolated, Player: play.Player{Backend: boxes.Backend, Plan: tools.Plan, Toolsets: tools.Sets, Seed: seed,
		Image: f.Image, Verify: f.Verify, VerifyImage: f.VerifyImage, Images: &rollout.Images{}}}, nil
}

// Close gives the boxes back.
func (p *Player) Close() error { return p.boxes.Close() }

// Answers are what the model said on the path that was scored.
func Answers(t *trajectory.Trace) (out []trajectory.Message) {
	p := t.Prefix()
	for i := range p.Len() {
		if _, n := p.Node(i); n.Sampled() {
			out = append(out, n.Delta.Message)
		}
	}
	return out
}
