package report

import (
	"fmt"
	"html/template"
	"io"

	"hermes/trajectory"
)

// Groups writes groups.html, group by group, so that its memory is that of one group. It
// belongs to one goroutine.
type Groups struct {
	w io.Writer
	t *template.Template
}

// NewGroups begins the page of a run.
func NewGroups(w io.Writer, name string, links []Link) (*Groups, error) {
	t, err := parse(groupsPage)
	if err != nil {
		return nil, err
	}
	g := &Groups{w, t}
	return g, execute(w, t, "begin", map[string]any{"Name": name, "Links": links})
}

// groupSample is a sample on the page.
type groupSample struct {
	Sample   int
	Outcome  trajectory.Outcome
	Score    trajectory.Score
	Messages []groupMessage
}

type groupMessage struct{ Role, Text string }

// Add writes the samples of one task. scores stand beside the records.
func (g *Groups) Add(recs []*trajectory.Record, scores []trajectory.Score) error {
	if len(recs) == 0 {
		return nil
	}
	low := scores[0].Reward
	high := scores[0].Reward
	mean := 0.0
	var list []groupSample
	for i, r := range recs {
		x := scores[i].Reward
		low, high, mean = min(low, x), max(high, x), mean+x/float64(len(recs))
		s := groupSample{Sample: r.Sample, Outcome: r.Outcome, Score: scores[i]}
		for _, m := range r.Trace.Visible() {
			text := m.Content()
			for _, c := range m.Calls {
				text += fmt.Sprintf("\n→ %s %s", c.Name, c.Arguments)
			}
			s.Messages = append(s.Messages, groupMessage{string(m.Role), text})
		}
		list = append(list, s)
	}
	return execute(g.w, g.t, "group", map[string]any{"Row": recs[0].Row, "Samples": list, "Low": low, "High": high, "Mean": mean})
}

// End ends the page.
func (g *Groups) End(written, incomplete int) error {
	return execute(g.w, g.t, "end", map[string]any{"Written": written, "Incomplete": incomplete})
}
