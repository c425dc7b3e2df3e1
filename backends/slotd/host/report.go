//go:build linux

package host

import (
	"hermes/backends"
)

// endLeft ends what a command left running, and counts it.
func endLeft(r *backends.Result, t *Task) {
	tr := t.tree()
	members := len(tr.Members())
	if members > 0 || tr.Unsure > 0 {
		tr.Kill()
		r.Left = max(members, tr.Killed)
	}
}

// endOthers ends what the box's commands have left running, and says how many processes
// that were.
func (h *Host) endOthers() int {
	h.mu.Lock()
	running := make([]*Task, 0, len(h.tasks))
	for t := range h.tasks {
		running = append(running, t)
	}
	h.mu.Unlock()
	w := &wipe{h: h}
	_, w.done.Killed = h.killBox(running)
	if h.opt.Private {
		w.others()
	}
	return w.done.Killed
}
