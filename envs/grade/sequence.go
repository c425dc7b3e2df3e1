package grade

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"hermes/datasets"
	"hermes/envs"
	"hermes/internal/nearest"
	"hermes/trajectory"
)

// actions compares the whole course of actions: field actions or expected_tools. How:
// exact (these calls in this order and none besides), prefix (they come first), suffix,
// subsequence (in this order, others between them). The reward is the share of the wanted
// actions that stand in order; all makes it 1 or 0.
type actions struct {
	Field     string   `yaml:"field"`
	How       string   `yaml:"how"`
	Arguments string   `yaml:"arguments"` // subset, exact, ignore
	Ignore    []string `yaml:"ignore"`    // tools whose calls do not count: reading, searching
	Only      []string `yaml:"only"`      // tools whose calls count alone
	All       bool     `yaml:"all"`
}

func (o *actions) check() error {
	how := []string{"exact", "prefix", "suffix", "subsequence"}
	if !slices.Contains(how, o.How) {
		return fmt.Errorf("how %q: have exact, prefix, suffix, subsequence%s", o.How, nearest.Hint(o.How, how))
	}
	if len(o.Ignore) > 0 && len(o.Only) > 0 {
		return errors.New("ignore and only exclude each other")
	}
	return (&wantedCalls{Arguments: o.Arguments}).check()
}

func (o *actions) bind(row datasets.Row) (Grader, error) {
	names := []string{"actions", "expected_tools"}
	if o.Field != "" {
		names = []string{o.Field}
	}
	raw, name, err := field(row, names...)
	if err != nil {
		return nil, err
	}
	var want []WantCall
	if string(raw) != "[]" { // doing nothing is a course too
		want, err = wanted(raw)
		if err != nil {
			return nil, fmt.Errorf("row %s: %s: %w", row.ID, name, err)
		}
	}
	want = slices.DeleteFunc(want, func(w WantCall) bool { return !o.counts(w.Name) })
	return Func(func(_ context.Context, _ envs.World, ep envs.Episode) (trajectory.Score, error) {
		calls := slices.DeleteFunc(made(ep), func(c trajectory.Call) bool { return !o.counts(c.Name) })
		return o.score(want, calls), nil
	}), nil
}

func (o *actions) counts(name string) bool {
	return !slices.Contains(o.Ignore, name) && (len(o.Only) == 0 || slices.Contains(o.Only, name))
}

func (o *actions) binary() bool { return o.All || o.How == "exact" }

func (o *actions) score(want []WantCall, calls []trajectory.Call) trajectory.Score {
	c := wantedCalls{Arguments: o.Arguments}
	read := c.read(calls, nil)
	fits := func(i, j int) bool { return c.fits(want[i], read[j]) }
	from := 0
	if o.How == "suffix" {
		from = len(read) - len(want)
	}
	hits := 0
	switch {
	case o.How == "subsequence":
		hits = inOrder(len(want), len(read), fits)
	default:
		for i := range want {
			if j := from + i; j < 0 || j >= len(read) || !fits(i, j) {
				break
			}
			hits++
		}
	}
	s := trajectory.Score{Reward: 1, Detail: fmt.Sprintf("%d of %d actions in order, %d made", hits, len(want), len(read)),
		Metrics: map[string]float64{"actions_wanted": float64(len(want)), "actions_made": float64(len(read))}}
	if len(want) > 0 {
		s.Reward = float64(hits) / float64(len(want))
	}
	if s.Reward < 1 && o.binary() || o.How == "exact" && len(read) != len(want) {
		s.Reward = 0
	}
	return s
}
