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
// min the lowest, majority what more than half of them say: a vote of ½ or more is a yes,
// an even split ½.
//
// The metrics tell how far it hangs on one vote: spread between the highest and the lowest,
// drop_one how far the result moves where one is left out, disagreement the share of the
// pairs of votes that stand on different sides of ½. A judge that fails voids all, unless
// the votes without it are as many as the quorum: then it abstains, which is counted.
type panel struct {
	Of     []Spec   `yaml:"of"`
	Judges []string `yaml:"judges"` // names of judges that each grade by each of of
	Votes  int      `yaml:"votes"`  // of each
	Rule   string   `yaml:"rule"`
	Quorum int      `yaml:"quorum"` // votes that suffice; 0: all
}

const maxVotes = 25

func (o *panel) check() error {
	if o.Rule != "mean" && o.Rule != "majority" && o.Rule != "min" {
		return fmt.Errorf("rule %q: have mean, majority, min", o.Rule)
	}
	n := o.Votes * max(len(o.Of), 1) * max(len(o.Judges), 1)
	if o.Votes < 1 || n > maxVotes {
		return fmt.Errorf("votes %d of each: want 1 or more, at most %d together", o.Votes, maxVotes)
	}
	if n < 2 {
		return errors.New("one vote is no panel; give votes, several judges, or several graders in of")
	}
	if o.Quorum < 0 || o.Quorum > n {
		return fmt.Errorf("quorum %d: want 1 to %d, the votes there are, or none for all of them", o.Quorum, n)
	}
	for i, name := range o.Judges {
		if name == "" || slices.Contains(o.Judges[:i], name) {
			return fmt.Errorf("judges: %q is no name, or is given twice", name)
		}
	}
	if slices.ContainsFunc(o.Of, func(s Spec) bool { return s.Gate }) {
		return errors.New("a panel has no gates")
	}
	return nil
}

// member casts one vote.
type member struct {
	name string
	Grader
}

// members are the graders of a row; a panel of judges alone grades by rubric.
func (o *panel) members() []Spec {
	if len(o.Of) == 0 {
		return []Spec{{Kind: "rubric", o: &rubric{}}}
	}
	return o.Of
}

func (o *panel) bind(row datasets.Row) (Grader, error) {
	var list []member
	add := func(name string, g Grader) {
		if len(o.Judges) == 0 {
			name = fmt.Sprint(len(list) + 1)
		}
		list = append(list, member{name, g})
	}
	names := o.Judges
	if len(names) == 0 {
		names = []string{""}
	}
	for i, s := range o.members() {
		g, err := s.Bind(row)
		if err != nil {
			return nil, err
		}
		for _, judge := range names {
			for vote := range o.Votes {
				name := judge
				if len(o.Of) > 1 {
					name += fmt.Sprintf("_%d", i+1)
				}
				if o.Votes > 1 {
					name += fmt.Sprintf("_%d", vote+1)
				}
				add(name, asking(judge, g))
			}
		}
	}
	return Func(func(ctx context.Context, w envs.World, ep envs.Episode) (trajectory.Score, error) {
		return o.vote(ctx, list, w, ep)
	}), nil
}

// vote asks the members in turn, since each draws its own mark.
func (o *panel) vote(ctx context.Context, list []member, w envs.World, ep envs.Episode) (trajectory.Score, error) {
	out := trajectory.Score{Parts: map[string]float64{}}
	var votes []float64
	var failed []error
	hacked := 0.0
	for i, m := range list {
		s, err := m.Grade(ctx, w, ep)
		if err != nil {
			err = fmt.Errorf("vote %s of %d: %w", m.name, len(list), err)
			failed = append(failed, err)
			if o.Quorum == 0 || !errors.Is(err, envs.ErrJudge) || len(votes)+len(list)-i-1 < o.Quorum {
				return trajectory.Score{}, errors.Join(failed...)
			}
			out.Detail += fmt.Sprintf("%s abstained: %v\n", m.name, err)
			continue
		}
		votes = append(votes, s.Reward)
		hacked = max(hacked, s.Metrics[hackJudge])
		out.Parts["vote_"+m.name] = s.Reward
		out.Detail += fmt.Sprintf("%s: %g, %s\n", m.name, s.Reward, s.Detail)
	}
	out.Reward, out.Detail = o.decide(votes), short(out.Detail)
	moved := 0.0
	for i := range votes {
		if len(votes) > 1 {
			moved = max(moved, math.Abs(o.decide(slices.Delete(slices.Clone(votes), i, i+1))-out.Reward))
		}
	}
	out.Metrics = map[string]float64{"spread": slices.Max(votes) - slices.Min(votes), "drop_one": moved, "disagreement": disagreement(votes)}
	if hacked > 0 {
		out.Metrics[hackJudge] = hacked
	}
	if o.Quorum > 0 {
		out.Metrics["abstained"] = float64(len(failed))
	}
	return out, nil
}

// disagreement is the share of pairs of votes of which one is a yes and one a no.
func disagreement(votes []float64) float64 {
	n := len(votes)
	if n < 2 {
		return 0
	}
	yes := 0
	for _, v := range votes {
		if v >= 0.5 {
			yes++
		}
	}
	return float64(yes*(n-yes)) / float64(n*(n-1)/2)
}

func (o *panel) decide(votes []float64) float64 {
	sum, yes := 0.0, 0
	for _, v := range votes {
		sum += v
		if v >= 0.5 {
			yes++
		}
	}
	switch {
	case o.Rule == "mean":
		return sum / float64(len(votes))
	case o.Rule == "min":
		return slices.Min(votes)
	case 2*yes > len(votes):
		return 1
	case 2*yes < len(votes):
		return 0
	}
	return 0.5
}

// judges: those of the panel stand where a member names none.
func (o *panel) judges(row datasets.Row) (list []string) {
	for _, s := range o.members() {
		for _, name := range s.Judges(row) {
			if name == "" && len(o.Judges) > 0 {
				list = append(list, o.Judges...)
				continue
			}
			list = append(list, name)
		}
	}
	return list
}

func (o *panel) needsBox(row datasets.Row) bool {
	return slices.ContainsFunc(o.Of, func(s Spec) bool { return s.NeedsBox(row) })
}

// asking has a grader ask the judge of a name; "": whom it asks anyway.
func asking(name string, g Grader) Grader {
	if name == "" {
		return g
	}
	return Func(func(ctx context.Context, w envs.World, ep envs.Episode) (trajectory.Score, error) {
		j := w.Judges[name]
		if j == nil {
			return trajectory.Score{}, fmt.Errorf("this run has no judge %s; give --model-role judge_%s=MODEL", name, name)
		}
		w.Judge = j
		return g.Grade(ctx, w, ep)
	})
}
