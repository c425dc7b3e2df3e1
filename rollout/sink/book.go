package sink

import (
	"fmt"

	"hermes/trajectory"
	"hermes/trajectory/stats"
)

// Rules tell which book a record enters. They are a pure function of the record and of
// what run.yaml says.
type Rules struct {
	training  bool // batch: limits and faults of the model are rejected
	passed    bool
	accept    Condition // nil: all
	reasoning bool
}

// NewRules reads the mode (batch, env or eval), --accept (all, passed or an expression
// such as `reward >= 0.5 and metrics.x > 1`) and --require-reasoning. Only batch may
// narrow what is accepted.
func NewRules(mode, accept string, requireReasoning bool) (Rules, error) {
	var r Rules
	switch mode {
	case "batch":
		r.training, r.reasoning = true, requireReasoning
	case "env", "eval":
		if accept != "" && accept != "all" {
			return r, fmt.Errorf("accept %q: %s accepts all", accept, mode)
		}
		return r, nil
	default:
		return r, fmt.Errorf("mode %q (have batch, env, eval)", mode)
	}
	switch accept {
	case "", "all":
	case "passed":
		r.passed = true
	default:
		e, err := ParseCondition(accept)
		if err != nil {
			return r, fmt.Errorf("accept %q: %w", accept, err)
		}
		r.accept = e
	}
	return r, nil
}

// Book returns the book of a final record, and which part of it (empty for accepted).
func (r Rules) Book(rec *trajectory.Record) (book stats.Book, sub string) {
	if rec.Outcome.Failure() {
		return stats.Failed, string(rec.Outcome)
	}
	switch rec.Outcome {
	case trajectory.Answered, trajectory.Truncated, trajectory.Malformed, trajectory.Filtered, trajectory.Faulty:
	default:
		return stats.Failed, string(trajectory.Internal) // an unknown outcome is a bug
	}
	if !r.training {
		return stats.Accepted, ""
	}
	switch {
	case rec.Outcome == trajectory.Truncated:
		return stats.Rejected, "truncated"
	case rec.Outcome == trajectory.Filtered:
		return stats.Rejected, "filtered"
	case rec.Outcome != trajectory.Answered:
		return stats.Rejected, "malformed"
	case r.reasoning && !stats.HasReasoning(rec):
		return stats.Rejected, "no_reasoning"
	case r.passed && rec.Score == nil: // nothing judged it: that is no reward at all
		return stats.Rejected, "filtered"
	case r.passed && rec.Score.Reward < 1:
		return stats.Rejected, "low_reward"
	case r.accept != nil && !r.accept(rec):
		return stats.Rejected, "filtered"
	}
	return stats.Accepted, ""
}
