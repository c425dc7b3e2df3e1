package host

import (
	"context"
	"os"
	"os/signal"
	"unsafe"

	"golang.org/x/sys/unix"
)

// child is the part of siginfo_t that waitid fills, as 64-bit Linux lays it out.
type child struct {
	_   [4]int32
	PID int32
	_   [27]int32
}

// reap collects orphans that fell to this process. It peeks first and leaves alone
// the commands themselves, which await collects.
func (h *Host) reap(ctx context.Context) {
	news := make(chan os.Signal, 1)
	signal.Notify(news, unix.SIGCHLD)
	defer signal.Stop(news)
	for {
		for h.reapOne() {
		}
		select {
		case <-news:
		case <-ctx.Done():
			return
		}
	}
}

// reapOne collects one orphan. When the next one to be collected is a command, it
// waits for await to do it.
func (h *Host) reapOne() bool {
	h.mu.Lock()
	var info child
	err := unix.Waitid(unix.P_ALL, 0, (*unix.Siginfo)(unsafe.Pointer(&info)), unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil)
	if err != nil || info.PID == 0 {
		h.mu.Unlock()
		return false
	}
	for t := range h.tasks {
		if t.pid == int(info.PID) {
			h.mu.Unlock()
			<-t.done
			return true
		}
	}
	unix.Wait4(int(info.PID), nil, unix.WNOHANG, nil)
	h.mu.Unlock()
	return true
}
