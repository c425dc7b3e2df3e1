package chat

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"hermes/rollout/policy/loose"
)

// flat reads text: a string, null, or a list of texts and of parts with text. Parts of
// reasoning among them (Mistral, Anthropic) are inner.
func flat(raw json.RawMessage) (text, inner string, err error) {
	if !loose.Present(raw) {
		return "", "", nil
	}
	if raw[0] == '"' {
		return loose.Unquote(raw), "", nil
	}
	if raw[0] == '{' {
		raw = slices.Concat([]byte{'['}, raw, []byte{']'})
	}
	var list []json.RawMessage
	if err := json.Unmarshal(raw, &list); err != nil {
		return "", "", err
	}
	for _, p := range list {
		if len(p) > 0 && p[0] == '"' {
			text += loose.Unquote(p)
			continue
		}
		var part contentPart
		if err := json.Unmarshal(p, &part); err != nil {
			return "", "", err
		}
		outer, thought, err := part.read()
		if err != nil {
			return "", "", err
		}
		text, inner = text+outer, inner+thought
	}
	return text, inner, nil
}

// contentPart is a part of a content. What it says is in a member that its type names, or
// in text, content or value.
type contentPart struct {
	Type      loose.Label     `json:"type"`
	Text      partText        `json:"text"`
	Refusal   loose.Label     `json:"refusal"`
	Thinking  json.RawMessage `json:"thinking"`
	Reasoning json.RawMessage `json:"reasoning"`
	Reasons   json.RawMessage `json:"reasoning_content"`
	Summary   json.RawMessage `json:"summary"`
	Content   json.RawMessage `json:"content"`
	Value     loose.Label     `json:"value"`
	Thought   json.RawMessage `json:"thought"` // Gemini: true for reasoning
}

// read gives the text of a part, and its reasoning.
func (p *contentPart) read() (text, inner string, err error) {
	for _, raw := range []json.RawMessage{p.Thinking, p.Reasoning, p.Reasons, p.Summary} {
		thought, more, err := flat(raw)
		if err != nil {
			return "", "", err
		}
		inner = thought + more
		if inner != "" {
			break
		}
	}
	kind := strings.ToLower(string(p.Type))
	text = string(p.Text)
	if text == "" && !strings.HasPrefix(kind, "tool") { // a tool's result is no text of the model
		more, thought, err := flat(p.Content)
		if err != nil {
			return "", "", err
		}
		text, inner = more, inner+thought
	}
	if text == "" {
		text = string(p.Value)
	}
	thinks := strings.HasPrefix(kind, "reasoning") || strings.HasPrefix(kind, "thinking") || kind == "thought" || string(p.Thought) == "true"
	if thinks && inner == "" {
		return string(p.Refusal), text, nil
	}
	if thinks {
		text = ""
	}
	return text + string(p.Refusal), inner, nil
}

// partText is the text of a part: a text, or an object with the text as its value.
type partText string

// UnmarshalJSON reads it.
func (t *partText) UnmarshalJSON(raw []byte) error {
	if len(raw) > 0 && raw[0] == '{' {
		var o struct {
			Value *loose.Label `json:"value"`
		}
		if err := json.Unmarshal(raw, &o); err != nil {
			return err
		}
		if o.Value == nil {
			return errors.New("the text of a part is an object without a value")
		}
		*t = partText(*o.Value)
		return nil
	}
	s, err := loose.Text(raw)
	*t = partText(s)
	return err
}

// listOf is a list of reasoning details: an object is a list of one, what is neither is none.
func listOf(raw json.RawMessage) json.RawMessage {
	switch {
	case !loose.Present(raw):
		return nil
	case raw[0] == '[':
		return raw
	case raw[0] == '{' && len(raw) > 2:
		return slices.Concat([]byte{'['}, raw, []byte{']'})
	}
	return nil
}

// detail keeps reasoning_details, joining pieces that belong together, and returns
// their text.
func (a *answer) detail(raw json.RawMessage) (string, error) {
	var list []map[string]json.RawMessage
	if err := json.Unmarshal(raw, &list); err != nil {
		return "", err
	}
	var text strings.Builder
	for _, d := range list {
		for _, k := range []string{"text", "summary"} {
			if v := d[k]; len(v) > 0 && v[0] == '"' {
				text.WriteString(loose.Unquote(v))
			}
		}
		if n := len(a.details); n > 0 && loose.Present(d["index"]) && bytes.Equal(a.details[n-1]["index"], d["index"]) && bytes.Equal(a.details[n-1]["type"], d["type"]) {
			join(a.details[n-1], d)
			continue
		}
		a.details = append(a.details, d)
	}
	return text.String(), nil
}

func join(to, from map[string]json.RawMessage) {
	for k, v := range from {
		if had := to[k]; (k == "text" || k == "summary" || k == "data") && len(v) > 0 && v[0] == '"' && len(had) > 0 && had[0] == '"' {
			v = slices.Concat(had[:len(had)-1], v[1:]) // as it is spelled: halves of a character find each other
		}
		if loose.Present(v) || !loose.Present(to[k]) {
			to[k] = v
		}
	}
}
