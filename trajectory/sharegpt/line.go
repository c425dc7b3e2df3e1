package sharegpt

import (
	"encoding/json"
	"fmt"
	"time"

	"hermes/trajectory"
)

// Line is one line of trajectories.jsonl or failed_trajectories.jsonl.
type Line struct {
	ID            string                          `json:"id"`
	Sample        int                             `json:"sample"`
	PromptIndex   int64                           `json:"prompt_index"`
	Conversations []Turn                          `json:"conversations"`
	Metadata      Metadata                        `json:"metadata"`
	Completed     bool                            `json:"completed"`
	Partial       bool                            `json:"partial"`
	APICalls      int                             `json:"api_calls"`
	Toolsets      []string                        `json:"toolsets_used"`
	ToolStats     map[string]trajectory.ToolCount `json:"tool_stats"`
	ToolErrors    map[string]int                  `json:"tool_error_counts"`
	Timestamp     string                          `json:"timestamp"`
	Model         string                          `json:"model"`
	Reward        *float64                        `json:"reward"`
	Rewards       map[string]float64              `json:"rewards"`
	Outcome       trajectory.Outcome              `json:"outcome,omitempty"` // failed ones only, as Reason
	Reason        *string                         `json:"reason,omitempty"`
	Verdicts      []Verdict                       `json:"verdicts,omitempty"` // failed ones only, of answers of which there is something to say
}

// Verdict is what a reader said of one answer of the model. Answer counts the turns of gpt from
// 0; States are those of its calls, in order.
type Verdict struct {
	Answer int                `json:"answer"`
	States []string           `json:"states,omitempty"`
	Faults []trajectory.Fault `json:"faults,omitempty"`
}

// verdicts lists the answers that have a fault or a call that was not complete.
func verdicts(t *trajectory.Trace) (out []Verdict) {
	faults, answer := t.VisibleFaults(), -1
	for i, m := range t.Visible() {
		if m.Role != trajectory.Assistant {
			continue
		}
		answer++
		v, say := Verdict{Answer: answer, Faults: faults[i]}, len(faults[i]) > 0
		for _, c := range m.Calls {
			v.States = append(v.States, c.State.String())
			say = say || c.State != trajectory.CallComplete
		}
		if say {
			out = append(out, v)
		}
	}
	return out
}

// Metadata is upstream's, and the other keys of the dataset's row.
type Metadata struct {
	BatchNum  int             `json:"batch_num"`
	Timestamp string          `json:"timestamp"`
	Model     string          `json:"model"`
	Row       json.RawMessage `json:"row,omitempty"`
}

// NewLine renders a record. tools are the names of all tools of the run, so that all
// lines have the same keys; failed adds the outcome and the reason.
func NewLine(r *trajectory.Record, tools []string, failed bool, o Options) Line {
	stamp := r.Started.UTC().Format(time.RFC3339Nano)
	l := Line{
		ID: r.Row, Sample: r.Sample, PromptIndex: r.PromptIndex,
		Metadata: Metadata{Timestamp: stamp, Model: r.Model, Row: r.Metadata},
		Partial:  r.Outcome == trajectory.Truncated, APICalls: r.Trace.Turns(),
		Toolsets: r.Toolsets, ToolStats: map[string]trajectory.ToolCount{}, ToolErrors: map[string]int{},
		Timestamp: stamp, Model: r.Model, Rewards: map[string]float64{},
	}
	if l.Toolsets == nil {
		l.Toolsets = []string{}
	}
	var complete bool
	l.Conversations, complete = Conversation(r.Trace.Visible(), r.Tools, o)
	l.Completed = complete && r.Outcome == trajectory.Answered
	for _, name := range tools {
		l.ToolStats[name], l.ToolErrors[name] = trajectory.ToolCount{}, 0
	}
	for name, c := range r.ToolStats {
		l.ToolStats[name], l.ToolErrors[name] = c, c.Failure
	}
	if r.Score != nil {
		l.Reward = &r.Score.Reward
		if r.Score.Parts != nil {
			l.Rewards = r.Score.Parts
		}
	}
	if failed {
		l.Outcome, l.Reason, l.Verdicts = r.Outcome, &r.Reason, verdicts(r.Trace)
	}
	return l
}

// Append appends the line and a newline to b.
func (l Line) Append(b []byte) ([]byte, error) {
	b, err := trajectory.AppendJSON(b, l)
	if err != nil {
		return b, fmt.Errorf("sample %d of row %q: %w", l.Sample, l.ID, err)
	}
	return append(b, '\n'), nil
}
