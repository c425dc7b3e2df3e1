package grade

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"hermes/datasets"
	"hermes/envs"
	"hermes/trajectory"
)

// rule makes one number of several.
type rule int

const (
	weighted rule = iota
	best
	worst
	product
)

// combined grades with several graders. Gates are asked first: where one is not passed,
// the reward is 0 and the others, which may cost a model's call, are not asked. An error of
// any of them is an error of the whole.
type combined struct {
	Of   []Spec `yaml:"of"`
	rule rule
}

func (c *combined) check() error {
	if len(c.Of) == 0 {
		return errors.New("of: want at least one grader")
	}
	sum, gates := 0.0, 0
	for _, s := range c.Of {
		if s.Kind == "none" {
			return errors.New("none cannot stand among others")
		}
		sum += s.Weight
		if s.Gate {
			gates++
		}
	}
	if sum == 0 && gates < len(c.Of) {
		return errors.New("all weights are 0; give one grader a weight")
	}
	return nil
}

// names are the members' own, made different.
func (c *combined) names() []string {
	seen := map[string]int{}
	out := make([]string, len(c.Of))
	for i, s := range c.Of {
		name := s.Name
		name = cmp.Or(name, s.Kind)
		seen[name]++
		if seen[name] > 1 {
			name = fmt.Sprintf("%s_%d", name, seen[name])
		}
		out[i] = name
	}
	return out
}

func (c *combined) bind(row datasets.Row) (Grader, error) {
	gs := make([]Grader, len(c.Of))
	for i, s := range c.Of {
		var err error
		gs[i], err = s.Bind(row)
		if errors.Is(err, envs.ErrUnscored) {
			return nil, fmt.Errorf("%s: row %s has nothing to be judged by", s.Kind, row.ID)
		}
		if err != nil {
			return nil, err
		}
	}
	names := c.names()
	boxed := make([]bool, len(c.Of)) // without a model's work only these have something to say
	for i, s := range c.Of {
		boxed[i] = s.NeedsBox(row)
	}
	return Func(func(ctx context.Context, w envs.World, ep envs.Episode) (trajectory.Score, error) {
		t := tally{rule: c.rule, out: trajectory.Score{Parts: map[string]float64{}}}
		for _, gates := range []bool{true, false} {
			for i, s := range c.Of {
				if s.Gate != gates || w.Control && !boxed[i] {
					continue
				}
				got, err := gs[i].Grade(ctx, w, ep)
				if err != nil {
					return trajectory.Score{}, fmt.Errorf("%s: %w", names[i], err)
				}
				t.add(names[i], s, got)
				if s.Gate && !w.Control && got.Reward < s.Pass {
					t.out.Detail = "gate " + t.out.Detail
					return t.out, nil
				}
			}
		}
		t.out.Reward = t.reward()
		t.out.Detail = short(t.out.Detail)
		return t.out, nil
	}), nil
}

type tally struct {
	rule         rule
	out          trajectory.Score
	sum, weights float64
	counted      []float64 // the weights beside each
	each         []float64
}

func (t *tally) add(name string, s Spec, got trajectory.Score) {
	t.out.Parts[name] = got.Reward
	for _, inner := range []map[string]float64{got.Parts, got.Metrics} {
		for _, k := range slices.Sorted(maps.Keys(inner)) {
			if t.out.Metrics == nil {
				t.out.Metrics = map[string]float64{}
			}
			t.out.Metrics[name+"/"+k] = inner[k]
		}
	}
	t.out.Detail += fmt.Sprintf("%s %g: %s\n", name, got.Reward, strings.TrimSpace(got.Detail))
	if s.Weight > 0 {
		t.sum, t.weights = t.sum+s.Weight*got.Reward, t.weights+s.Weight
		t.each, t.counted = append(t.each, got.Reward), append(t.counted, s.Weight)
	}
}

func (t *tally) reward() float64 {
	switch {
	case len(t.each) == 0:
		return 1 // gates alone, all passed
	case t.rule == best:
		return slices.Max(t.each)
	case t.rule == worst:
		return slices.Min(t.each)
	case t.rule == product:
		p := 1.0
		for _, r := range t.each {
			p *= r
		}
		return p
	}
	if v := t.sum / t.weights; !math.IsInf(v, 0) && !math.IsNaN(v) {
		return v
	}
	mean := 0.0 // the sum alone is beyond all numbers
	for i, r := range t.each {
		mean += r * (t.counted[i] / t.weights)
	}
	return mean
}

func (c *combined) needsBox(row datasets.Row) bool {
	return slices.ContainsFunc(c.Of, func(s Spec) bool { return s.NeedsBox(row) })
}

func (c *combined) time(row datasets.Row) (sum time.Duration) {
	for _, s := range c.Of {
		sum += s.Time(row)
	}
	return sum
}

func (c *combined) judges(row datasets.Row) (list []string) {
	for _, s := range c.Of {
		list = append(list, s.Judges(row)...)
	}
	return list
}

// binary: the mean of several counts is none.
func (c *combined) binary() bool {
	counted := 0
	for _, s := range c.Of {
		if s.Weight > 0 {
			counted++
			if !s.Binary() {
				return false
			}
		}
	}
	return counted <= 1 || c.rule != weighted
}

// key is that of the first grader that counts and reads answers.
func (c *combined) key(row datasets.Row, answer string) (string, bool) {
	for _, s := range c.Of {
		if k, ok := s.options().(keyed); ok && s.Weight > 0 {
			return k.key(row, answer)
		}
	}
	return "", false
}
