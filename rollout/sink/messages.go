package sink

import (
	"bytes"
	"encoding/json"
	"fmt"

	"hermes/trajectory"
)

// messagesLine is one line of messages.jsonl: a conversation as chat servers know it.
type messagesLine struct {
	ID          string                `json:"id"`
	Sample      int                   `json:"sample"`
	PromptIndex int64                 `json:"prompt_index"`
	Messages    []chatMessage         `json:"messages"`
	Tools       []chatTool            `json:"tools"`
	Reward      *float                `json:"reward"`
	Rewards     map[string]float      `json:"rewards"`
	TurnRewards []float               `json:"turn_rewards,omitempty"`
	Metrics     map[string]float      `json:"metrics"`
	Model       string                `json:"model"`
	Finish      trajectory.StopReason `json:"finish"`
	Outcome     trajectory.Outcome    `json:"outcome"`
	Metadata    json.RawMessage       `json:"metadata"` // the other keys of the dataset's row
}

// float is a number that always has a point or an exponent. Readers take the type of a
// column from its first lines: after thousands of rewards spelled 1 they refuse a 0.5.
type float float64

func (f float) MarshalJSON() ([]byte, error) {
	b, err := json.Marshal(float64(f))
	if err == nil && !bytes.ContainsAny(b, ".e") {
		b = append(b, ".0"...)
	}
	return b, err
}

func floats(m map[string]float64) map[string]float {
	out := make(map[string]float, len(m))
	for k, v := range m {
		out[k] = float(v)
	}
	return out
}

type chatMessage struct {
	Role      trajectory.Role    `json:"role"`
	Content   any                `json:"content"` // text, or a list of parts
	Reasoning string             `json:"reasoning_content,omitempty"`
	Calls     []chatCall         `json:"tool_calls,omitempty"`
	CallID    string             `json:"tool_call_id,omitempty"`
	Name      string             `json:"name,omitempty"`
	Faults    []trajectory.Fault `json:"faults,omitempty"` // what could not be read of an answer
}

type chatCall struct {
	ID       string       `json:"id,omitempty"`
	Type     string       `json:"type"`
	Function chatFunction `json:"function"`
	State    string       `json:"state,omitempty"` // of a call that was not complete
}

type chatFunction struct {
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments"` // an object, or the text that could not be read
}

type chatTool struct {
	Type     string   `json:"type"`
	Function chatSpec `json:"function"`
}

type chatSpec struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Parameters  json.RawMessage `json:"parameters"`
}

func appendMessages(b []byte, r *trajectory.Record) ([]byte, error) {
	l := messagesLine{
		ID: r.Row, Sample: r.Sample, PromptIndex: r.PromptIndex, Model: r.Model, Finish: r.Stop.Reason, Outcome: r.Outcome,
		Messages: []chatMessage{}, Tools: []chatTool{}, Rewards: floats(nil), Metrics: floats(nil), Metadata: json.RawMessage("{}"),
	}
	if len(r.Metadata) > 0 {
		l.Metadata = r.Metadata
	}
	faults := r.Trace.VisibleFaults()
	for i, m := range r.Trace.Visible() {
		c := newChatMessage(m)
		c.Faults = faults[i]
		l.Messages = append(l.Messages, c)
	}
	for _, t := range r.Tools {
		if len(t.Parameters) == 0 {
			t.Parameters = json.RawMessage("{}")
		}
		l.Tools = append(l.Tools, chatTool{"function", chatSpec(t)})
	}
	if s := r.Score; s != nil {
		reward := float(s.Reward)
		l.Reward, l.Rewards, l.Metrics = &reward, floats(s.Parts), floats(s.Metrics)
		for _, v := range s.Turns {
			l.TurnRewards = append(l.TurnRewards, float(v))
		}
	}
	b, err := trajectory.AppendJSON(b, l)
	if err != nil {
		return b, fmt.Errorf("sample %d of row %q: %w", r.Sample, r.Row, err)
	}
	return append(b, '\n'), nil
}

// Chat gives messages in the form that chat servers know, for JSON.
func Chat(list []trajectory.Message) []any {
	out := make([]any, 0, len(list))
	for _, m := range list {
		out = append(out, newChatMessage(m))
	}
	return out
}

func newChatMessage(m trajectory.Message) chatMessage {
	c := chatMessage{Role: m.Role, Content: content(m), Reasoning: m.Reasoning, CallID: m.CallID, Name: m.Name}
	for _, call := range m.Calls {
		c.Calls = append(c.Calls, chatCall{call.ID, "function", chatFunction{call.Name, arguments(call.Arguments)}, string(call.State)})
	}
	return c
}

// arguments gives an object as it is and quotes whatever else the model wrote.
func arguments(s string) json.RawMessage {
	raw := json.RawMessage(s)
	if s == "" {
		return json.RawMessage("{}")
	}
	if t := bytes.TrimSpace(raw); json.Valid(raw) && t[0] == '{' {
		return raw
	}
	return trajectory.AppendQuoted(nil, s)
}

func content(m trajectory.Message) any {
	text := true
	for _, p := range m.Parts {
		text = text && p.Kind == trajectory.PartText
	}
	if text {
		return m.Content()
	}
	parts := make([]map[string]any, 0, len(m.Parts))
	for _, p := range m.Parts {
		url := p.URL
		if url == "" && p.Blob != "" {
			url = "blobs/" + p.Blob
		}
		switch p.Kind {
		case trajectory.PartText:
			parts = append(parts, map[string]any{"type": "text", "text": p.Text})
		case trajectory.PartImage:
			parts = append(parts, map[string]any{"type": "image_url", "image_url": map[string]string{"url": url}})
		default:
			parts = append(parts, map[string]any{"type": string(p.Kind), "url": url})
		}
	}
	return parts
}
