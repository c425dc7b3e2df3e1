package eval

import (
	"context"
	"fmt"
	"strings"

	"hermes/datasets"
	"hermes/envs"
	"hermes/internal/build"
	"hermes/internal/settings"
	"hermes/rollout/play"
	"hermes/trajectory"
)

// again plays a sample in a fresh box, the model's answers from the log, and scores it
// there.
func (s *rescoring) again(ctx context.Context, row datasets.Row, rec *trajectory.Record) (trajectory.Score, error) {
	p, err := s.boxes(ctx, rec)
	if err != nil {
		return trajectory.Score{}, fmt.Errorf("it is judged in a box, and none can be restored: %w", err)
	}
	said := build.Answers(rec.Trace)
	p.Turns = len(said)
	now, err := p.Play(ctx, s.env, row, rec.Sample, said)
	if now != nil {
		s.judges.count(now.Judge)
	}
	switch {
	case err != nil:
		return trajectory.Score{}, err
	case now.Outcome.Failure():
		return trajectory.Score{}, fmt.Errorf("played again, it failed (%s): %s", now.Outcome, now.Reason)
	case now.Score == nil:
		return trajectory.Score{}, envs.ErrUnscored
	}
	s.replayed.Add(1)
	return *now.Score, nil
}

// keepsState reports whether what the scorer looks at was made by the environment's own
// tools, so that a sample must be played again.
func (s *rescoring) keepsState() bool {
	_, tools := s.env.(envs.Tooler)
	return tools
}

// boxes opens the player at the first need. It has all the tools that the run had; a
// rollout gets those of its record.
func (s *rescoring) boxes(ctx context.Context, rec *trajectory.Record) (play.Player, error) {
	s.once.Do(func() {
		tools := s.Tools()
		sets, _ := s.run.Manifest.Identity.Get("toolsets")
		if name, drawn := strings.CutPrefix(sets, "distribution "); drawn {
			tools.Distribution = name
		} else {
			tools.Toolsets = settings.List(sets)
			if len(tools.Toolsets) == 0 {
				tools.Toolsets = []string{settings.NoTools}
			}
		}
		tools = tools.Of(s.run.Manifest)
		tools.MissingTools = "drop"
		s.player, s.noBox = build.NewPlayer(context.WithoutCancel(ctx), s.host, s.chosen, tools, s.seed)
	})
	if s.noBox != nil {
		return play.Player{}, s.noBox
	}
	p := s.player.Player
	p.Toolsets = rec.Toolsets
	p.Judge, p.Judges = s.judges.all[""], s.judges.all
	return p, nil
}
