package chat

import (
	"encoding/json"
	"errors"

	"hermes/rollout/policy/servers"
)

// looseReply is a reply whose books or calls are not of the types that they should be.
type looseReply struct {
	reply
	Usage   json.RawMessage `json:"usage"`
	Choices []struct {
		choice
		Message *looseSaid `json:"message"`
		Delta   *looseSaid `json:"delta"`
	} `json:"choices"`
}

type looseSaid struct {
	said
	Calls json.RawMessage `json:"tool_calls"`
}

func (s *looseSaid) plain() (*said, error) {
	if s == nil {
		return nil, nil
	}
	var err error
	s.said.Calls, err = readCalls(s.Calls)
	return &s.said, err
}

// readReply reads a document: at once, or where that fails, what can be read of it.
func readReply(raw []byte) (reply, error) {
	var r reply
	if json.Unmarshal(raw, &r) == nil {
		return r, nil
	}
	var l looseReply
	if err := json.Unmarshal(raw, &l); err != nil {
		return r, err
	}
	r = l.reply
	r.Usage, r.Choices = servers.ReadUsage(l.Usage), nil
	for _, c := range l.Choices {
		var errs [2]error
		c.choice.Message, errs[0] = c.Message.plain()
		c.choice.Delta, errs[1] = c.Delta.plain()
		if err := errors.Join(errs[:]...); err != nil {
			return r, err
		}
		r.Choices = append(r.Choices, c.choice)
	}
	return r, nil
}
