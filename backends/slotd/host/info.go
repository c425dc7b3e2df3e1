package host

import (
	"os"
	"runtime"

	"hermes/backends/slotd/wire"
)

// Info tells about the host.
func (h *Host) Info() wire.Info {
	i := wire.Info{ID: h.id, Dir: h.dir, Home: h.opt.Home, UID: os.Geteuid(), Arch: runtime.GOARCH, CPUs: runtime.NumCPU(), OOM: -1, Version: runtime.Version()}
	if u := h.opt.User; u != nil {
		i.UID = int(u.UID)
	}
	if h.opt.OOM != nil {
		i.OOM = h.opt.OOM()
	}
	_, err := os.Stat("/dev/ptmx")
	i.PTY = err == nil
	return i
}
