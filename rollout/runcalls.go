package rollout

import (
	"fmt"
	"slices"
	"strings"

	"hermes/rollout/tool"
	"hermes/trajectory"
)

// RunCalls lists the states of calls that are executed. Empty means [DefaultRunCalls].
type RunCalls []trajectory.CallState

// DefaultRunCalls are run unless something else is asked for: calls of which only one
// reading is possible.
func DefaultRunCalls() RunCalls {
	return RunCalls{trajectory.CallComplete, trajectory.CallRecovered}
}

// ParseRunCalls reads a list of states, such as "complete,recovered". Calls that were cut or
// cannot be read are never run.
func ParseRunCalls(list string) (RunCalls, error) {
	var out RunCalls
	for _, name := range strings.Split(list, ",") {
		var s trajectory.CallState
		switch name = strings.TrimSpace(name); name {
		case trajectory.CallComplete.String():
		case string(trajectory.CallRecovered), string(trajectory.CallAmbiguous):
			s = trajectory.CallState(name)
		case string(trajectory.CallTruncated), string(trajectory.CallMalformed):
			return nil, fmt.Errorf("calls that are %s are never run (want some of complete, recovered, ambiguous)", name)
		default:
			return nil, fmt.Errorf("state %q of calls (want some of complete, recovered, ambiguous)", name)
		}
		if !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	if !slices.Contains(out, trajectory.CallComplete) {
		return nil, fmt.Errorf("calls %q: complete calls are always run", list)
	}
	slices.Sort(out)
	return out, nil
}

// String lists the states; what [ParseRunCalls] read comes in one order.
func (r RunCalls) String() string {
	names := make([]string, len(r))
	for i, s := range r {
		names[i] = s.String()
	}
	return strings.Join(names, ",")
}

func (r RunCalls) runs(c trajectory.Call) bool {
	if len(r) == 0 {
		return c.State == trajectory.CallComplete || c.State == trajectory.CallRecovered
	}
	return slices.Contains(r, c.State)
}

// unrun answers a call that is not run: its model sees why.
func unrun(c trajectory.Call) tool.Result {
	why := "it can be read in more than one way"
	switch c.State {
	case trajectory.CallTruncated:
		why = "the answer ended inside it"
	case trajectory.CallMalformed:
		why = "its arguments cannot be read"
	case trajectory.CallRecovered:
		why = "it was not written as it should be"
	}
	r := tool.Errorf("The call of %s was not run: %s. Write the whole call again.", c.Name, why)
	r.Fault = tool.FaultJSON
	return r
}

// unread returns the first fault that says that something in an answer was not read. Text beside
// calls, or reasoning without an end, does not count.
func unread(list []trajectory.Fault) (trajectory.Fault, bool) {
	for _, f := range list {
		switch f.Kind {
		case "dropped_text", "stray_text", "unclosed_reasoning", "echo":
		default:
			return f, true
		}
	}
	return trajectory.Fault{}, false
}
