package exact

import (
	"hermes/rollout/policy/wire"
	"hermes/trajectory"
)

// leaked says whether a message that was decoded from tokens holds a key of ours.
func leaked(l *wire.Leaks, m trajectory.Message) error {
	if l == nil {
		return nil
	}
	texts := []string{m.Content(), m.Reasoning}
	for _, c := range m.Calls {
		texts = append(texts, c.Name, c.Arguments)
	}
	return l.Check(texts...)
}
