package slotd

import (
	"fmt"
	"os"
	"runtime"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// spawner starts processes. With a hook, all of them start from one OS thread.
type spawner struct {
	work chan func()
	done sync.WaitGroup
	mu   sync.RWMutex
	shut bool
}

// newSpawner runs the hook, if any, on a thread of its own and keeps that thread.
func newSpawner(hook func() error) (*spawner, error) {
	s := &spawner{}
	if hook == nil {
		return s, nil
	}
	s.work = make(chan func())
	ready := make(chan error)
	s.done.Go(func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		err := hook()
		ready <- err
		if err != nil {
			return
		}
		for f := range s.work {
			f()
		}
	})
	return s, <-ready
}

// start starts a process whose limits hold before its first instruction.
func (s *spawner) start(prog string, argv []string, attr *os.ProcAttr, limits []Rlimit) (p *os.Process, err error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.shut {
		return nil, os.ErrClosed
	}
	if s.work == nil {
		return startLimited(prog, argv, attr, limits)
	}
	done := make(chan struct{})
	s.work <- func() {
		defer close(done)
		p, err = startLimited(prog, argv, attr, limits)
	}
	<-done
	return p, err
}

// close ends the thread.
func (s *spawner) close() {
	s.mu.Lock()
	if !s.shut && s.work != nil {
		close(s.work)
	}
	s.shut = true
	s.mu.Unlock()
	s.done.Wait()
}

// startLimited holds the new process at its exec with ptrace, sets the limits from
// outside, checks them and lets it go. So there is no moment in which the command runs
// without them, and no intermediate program is needed.
func startLimited(prog string, argv []string, attr *os.ProcAttr, limits []Rlimit) (*os.Process, error) {
	if len(limits) == 0 {
		return os.StartProcess(prog, argv, attr)
	}
	runtime.LockOSThread() // ptrace belongs to the thread
	defer runtime.UnlockOSThread()
	attr.Sys.Ptrace = true
	p, err := os.StartProcess(prog, argv, attr)
	if err != nil {
		return nil, err
	}
	if err := limitStopped(p.Pid, limits); err != nil {
		p.Kill()
		syscall.PtraceDetach(p.Pid)
		p.Wait()
		return nil, fmt.Errorf("limit process %d: %w", p.Pid, err)
	}
	return p, nil
}

// limitStopped waits for the stop at exec, sets the limits and detaches.
func limitStopped(pid int, limits []Rlimit) error {
	var ws syscall.WaitStatus
	for {
		_, err := syscall.Wait4(pid, &ws, syscall.WALL, nil)
		if err == syscall.EINTR {
			continue
		}
		if err != nil {
			return fmt.Errorf("wait for its exec: %w", err)
		}
		break
	}
	if !ws.Stopped() {
		return fmt.Errorf("it ended before its exec (status %#x)", uint32(ws))
	}
	for _, l := range limits {
		want := unix.Rlimit{Cur: l.Value, Max: l.Value}
		var old unix.Rlimit
		if err := unix.Prlimit(pid, l.Resource, nil, &old); err != nil {
			return fmt.Errorf("read limit %d: %w", l.Resource, err)
		}
		if old.Max < want.Max { // never more than the host itself may
			want = unix.Rlimit{Cur: old.Max, Max: old.Max}
		}
		if err := unix.Prlimit(pid, l.Resource, &want, nil); err != nil {
			return fmt.Errorf("set limit %d to %d: %w", l.Resource, l.Value, err)
		}
	}
	return syscall.PtraceDetach(pid)
}
