//go:build linux

package host

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

// newSpawner runs the hook, if any, on a separate thread and keeps that thread.
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
func (s *spawner) start(prog string, argv []string, attr *syscall.ProcAttr, limits []Rlimit) (pid int, err error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.shut {
		return 0, os.ErrClosed
	}
	if s.work == nil {
		return startLimited(prog, argv, attr, limits, limitAll)
	}
	// The thread of the hook may not set limits of others; this one may.
	stopped := make(chan int)
	limited := make(chan error)
	done := make(chan struct{})
	s.work <- func() {
		defer close(done)
		pid, err = startLimited(prog, argv, attr, limits, func(pid int, _ []Rlimit) error {
			stopped <- pid
			return <-limited
		})
	}
	select {
	case child := <-stopped:
		limited <- limitAll(child, limits)
		<-done
	case <-done:
	}
	return pid, err
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

// startLimited holds the new process at its exec with ptrace, has the limits set from
// outside and lets it go. So there is no moment in which the command runs without them, and
// no intermediate program is needed.
func startLimited(prog string, argv []string, attr *syscall.ProcAttr, limits []Rlimit, set func(pid int, all []Rlimit) error) (int, error) {
	if len(limits) == 0 {
		return syscall.ForkExec(prog, argv, attr)
	}
	runtime.LockOSThread() // ptrace belongs to the thread
	defer runtime.UnlockOSThread()
	attr.Sys.Ptrace = true
	pid, err := syscall.ForkExec(prog, argv, attr)
	if err != nil {
		return 0, err
	}
	if err := limitStopped(pid, limits, set); err != nil {
		unix.Kill(pid, unix.SIGKILL) // it is ours and not collected: the number is its own
		syscall.PtraceDetach(pid)
		collect(pid)
		return 0, fmt.Errorf("limit process %d: %w", pid, err)
	}
	return pid, nil
}

// collect waits for the end of a child. Package os would hold it by a descriptor, and make a process
// first to see whether it can.
func collect(pid int) (ws unix.WaitStatus, used unix.Rusage, err error) {
	for {
		if _, err = unix.Wait4(pid, &ws, 0, &used); err != unix.EINTR {
			return ws, used, err
		}
	}
}

// limitStopped waits for the stop at exec, has the limits set and detaches.
func limitStopped(pid int, limits []Rlimit, set func(pid int, all []Rlimit) error) error {
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
		return fmt.Errorf("%w (status %#x)", errNoCommand, uint32(ws))
	}
	if err := set(pid, limits); err != nil {
		return err
	}
	return syscall.PtraceDetach(pid)
}

// limitAll sets limits of a process and checks them.
func limitAll(pid int, limits []Rlimit) error {
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
	return nil
}
