package remote

import (
	"encoding/json"
	"fmt"

	"hermes/trajectory"
)

// message is a message in the form of OpenAI's chat API.
type message struct {
	Role      trajectory.Role `json:"role"`
	Content   json.RawMessage `json:"content,omitempty"` // text, or a list of parts
	Reasoning string          `json:"reasoning_content,omitempty"`
	Calls     []call          `json:"tool_calls,omitempty"`
	CallID    string          `json:"tool_call_id,omitempty"`
	Name      string          `json:"name,omitempty"`
}

type call struct {
	ID       string `json:"id"`
	Type     string `json:"type"`
	Function struct {
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"` // a text of JSON; an object is read too
	} `json:"function"`
}

type part struct {
	Type  string `json:"type"`
	Text  string `json:"text,omitempty"`
	Image *struct {
		URL string `json:"url"`
	} `json:"image_url,omitempty"`
}

// sent is a conversation for the program.
func sent(list []trajectory.Message) []message {
	out := make([]message, 0, len(list))
	for _, m := range list {
		x := message{Role: m.Role, Reasoning: m.Reasoning, CallID: m.CallID, Name: m.Name, Content: text(m.Content())}
		for _, c := range m.Calls {
			y := call{ID: c.ID, Type: "function"}
			y.Function.Name, y.Function.Arguments = c.Name, text(c.Arguments)
			x.Calls = append(x.Calls, y)
		}
		out = append(out, x)
	}
	return out
}

// text is a JSON string.
func text(s string) json.RawMessage {
	b, err := json.Marshal(s)
	if err != nil {
		panic(fmt.Sprintf("a string cannot be encoded: %v", err)) // it always can
	}
	return b
}

// received reads a conversation from the program.
func received(list []message) ([]trajectory.Message, error) {
	out := make([]trajectory.Message, 0, len(list))
	for i, m := range list {
		x, err := m.message()
		if err != nil {
			return nil, fmt.Errorf("message %d: %w", i, err)
		}
		out = append(out, x)
	}
	return out, nil
}

func (m message) message() (trajectory.Message, error) {
	x := trajectory.Message{Role: m.Role, Reasoning: m.Reasoning, CallID: m.CallID, Name: m.Name}
	switch m.Role {
	case trajectory.System, trajectory.User, trajectory.Assistant, trajectory.Tool:
	default:
		return x, fmt.Errorf("role %q: want system, user, assistant or tool", m.Role)
	}
	var plain *string
	var parts []part
	if len(m.Content) > 0 && json.Unmarshal(m.Content, &plain) != nil {
		if err := json.Unmarshal(m.Content, &parts); err != nil {
			return x, fmt.Errorf("content: want text or a list of parts: %w", err)
		}
	}
	if plain != nil && *plain != "" {
		x.Parts = trajectory.Text(m.Role, *plain).Parts
	}
	for _, p := range parts {
		switch {
		case p.Type == "text":
			x.Parts = append(x.Parts, trajectory.Part{Kind: trajectory.PartText, Text: p.Text})
		case p.Type == "image_url" && p.Image != nil:
			x.Parts = append(x.Parts, trajectory.Part{Kind: trajectory.PartImage, URL: p.Image.URL})
		default:
			return x, fmt.Errorf("part of the type %q: want text or image_url", p.Type)
		}
	}
	for _, c := range m.Calls {
		args := string(c.Function.Arguments)
		if json.Unmarshal(c.Function.Arguments, &plain) == nil && plain != nil {
			args = *plain
		}
		if c.Function.Name == "" {
			return x, fmt.Errorf("a tool call without a name")
		}
		x.Calls = append(x.Calls, trajectory.Call{ID: c.ID, Name: c.Function.Name, Arguments: args})
	}
	return x, nil
}
