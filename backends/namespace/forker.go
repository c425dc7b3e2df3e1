package namespace

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"hermes/backends/slotd"
	"hermes/backends/slotd/program"
)

// A new user namespace makes fork copy the page tables of the whole process: 50 ms for
// each gigabyte of heap. So boxes are cloned by a helper that does nothing else: the small
// slotd where it is built in, else again this program. They are children of hermes all the same (CLONE_PARENT).

// forkCommand is the hidden sub-command of the helper.
const forkCommand = "fork"

// order asks the helper for a process. Its control socket, and its cgroup if there is
// one, come as descriptors.
type order struct {
	Attr   syscall.SysProcAttr
	Cgroup bool
}

// forked is the helper's answer.
type forked struct {
	PID   int
	Errno syscall.Errno
	Error string
}

// forker is the host's end of the helper. It is started at the first need, and again
// when it is gone.
type forker struct {
	program string // path of the small slotd; empty: the one that is built in
	mu      sync.Mutex
	conn    *net.UnixConn
	proc    *os.Process
}

// clone starts pid 1 of a box.
func (f *forker) clone(o order, fds []int) (*os.Process, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	raw, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	for try := 0; ; try++ {
		if f.conn == nil {
			if err := f.start(); err != nil {
				return nil, fmt.Errorf("start the helper that clones boxes: %w", err)
			}
		}
		answer, err := f.ask(raw, fds)
		if err == nil {
			return answer.process()
		}
		f.stop()
		if try > 0 {
			return nil, fmt.Errorf("ask the helper that clones boxes: %w", err)
		}
	}
}

// process is the process of an answer.
func (a forked) process() (*os.Process, error) {
	switch {
	case a.Errno != 0:
		return nil, fmt.Errorf("clone a process with its own namespaces: %w", a.Errno)
	case a.Error != "":
		return nil, errors.New("clone a process with its own namespaces: " + a.Error)
	}
	return os.FindProcess(a.PID)
}

// start starts the helper; vfork, as long as it has no user namespace of its own.
func (f *forker) start() error {
	ours, theirs, err := slotd.Pair()
	if err != nil {
		return err
	}
	defer theirs.Close()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		ours.Close()
		return err
	}
	defer null.Close()
	attr := &os.ProcAttr{Dir: "/", Env: []string{}, Files: []*os.File{null, null, null, theirs}, Sys: &syscall.SysProcAttr{Setsid: true}}
	small, err := f.small()
	if err == nil {
		f.proc, err = os.StartProcess(fmt.Sprintf("/proc/self/fd/%d", small.Fd()), []string{slotd.Name, forkCommand}, attr)
		small.Close()
	}
	if err != nil { // not built in, or this machine runs nothing from memory
		f.proc, err = os.StartProcess("/proc/self/exe", []string{slotd.Name, forkCommand}, attr)
	}
	if err != nil {
		ours.Close()
		return err
	}
	f.conn = ours
	return nil
}

// small opens the program of the helper.
func (f *forker) small() (*os.File, error) {
	if f.program != "" {
		return os.Open(f.program)
	}
	return program.Open()
}

// ask sends one order and waits for the answer.
func (f *forker) ask(raw []byte, fds []int) (forked, error) {
	if err := slotd.WriteMessage(f.conn, raw); err != nil {
		return forked{}, err
	}
	for _, fd := range fds {
		if _, _, err := f.conn.WriteMsgUnix([]byte{1}, unix.UnixRights(fd), nil); err != nil {
			return forked{}, err
		}
	}
	var a forked
	answer, err := slotd.ReadMessage(f.conn, 64<<10)
	if err == nil {
		err = json.Unmarshal(answer, &a)
	}
	return a, err
}

// stop ends the helper.
func (f *forker) stop() {
	if f.conn == nil {
		return
	}
	f.conn.Close()
	f.proc.Kill()
	f.proc.Wait()
	f.conn = nil
}

// close ends the helper for good.
func (f *forker) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.stop()
}

// forkServer is the helper: it answers orders until hermes closes the socket or dies.
func forkServer(control slotd.Passed) int {
	if err := closeOthers(-1); err != nil {
		return 1
	}
	for {
		raw, err := slotd.ReadMessage(control, maxFrame)
		if err != nil {
			return 0
		}
		answer, err := fill(control, raw)
		if err != nil {
			return 1
		}
		raw, err = json.Marshal(answer)
		if err != nil || slotd.WriteMessage(control, raw) != nil {
			return 1
		}
	}
}

// boxEnv is the environment of the server in a box, for the Go runtime alone: commands get
// nothing of it. One processor halves its memory and its threads, and a box has no use for more.
// The collector's aim keeps what a server leaves lying below one MiB instead of four. The runtime
// need not look for limits of the cgroup: it would read a dozen files and keep some open.
var boxEnv = []string{"GOMAXPROCS=1", "GOGC=25", "GODEBUG=containermaxprocs=0,updatemaxprocs=0"}

// fill starts what an order asks for. An error means that the socket cannot be used.
func fill(control slotd.Passed, raw []byte) (forked, error) {
	var o order
	if err := json.Unmarshal(raw, &o); err != nil {
		return forked{}, err
	}
	theirs, err := control.Receive()
	if err != nil {
		return forked{}, err
	}
	defer unix.Close(theirs)
	o.Attr.Cloneflags |= syscall.CLONE_PARENT
	if o.Cgroup {
		if o.Attr.CgroupFD, err = control.Receive(); err != nil {
			return forked{}, err
		}
		defer unix.Close(o.Attr.CgroupFD)
		o.Attr.UseCgroupFD = true
	}
	pid, err := syscall.ForkExec("/proc/self/exe", []string{slotd.Name, initCommand}, &syscall.ProcAttr{
		Dir: "/", Env: boxEnv, Files: []uintptr{0, 1, 2, uintptr(theirs)}, Sys: &o.Attr,
	})
	a := forked{PID: pid}
	if err != nil && !errors.As(err, &a.Errno) {
		a.Error = err.Error()
	}
	return a, nil
}
