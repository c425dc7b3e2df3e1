package rollouts

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"hermes/internal/atropos/serve"
	"hermes/internal/exit"
	"hermes/rollout/engine"
	"hermes/trajectory/stats"
)

// Verdict turns how a run ended into an exit code.
func (r *Run) Verdict(sum engine.Summary, s stats.Statistics) error {
	stopped := sum.Stopped
	switch {
	case stopped == nil:
	case errors.Is(stopped, engine.ErrRefused):
		return exit.Usage(stopped)
	case errors.Is(stopped, serve.ErrStale):
		return exit.Stopped(fmt.Errorf("%w; the same command goes on with the rows that follow", stopped))
	case errors.Is(stopped, engine.ErrBudget), errors.Is(stopped, engine.ErrFailures), errors.Is(stopped, engine.ErrCancelled):
		return exit.Stopped(fmt.Errorf("%w; the same command resumes", stopped))
	case errors.Is(stopped, engine.ErrDrained), errors.Is(stopped, context.Canceled):
		return stopped // the signal decides the code
	default:
		if e := new(exit.Error); errors.As(stopped, &e) {
			return e
		}
		return exit.Ours(stopped)
	}
	failed := int64(0)
	for _, n := range s.Failed {
		failed += n
	}
	if r.Allowed.Exceeded(failed, s.Planned) {
		return exit.Failures(fmt.Errorf("%d of %d samples failed without the model's fault (attempts by cause: %s), more than --fail-on-error %s allows; "+
			"report.md says why, --retry-failed tries them again", failed, s.Planned, causes(s.Causes), r.FailOnError))
	}
	return nil
}

// causes lists why attempts failed, the most frequent cause first.
func causes(n map[string]int64) string {
	most := func(a, b string) int { return cmp.Or(cmp.Compare(n[b], n[a]), cmp.Compare(a, b)) }
	var list []string
	for _, cause := range slices.SortedFunc(maps.Keys(n), most) {
		list = append(list, fmt.Sprintf("%s %d", cause, n[cause]))
	}
	return strings.Join(list, ", ")
}
