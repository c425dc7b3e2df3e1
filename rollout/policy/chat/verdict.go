package chat

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"hermes/parsers"
	"hermes/rollout/policy"
	"hermes/rollout/tool"
	"hermes/trajectory"
)

// serverCall judges a call that the server read: all that can be wrong is its arguments.
// The fault, if any, lies at byte at.
func serverCall(c *trajectory.Call, at int) (trajectory.Fault, bool) {
	args := strings.TrimSpace(c.Arguments)
	if c.Name == "" {
		c.State = trajectory.CallMalformed
		return trajectory.Fault{Kind: string(c.State), Message: "a call without a name", From: at, To: at}, true
	}
	if args == "" {
		return trajectory.Fault{}, false
	}
	var err error
	if args[0] == '{' && json.Valid([]byte(args)) {
		if !parsers.DoubledKeys(args) {
			return trajectory.Fault{}, false
		}
		err = errors.New("a key of the arguments is there twice, with different values")
	} else {
		_, err = tool.RepairArguments(args)
	}
	switch {
	case err == nil:
		c.State = trajectory.CallRecovered
		err = errors.New("the arguments are no JSON object as they stand")
	case errors.Is(err, tool.ErrEnds):
		c.State = trajectory.CallTruncated
	default:
		c.State = trajectory.CallMalformed
	}
	return trajectory.Fault{Kind: string(c.State), Message: fmt.Sprintf("call of %q: %v", c.Name, err), From: at, To: at}, true
}

// judge gives the calls of a server's answer their states and lists what is wrong with
// the answer: arguments that are no JSON, and calls in the text that the server did not read.
func (s *sampler) judge(m *trajectory.Message) []trajectory.Fault {
	content := m.Content()
	faults := s.p.o.Calls.unread(content, s.tools)
	for i := range m.Calls {
		if f, ok := serverCall(&m.Calls[i], len(content)); ok {
			faults = append(faults, f)
		}
	}
	return faults
}

// Unread finds calls that are in an answer's text because the server did not read them.
// It is safe for concurrent use. The zero value looks for the calls of every family.
type Unread struct {
	Family parsers.Family // how the model writes its calls; the zero value: not known
}

// unread lists the places of text that look like calls. A tag that prose speaks of is none,
// nor is JSON that names no declared tool.
func (u Unread) unread(text string, tools []trajectory.ToolSpec) []trajectory.Fault {
	if len(tools) == 0 || !strings.ContainsAny(text, "<[{") {
		return nil // a model without tools cannot call any
	}
	opt := parsers.ParseOptions{Tools: tools}
	var name string
	var out parsers.Parsed
	if u.Family.New != nil {
		name, out = u.Family.Name, u.Family.Parse(text, opt)
	} else {
		name, out, _ = parsers.Auto(text, opt)
	}
	faults := policy.FaultsOf(out, func() string { return text })
	for _, c := range out.Calls {
		faults = append(faults, trajectory.Fault{Kind: "unread_call", From: c.Start, To: c.End,
			Message: fmt.Sprintf("a call of %q is in the text, as the family %s writes it: the server did not read it", c.Name, name)})
	}
	return faults
}
