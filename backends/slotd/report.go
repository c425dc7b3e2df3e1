package slotd

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"hermes/backends"
)

// ReportPath is what a command finds in its variable: whoever opens it opens descriptor
// ReportFD of its own.
const (
	ReportPath = "/proc/self/fd/3"
	ReportFD   = 3
)

// ReportFile makes the file of a command's own that lies in no folder. It is for drivers that
// start commands themselves.
func ReportFile() (*os.File, error) {
	fd, err := unix.MemfdCreate("report", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("make the file of a report: %w", err)
	}
	return os.NewFile(uintptr(fd), "report"), nil
}

// ReadReport is what stands in such a file, at most one byte more than it may hold; nil where
// there is nothing.
func ReadReport(f *os.File) []byte {
	text := make([]byte, backends.MaxReport+1)
	n, _ := f.ReadAt(text, 0) // its end is an error too
	if n == 0 {
		return nil
	}
	return text[:n]
}

// report is the file of a command's own. The zero value is none.
type report struct{ file *os.File }

// newReport makes the file that a command asks for.
func newReport(c backends.Cmd) (report, error) {
	if c.Report == "" {
		return report{}, nil
	}
	f, err := ReportFile()
	return report{f}, err
}

// fill ends what the command left running and reads what was reported.
func (p report) fill(r *backends.Result, t *task) {
	if p.file == nil {
		return
	}
	tr := t.tree()
	if r.Left = len(tr.members()); r.Left > 0 || tr.unsure > 0 {
		tr.kill()
	}
	r.Report = ReadReport(p.file)
}

func (p report) close() {
	if p.file != nil {
		p.file.Close()
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
	prefix := h.id + ":"
	tr := &tree{since: h.began, known: map[int]uint64{}, match: func(m string) bool { return len(m) > len(prefix) && m[:len(prefix)] == prefix }}
	w.done.Killed = len(tr.members())
	h.killBox(running)
	if h.opt.Private {
		w.others()
	}
	return w.done.Killed
}
