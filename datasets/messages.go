package datasets

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"hermes/datasets/scan"
	"hermes/trajectory"
)

// conversation decodes a task: text, a list of messages {role, content}, a ShareGPT
// list {from, value}, or (nested) one of these lists as JSON text.
func conversation(v []byte, text bool) ([]trajectory.Message, error) {
	switch k := scan.Kind(v); {
	case k == "text" && text:
		s, err := scan.Unquote(v)
		if err != nil {
			return nil, err
		}
		if list, ok := listText(s); ok {
			return conversation(list, false)
		}
		return userText(s)
	case k != "a list":
		return nil, fmt.Errorf("%s, want text or a list of messages", k)
	}
	items, err := scan.Array(v, nil)
	if err != nil {
		return nil, err
	}
	out := make([]trajectory.Message, 0, len(items))
	for i, item := range items {
		m, err := message(item)
		if err != nil {
			return nil, fmt.Errorf("message %d: %w", i, err)
		}
		out = append(out, m)
	}
	return out, nil
}

// listText tells whether a table cell holds a list of messages as JSON text.
func listText(s string) ([]byte, bool) {
	if !strings.HasPrefix(s, "[{") || !strings.HasSuffix(s, "}]") {
		return nil, false
	}
	items, err := scan.Array([]byte(s), nil)
	if err != nil {
		return nil, false
	}
	for _, item := range items {
		fields, err := scan.Object(item, nil, nil)
		if err != nil || reach(fields, "role") == nil && reach(fields, "from") == nil {
			return nil, false
		}
	}
	return []byte(s), true
}

// opening cuts a conversation behind its last human turn: what a model is asked. A
// tool's result at the very end is kept, since a model answers that as well.
func opening(all []trajectory.Message) ([]trajectory.Message, error) {
	n := len(all)
	if n > 0 && all[n-1].Role != trajectory.Tool {
		for n > 0 && all[n-1].Role != trajectory.User {
			n--
		}
	}
	human := false
	for _, m := range all[:n] {
		human = human || m.Role == trajectory.User
		for _, p := range m.Parts {
			if strings.IndexByte(p.Text, 0) >= 0 {
				return nil, errors.New("the task holds a NUL character")
			}
		}
	}
	if !human {
		return nil, errors.New("the task is empty: no user message")
	}
	if last := all[n-1]; last.Role == trajectory.User && blank(last) {
		return nil, errors.New("the task is empty: the last user message says nothing")
	}
	return all[:n:n], nil
}

func blank(m trajectory.Message) bool {
	return !slices.ContainsFunc(m.Parts, func(p trajectory.Part) bool {
		return p.Kind != trajectory.PartText || strings.TrimSpace(p.Text) != ""
	})
}

// role maps the names in use to ours.
func role(name string) (trajectory.Role, error) {
	switch name {
	case "user", "human":
		return trajectory.User, nil
	case "assistant", "gpt", "model", "chatgpt", "bot", "function_call":
		return trajectory.Assistant, nil
	case "system", "developer":
		return trajectory.System, nil
	case "tool", "function", "observation", "function_response", "ipython":
		return trajectory.Tool, nil
	}
	return "", fmt.Errorf("unknown role %q (have system, user, assistant, tool; human, gpt, function_call, observation)", name)
}

// message decodes one entry of a conversation.
func message(v []byte) (trajectory.Message, error) {
	var room [8]scan.Field
	fields, err := scan.Object(v, room[:0], intern)
	if err != nil {
		return trajectory.Message{}, err
	}
	name, err := roleName(fields)
	if err != nil {
		return trajectory.Message{}, err
	}
	m := trajectory.Message{}
	m.Role, err = role(name)
	if err != nil {
		return m, err
	}
	for _, f := range fields {
		if scan.Null(f.Value) {
			continue
		}
		if err := messageField(&m, name, f); err != nil {
			return m, fmt.Errorf("%s: %w", f.Key, err)
		}
	}
	return m, nil
}

func roleName(fields []scan.Field) (string, error) {
	for _, key := range []string{"role", "from"} {
		for _, f := range fields {
			if f.Key == key && !scan.Null(f.Value) {
				name, err := scan.Unquote(f.Value)
				return name, wrapKey(key, err)
			}
		}
	}
	return "", errors.New("no role")
}

func messageField(m *trajectory.Message, from string, f scan.Field) (err error) {
	switch f.Key {
	case "content", "value":
		if from == "function_call" {
			c, err := callText(f.Value)
			m.Calls = append(m.Calls, c)
			return err
		}
		return content(m, f.Value)
	case "reasoning_content", "reasoning":
		if scan.Kind(f.Value) == "text" {
			m.Reasoning, err = scan.Unquote(f.Value)
		}
		return err
	case "tool_calls":
		return toolCalls(m, f.Value)
	case "function_call":
		c, err := call(f.Value)
		m.Calls = append(m.Calls, c)
		return err
	case "tool_call_id":
		m.CallID, err = scan.Unquote(f.Value)
		return err
	case "name":
		m.Name, err = scan.Unquote(f.Value)
		return err
	}
	return nil // loss weights, masks and the like
}

func toolCalls(m *trajectory.Message, v []byte) error {
	items, err := scan.Array(v, nil)
	if err != nil {
		return err
	}
	for i, item := range items {
		c, err := call(item)
		if err != nil {
			return fmt.Errorf("call %d: %w", i, err)
		}
		m.Calls = append(m.Calls, c)
	}
	return nil
}

// callText reads a call that is as JSON text {"name", "arguments"}.
func callText(v []byte) (trajectory.Call, error) {
	if scan.Kind(v) != "text" {
		return call(v)
	}
	s, err := scan.Unquote(v)
	if err != nil {
		return trajectory.Call{}, err
	}
	return call([]byte(s))
}

// call reads {"name", "arguments"} or {"id", "function": {…}}; arguments may be an
// object or the text of one.
func call(v []byte) (trajectory.Call, error) {
	var c trajectory.Call
	fields, err := scan.Object(v, nil, nil)
	if err != nil {
		return c, err
	}
	for _, f := range fields {
		switch {
		case scan.Null(f.Value):
		case f.Key == "id" && scan.Kind(f.Value) == "text":
			c.ID, err = scan.Unquote(f.Value)
		case f.Key == "function" && scan.Kind(f.Value) == "an object":
			id := c.ID
			c, err = call(f.Value)
			c.ID = cmp.Or(c.ID, id)
		case f.Key == "name":
			c.Name, err = scan.Unquote(f.Value)
		case f.Key == "arguments" || f.Key == "parameters" && c.Arguments == "":
			c.Arguments = string(f.Value)
			if scan.Kind(f.Value) == "text" {
				c.Arguments, err = scan.Unquote(f.Value)
			}
		}
		if err != nil {
			return c, fmt.Errorf("%s: %w", f.Key, err)
		}
	}
	if c.Name == "" {
		return c, errors.New("a tool call without name")
	}
	return c, nil
}

// content reads text, or a list of parts.
func content(m *trajectory.Message, v []byte) error {
	switch k := scan.Kind(v); k {
	case "text":
		s, err := scan.Unquote(v)
		if s != "" {
			m.Parts = append(m.Parts, trajectory.Part{Kind: trajectory.PartText, Text: s})
		}
		return err
	case "a list":
	case "an object": // a tool's result as an object
		if m.Role == trajectory.Tool {
			m.Parts = append(m.Parts, trajectory.Part{Kind: trajectory.PartText, Text: string(v)})
			return nil
		}
		return part(m, v)
	default:
		return fmt.Errorf("%s, want text or a list of parts", k)
	}
	items, err := scan.Array(v, nil)
	if err != nil {
		return err
	}
	for i, item := range items {
		if scan.Kind(item) == "text" {
			err = content(m, item)
		} else {
			err = part(m, item)
		}
		if err != nil {
			return fmt.Errorf("part %d: %w", i, err)
		}
	}
	return nil
}

// part reads one entry of a content list.
func part(m *trajectory.Message, v []byte) error {
	fields, err := scan.Object(v, nil, nil)
	if err != nil {
		return err
	}
	kind := ""
	if t := reach(fields, "type"); t != nil && !scan.Null(t) {
		kind, err = scan.Unquote(t)
		if err != nil {
			return wrapKey("type", err)
		}
	}
	body := first(fields, "text", "value", "thinking", "reasoning", "content", kind, "url", "data")
	switch kind {
	case "text", "input_text", "output_text", "":
		if body == nil {
			return errors.New("a text part without text")
		}
		return content(m, body)
	case "reasoning", "thinking":
		if body == nil {
			return nil
		}
		s, err := scan.Unquote(body)
		m.Reasoning += s
		return err
	case "tool_call", "tool_use":
		if body == nil {
			return errors.New("a call without value")
		}
		c, err := callText(body)
		m.Calls = append(m.Calls, c)
		return err
	case "tool_result", "tool_response":
		if body == nil {
			return nil
		}
		return content(m, body)
	case "image", "image_url", "input_image":
		return media(m, trajectory.PartImage, body)
	case "audio", "audio_url", "input_audio":
		return media(m, trajectory.PartAudio, body)
	}
	return fmt.Errorf("unknown type %q", kind)
}

func first(fields []scan.Field, keys ...string) []byte {
	for _, key := range keys {
		if key == "" {
			continue
		}
		if v := reach(fields, key); v != nil && !scan.Null(v) {
			return v
		}
	}
	return nil
}

// media takes an address or a data URL; objects {"url"} and {"data", "format"} too.
func media(m *trajectory.Message, kind trajectory.PartKind, v []byte) error {
	if scan.Kind(v) == "an object" {
		fields, err := scan.Object(v, nil, nil)
		if err != nil {
			return err
		}
		data, format := first(fields, "data"), ""
		if f := first(fields, "format"); f != nil {
			format, err = scan.Unquote(f)
			if err != nil {
				return err
			}
		}
		if u := first(fields, "url"); u != nil {
			return media(m, kind, u)
		}
		if data == nil {
			return fmt.Errorf("an %s without url", kind)
		}
		s, err := scan.Unquote(data)
		mime := string(kind) + "/" + format
		m.Parts = append(m.Parts, trajectory.Part{Kind: kind, URL: "data:" + mime + ";base64," + s, MediaType: mime})
		return err
	}
	if v == nil {
		return fmt.Errorf("an %s without url", kind)
	}
	s, err := scan.Unquote(v)
	if err == nil && s == "" {
		err = fmt.Errorf("an %s without url", kind)
	}
	m.Parts = append(m.Parts, trajectory.Part{Kind: kind, URL: s})
	return err
}
