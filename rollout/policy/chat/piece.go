package chat

import (
	"encoding/json"

	"hermes/rollout/policy/scan"
	"hermes/rollout/policy/servers"
)

// scanReply reads a document of the usual form in one pass and without reflection: it
// runs once for each piece of a stream. ok is false where the document is anything else,
// which is left to encoding/json; FuzzScanReply holds both to the same values. What is
// read shares the memory of raw, so calls with members that are kept unchanged are not ok.
func scanReply(raw []byte) (r reply, ok bool) {
	s := scan.New(raw)
	ok = s.Object(replyKeys[:], func(i int) bool {
		if i == 1 {
			if s.Null() {
				return true
			}
			r.Choices = make([]choice, 0, 1)
			return s.List(func() bool {
				r.Choices = append(r.Choices, choice{})
				return scanChoice(&s, &r.Choices[len(r.Choices)-1])
			})
		}
		v, ok := s.Raw()
		if !ok {
			return false
		}
		switch i {
		case 0:
			return r.Model.UnmarshalJSON(v) == nil
		case 2:
			if string(v) == "null" {
				return true
			}
			r.Usage = new(servers.Usage)
			return json.Unmarshal(v, r.Usage) == nil
		case 3:
			r.Error = v
		case 4:
			r.Groq = v
		}
		return true
	})
	return r, ok && s.End()
}

// The keys of the structs of a reply, in the order of their fields.
var (
	replyKeys  = [...]string{"model", "choices", "usage", "error", "x_groq"}
	choiceKeys = [...]string{"index", "message", "delta", "text", "finish_reason", "native_finish_reason", "error", "usage", "tool_calls"}
	saidKeys   = [...]string{"content", "refusal", "reasoning_content", "reasoning", "reasoning_details", "tool_calls", "function_call"}
	callKeys   = [...]string{"index", "id", "function", "custom", "extra_content", "name", "arguments", "parameters", "input", "args", "tool_name"}
)

func scanChoice(s *scan.Scanner, c *choice) bool {
	return s.Object(choiceKeys[:], func(i int) bool {
		if i == 1 || i == 2 {
			if s.Null() {
				return true
			}
			to := new(said)
			if i == 1 {
				c.Message = to
			} else {
				c.Delta = to
			}
			return scanSaid(s, to)
		}
		v, ok := s.Raw()
		if !ok {
			return false
		}
		switch i {
		case 0:
			return c.Index.UnmarshalJSON(v) == nil
		case 3:
			c.Text = v
		case 4: // null in all pieces but one
			return string(v) == "null" || c.Finish.UnmarshalJSON(v) == nil
		case 5:
			return string(v) == "null" || c.Native.UnmarshalJSON(v) == nil
		case 6:
			c.Error = v
		case 7:
			c.Usage = v
		case 8:
			c.Calls = v
		}
		return true
	})
}

func scanSaid(s *scan.Scanner, to *said) bool {
	return s.Object(saidKeys[:], func(i int) bool {
		if i == 5 {
			if s.Null() {
				return true
			}
			to.Calls = make([]called, 0, 1)
			return s.List(func() bool {
				to.Calls = append(to.Calls, called{})
				return scanCall(s, &to.Calls[len(to.Calls)-1])
			})
		}
		v, ok := s.Raw()
		if !ok || i == 6 && string(v) != "null" { // the older form
			return false
		}
		switch i {
		case 0:
			to.Content = v
		case 1:
			to.Refusal = v
		case 2:
			to.ReasoningContent = v
		case 3:
			to.Reasoning = v
		case 4:
			to.Details = v
		}
		return true
	})
}

func scanCall(s *scan.Scanner, c *called) bool {
	return s.Object(callKeys[:], func(i int) bool {
		if i == 2 {
			if s.Null() {
				return true
			}
			c.Function = new(function)
			return s.Object(callKeys[5:], func(i int) bool {
				v, ok := s.Raw()
				if i == 1 {
					c.Function.Arguments = v
					return ok
				}
				return ok && i == 0 && c.Function.Name.UnmarshalJSON(v) == nil
			})
		}
		v, ok := s.Raw()
		switch i {
		case 0:
			return ok && c.Index.UnmarshalJSON(v) == nil
		case 1:
			return ok && c.ID.UnmarshalJSON(v) == nil
		}
		return false
	})
}
