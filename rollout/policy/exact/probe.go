package exact

import (
	"context"
	"errors"

	"hermes/rollout/policy"
	"hermes/trajectory"
)

// Probe asks for one token with the run's tools, to learn before anything is spent
// whether the server returns tokens and log-probs that can be trusted. Where no tools are
// known and the template works with tools only, it is asked with a tool of ours.
func Probe(ctx context.Context, p policy.Policy, tools []trajectory.ToolSpec) error {
	err := probe(ctx, p, tools)
	if len(tools) == 0 && errors.Is(err, errTemplate) {
		return probe(ctx, p, probeTool())
	}
	return err
}

func probe(ctx context.Context, p policy.Policy, tools []trajectory.ToolSpec) error {
	s, err := p.Open(tools, policy.Options{MaxTokens: 1})
	if err != nil {
		return err
	}
	defer s.Close()
	turn, err := s.Next(ctx, trajectory.New(trajectory.ModeExact, nil).Prefix(), []trajectory.Message{trajectory.Text(trajectory.User, "Hello")}, nil)
	if err != nil {
		return err
	}
	_, err = trajectory.New(trajectory.ModeExact, nil).Commit(turn)
	return err
}
