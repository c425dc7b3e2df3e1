package trajectory

import "slices"

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
