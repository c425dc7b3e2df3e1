package slotd

import "hermes/backends"

// ReportPath is what a command finds in its variable: whoever opens it opens its own
// descriptor ReportFD.
const (
	ReportPath = "/proc/self/fd/3"
	ReportFD   = 3
)

// endLeft ends what a command left running, and counts it.
func endLeft(r *backends.Result, t *task) {
	tr := t.tree()
	if r.Left = len(tr.members()); r.Left > 0 || tr.unsure > 0 {
		tr.kill()
	}
}

// endOthers ends what the box's commands have left running, and says how many processes
// that were.
func (h *Host) endOthers() int {
	h.mu.Lock()
	running := make([]*task, 0, len(h.tasks))
	for t := range h.tasks {
		running = append(running, t)
	}
	h.mu.Unlock()
	w := &wipe{h: h}
	w.done.Killed = len(h.marked().members())
	h.killBox(running)
	if h.opt.Private {
		w.others()
	}
	return w.done.Killed
}
