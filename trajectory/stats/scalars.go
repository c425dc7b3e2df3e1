package stats

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"hermes/trajectory"
)

// Done counts the samples that are in a book.
func (s Statistics) Done() int64 { return s.settled() }

// Scalars are the figures for TensorBoard and W&B, under the names that trainers log them by.
// What is not known has no entry.
func (s Statistics) Scalars() map[string]float64 {
	m := map[string]float64{"completions/mean_length": s.Each.Completion, "turns/mean": s.Turns.Mean, "seconds/mean": s.Each.Seconds,
		"samples/planned": float64(s.Planned), "samples/done": float64(s.settled()), "samples/scored": float64(s.Scored)}
	if s.Reward != nil {
		m["reward/mean"] = s.Reward.Mean
	}
	for name, c := range s.Tools {
		rate := 0.0
		if c.Count > 0 {
			rate = float64(c.Failure) / float64(c.Count)
		}
		m["tools/"+name+"/error_rate"], m["tools/"+name+"/count"] = rate, float64(c.Count)
	}
	for state, n := range s.Calls {
		m["calls/"+state] = float64(n)
	}
	for kind, n := range s.Faults {
		m["faults/"+kind] = float64(n)
	}
	for cause, n := range s.Failed {
		m["void/"+cause] = float64(n)
	}
	if s.CostUSD != nil {
		m["cost_usd"] = *s.CostUSD
	}
	return m
}

// Verdicts says in a line which calls were not complete and of faults; empty: there are none.
func (s Statistics) Verdicts() string {
	var list []string
	for _, state := range CallStates() {
		if n := s.Calls[state]; n > 0 && state != trajectory.CallComplete.String() {
			list = append(list, fmt.Sprintf("%d %s", n, state))
		}
	}
	out := ""
	if len(list) > 0 {
		out = "calls that were not complete: " + strings.Join(list, ", ")
	}
	list = nil
	for _, kind := range slices.Sorted(maps.Keys(s.Faults)) {
		list = append(list, fmt.Sprintf("%d %s", s.Faults[kind], kind))
	}
	if len(list) > 0 {
		if out != "" {
			out += "; "
		}
		out += "faults of answers: " + strings.Join(list, ", ")
	}
	return out
}
