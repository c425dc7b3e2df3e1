package sink

import (
	"fmt"
	"strconv"
	"strings"

	"hermes/internal/expr"
	"hermes/trajectory"
)

// Condition is a condition on a record.
type Condition func(*trajectory.Record) bool

// ParseCondition reads a condition such as `reward >= 0.5 and outcome == answered`.
func ParseCondition(s string) (Condition, error) {
	c, err := expr.Parse(s, leaf)
	return c, err
}

func leaf(name, op, value string, _ bool) (func(*trajectory.Record) bool, error) {
	if text := textField(name); text != nil {
		if op != "==" && op != "=" && op != "!=" {
			return nil, fmt.Errorf("%s can only be compared with == and !=", name)
		}
		return func(r *trajectory.Record) bool { return (text(r) == value) == (op != "!=") }, nil
	}
	number, err := numberField(name)
	if err != nil {
		return nil, err
	}
	want, err := strconv.ParseFloat(value, 64)
	if err != nil {
		return nil, fmt.Errorf("%s is compared with %q, which is no number", name, value)
	}
	return func(r *trajectory.Record) bool {
		have, ok := number(r)
		return ok && expr.Compare(have, op, want) // what was not measured fulfils no condition
	}, nil
}

func textField(name string) func(*trajectory.Record) string {
	switch name {
	case "outcome":
		return func(r *trajectory.Record) string { return string(r.Outcome) }
	case "finish":
		return func(r *trajectory.Record) string { return string(r.Stop.Reason) }
	case "model":
		return func(r *trajectory.Record) string { return r.Model }
	}
	return nil
}

func numberField(name string) (func(*trajectory.Record) (float64, bool), error) {
	always := func(f func(*trajectory.Record) float64) func(*trajectory.Record) (float64, bool) {
		return func(r *trajectory.Record) (float64, bool) { return f(r), true }
	}
	if part, ok := strings.CutPrefix(name, "metrics."); ok {
		return scored(func(s *trajectory.Score) map[string]float64 { return s.Metrics }, part), nil
	}
	if part, ok := strings.CutPrefix(name, "rewards."); ok {
		return scored(func(s *trajectory.Score) map[string]float64 { return s.Parts }, part), nil
	}
	switch name {
	case "reward":
		return func(r *trajectory.Record) (float64, bool) {
			if r.Score == nil {
				return 0, false
			}
			return r.Score.Reward, true
		}, nil
	case "turns":
		return always(func(r *trajectory.Record) float64 { return float64(r.Trace.Turns()) }), nil
	case "tokens":
		return always(func(r *trajectory.Record) float64 { return float64(r.Usage.Completion) }), nil
	case "seconds":
		return always(func(r *trajectory.Record) float64 { return r.Seconds }), nil
	case "attempt":
		return always(func(r *trajectory.Record) float64 { return float64(r.Attempt) }), nil
	}
	return nil, fmt.Errorf("%q is unknown (have reward, rewards.NAME, metrics.NAME, turns, tokens, seconds, attempt, outcome, finish, model)", name)
}

func scored(m func(*trajectory.Score) map[string]float64, part string) func(*trajectory.Record) (float64, bool) {
	return func(r *trajectory.Record) (float64, bool) {
		if r.Score == nil {
			return 0, false
		}
		v, ok := m(r.Score)[part]
		return v, ok
	}
}
