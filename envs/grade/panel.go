package grade

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"hermes/datasets"
	"hermes/envs"
	"hermes/trajectory"
)

// panel lets several judges, or one several times, vote. The rule mean takes their mean,
// majority what more than half of them say: a vote of ½ or more is a yes, an even split ½.
// The metrics tell how far it hangs on one vote: spread between the highest and the lowest,
// drop_one how far the result moves where one is left out. One that fails voids all.
type panel struct {
	Of    []Spec `yaml:"of"`
	Votes int    `yaml:"votes"` // of each
	Rule  string `yaml:"rule"`
}

const maxVotes = 25

func (o *panel) check() error {
	if o.Rule != "mean" && o.Rule != "majority" {
		return fmt.Errorf("rule %q: have mean, majority", o.Rule)
	}
	if o.Votes < 1 || o.Votes*max(len(o.Of), 1) > maxVotes {
		return fmt.Errorf("votes %d of each: want 1 or more, at most %d together", o.Votes, maxVotes)
	}
	if o.Votes*max(len(o.Of), 1) < 2 {
		return errors.New("one vote is no panel; give votes or several graders in of")
	}
	if slices.ContainsFunc(o.Of, func(s Spec) bool { return s.Gate }) {
		return errors.New("a panel has no gates")
	}
	return nil
}

func (o *panel) bind(row datasets.Row) (Grader, error) {
	var gs []Grader
	members := o.Of
	if len(members) == 0 {
		members = []Spec{{Kind: "rubric", o: &rubric{}}}
	}
	for _, s := range members {
		g, err := s.Bind(row)
		if err != nil {
			return nil, err
		}
		for range o.Votes {
			gs = append(gs, g)
		}
	}
	return Func(func(ctx context.Context, w envs.World, ep envs.Episode) (trajectory.Score, error) {
		out := trajectory.Score{Parts: map[string]float64{}}
		votes := make([]float64, len(gs))
		for i, g := range gs { // in turn: each draws its own mark
			s, err := g.Grade(ctx, w, ep)
			if err != nil {
				return trajectory.Score{}, fmt.Errorf("vote %d of %d: %w", i+1, len(gs), err)
			}
			votes[i] = s.Reward
			out.Parts[fmt.Sprintf("vote_%d", i+1)] = s.Reward
			out.Detail += fmt.Sprintf("%d: %g, %s\n", i+1, s.Reward, s.Detail)
		}
		out.Reward, out.Detail = o.decide(votes), short(out.Detail)
		moved := 0.0
		for i := range votes {
			moved = max(moved, math.Abs(o.decide(slices.Delete(slices.Clone(votes), i, i+1))-out.Reward))
		}
		out.Metrics = map[string]float64{"spread": slices.Max(votes) - slices.Min(votes), "drop_one": moved}
		return out, nil
	}), nil
}

func (o *panel) decide(votes []float64) float64 {
	sum, yes := 0.0, 0
	for _, v := range votes {
		sum += v
		if v >= 0.5 {
			yes++
		}
	}
	if o.Rule == "mean" {
		return sum / float64(len(votes))
	}
	switch {
	case 2*yes > len(votes):
		return 1
	case 2*yes < len(votes):
		return 0
	}
	return 0.5
}

func (o *panel) needsJudge(row datasets.Row) bool {
	return len(o.Of) == 0 || slices.ContainsFunc(o.Of, func(s Spec) bool { return s.NeedsJudge(row) })
}

func (o *panel) needsBox(row datasets.Row) bool {
	return slices.ContainsFunc(o.Of, func(s Spec) bool { return s.NeedsBox(row) })
}
