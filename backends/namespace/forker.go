//go:build linux

package namespace

import (
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"syscall"

	"hermes/backends/namespace/pid1"
	"hermes/backends/slotd/program"
	"hermes/backends/slotd/wire"
)

// forker is the helper that clones boxes (see [pid1]): the small slotd where it is built
// in, else again this program. It is started at the first need, and again when it is gone.
type forker struct {
	program string // path of the small slotd; empty: the one that is built in
	mu      sync.Mutex
	file    *os.File // what it and the servers in boxes are executed from; nil before the first start
	helper  *pid1.Helper
	conn    *net.UnixConn
	proc    *os.Process
}

// clone makes pid 1 of a box, whose end of a socket pair is theirs, of a user to whom the kernel
// counts it; 0 is our own.
func (f *forker) clone(owner int, ours *net.UnixConn, theirs *os.File, group *os.File) (*os.Process, *pid1.Conn, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for try := 0; ; try++ {
		if f.helper == nil {
			if err := f.start(); err != nil {
				return nil, nil, fmt.Errorf("start the helper that clones boxes: %w", err)
			}
		}
		pid, refused, broken := f.helper.Fork(namespaces, owner, theirs, group)
		switch {
		case refused != nil:
			return nil, nil, fmt.Errorf("clone a process with its own namespaces: %w", refused)
		case broken == nil:
			proc, err := os.FindProcess(pid)
			if err != nil {
				return nil, nil, err
			}
			return proc, f.helper.Conn(ours), nil
		}
		f.stop()
		if try > 0 {
			return nil, nil, fmt.Errorf("ask the helper that clones boxes: %w", broken)
		}
	}
}

// start starts the helper. It gets no new user namespace here: so Go can use vfork.
func (f *forker) start() error {
	ours, theirs, err := wire.Pair()
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
	attr := &os.ProcAttr{Dir: "/", Env: boxEnv, Files: []*os.File{null, null, null, theirs}, Sys: &syscall.SysProcAttr{Setsid: true}}
	f.proc, err = f.execute(attr)
	if err != nil {
		ours.Close()
		return err
	}
	f.conn = ours
	f.helper, err = pid1.NewHelper(ours)
	if err != nil {
		f.stop()
		return fmt.Errorf("it says nothing (does the program call namespace.Main first?): %w", err)
	}
	return nil
}

// execute starts the helper from the small slotd, or from this program where that is not
// built in, or this machine runs nothing from memory.
func (f *forker) execute(attr *os.ProcAttr) (*os.Process, error) {
	from := func(file *os.File) (*os.Process, error) {
		return os.StartProcess(fmt.Sprintf("/proc/self/fd/%d", file.Fd()), []string{wire.Name, forkCommand}, attr)
	}
	if f.file != nil {
		return from(f.file)
	}
	var errs []error
	for _, open := range []func() (*os.File, error){f.small, func() (*os.File, error) { return os.Open("/proc/self/exe") }} {
		file, err := open()
		if err == nil {
			var proc *os.Process
			proc, err = from(file)
			if err == nil {
				f.file = file
				return proc, nil
			}
			file.Close()
		}
		errs = append(errs, err)
	}
	return nil, errors.Join(errs...)
}

// small opens the small slotd.
func (f *forker) small() (*os.File, error) {
	if f.program != "" {
		return os.Open(f.program)
	}
	return program.Open()
}

// stop ends the helper.
func (f *forker) stop() {
	if f.conn == nil {
		return
	}
	f.proc.Kill() // first: at the end of its socket it would end all boxes, as when we die
	f.proc.Wait()
	f.conn.Close()
	f.conn, f.helper = nil, nil
}

// close ends the helper for good.
func (f *forker) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.stop()
	if f.file != nil {
		f.file.Close()
		f.file = nil
	}
}
