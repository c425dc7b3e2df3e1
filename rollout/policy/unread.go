package policy

import (
	"fmt"
	"strings"

	"hermes/parsers"
	"hermes/trajectory"
)

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
	faults := faultsOf(out, func() string { return text })
	for _, c := range out.Calls {
		faults = append(faults, trajectory.Fault{Kind: "unread_call", From: c.Start, To: c.End,
			Message: fmt.Sprintf("a call of %q stands in the text, as the family %s writes it: the server did not read it", c.Name, name)})
	}
	return faults
}
