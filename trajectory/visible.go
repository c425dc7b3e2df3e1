package trajectory

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
)

// Visible returns the messages from the root to the head and those that no model has
// answered, without what is ephemeral: what text exports may show.
func (t *Trace) Visible() []Message {
	if t == nil {
		return nil
	}
	list := slices.Collect(t.Prefix().Messages())
	list = append(list, t.Pending...)
	list = slices.DeleteFunc(list, func(m Message) bool { return m.Ephemeral })
	for i := range list {
		if hidden := func(p Part) bool { return p.Ephemeral }; slices.ContainsFunc(list[i].Parts, hidden) {
			list[i].Parts = slices.DeleteFunc(slices.Clone(list[i].Parts), hidden)
		}
	}
	return list
}

// VisibleFaults returns the faults of each message that [Trace.Visible] gives, by its
// place there; nil where no answer has any.
func (t *Trace) VisibleFaults() map[int][]Fault {
	if t == nil {
		return nil
	}
	var out map[int][]Fault
	place := 0
	for _, id := range t.path(t.Head) {
		n := &t.Nodes[id]
		if n.Delta.Message.Ephemeral {
			continue
		}
		if len(n.Faults) > 0 {
			if out == nil {
				out = map[int][]Fault{}
			}
			out[place] = n.Faults
		}
		place++
	}
	return out
}

// Digest is the SHA-256 of the visible conversation: of all that [Trace.Visible] gives, in
// JSON, but without what differs between two runs of the same conversation: ids of calls
// count in the order in which they appear; the opaque state of a provider, and how sure a
// reader was of a call, are left out.
func (t *Trace) Digest() [32]byte {
	list := t.Visible()
	names := map[string]string{}
	number := func(id string) string {
		if _, ok := names[id]; !ok {
			names[id] = strconv.Itoa(len(names))
		}
		return names[id]
	}
	for i := range list {
		m := &list[i]
		m.Opaque = nil
		m.Calls = slices.Clone(m.Calls)
		for c := range m.Calls {
			m.Calls[c].ID, m.Calls[c].State = number(m.Calls[c].ID), CallComplete
		}
		if m.Role == Tool {
			m.CallID = number(m.CallID)
		}
	}
	b, err := json.Marshal(list)
	if err != nil {
		panic(fmt.Sprintf("messages without raw JSON were not encoded: %v", err)) // texts, numbers, nothing else
	}
	return sha256.Sum256(b)
}

// Turns is the number of answers of a model on the path to the head.
func (t *Trace) Turns() int {
	if t == nil {
		return 0
	}
	n := 0
	for _, id := range t.path(t.Head) {
		if t.Nodes[id].Sampled() {
			n++
		}
	}
	return n
}
