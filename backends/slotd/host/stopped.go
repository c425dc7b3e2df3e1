//go:build linux

package host

import (
	"errors"
	"os"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"hermes/backends/slotd/procs"
)

// A process that is being started is ours, and yet other commands of the box may stop it: it
// has their user already. The start waits for it, and no other call is answered meanwhile.

// How long a start may take before it is looked at, how often then, and how many looks a
// process is given to go on before it is ended. Under ptrace it cannot be made to go on.
const (
	stuckAfter = 200 * time.Millisecond
	stuckEvery = 20 * time.Millisecond
	stuckLooks = 25
)

// startTries is how often a command is started whose process was ended before it was one.
const startTries = 5

// errNoCommand says that a process has ended before it became a command. Nothing of it ran.
var errNoCommand = errors.New("the process ended before it became a command")

// continueStopped keeps processes of ours that are being started from staying stopped, until stop
// is called.
func continueStopped() (stop func()) {
	done := make(chan struct{})
	var looking sync.WaitGroup
	looking.Add(1)
	timer := time.AfterFunc(stuckAfter, func() {
		defer looking.Done()
		tick := time.NewTicker(stuckEvery)
		defer tick.Stop()
		for n := 0; ; n++ {
			if n < stuckLooks {
				signalStopped(unix.SIGCONT)
			} else {
				signalStopped(unix.SIGKILL)
			}
			select {
			case <-done:
				return
			case <-tick.C:
			}
		}
	})
	return func() {
		close(done)
		if timer.Stop() {
			return
		}
		looking.Wait()
	}
}

// signalStopped signals children that are stopped and execute this very program still.
func signalStopped(s syscall.Signal) {
	own, err := os.Stat("/proc/self/exe")
	if err != nil {
		return
	}
	for _, e := range procs.List(0) {
		if e.Ppid != os.Getpid() || e.State != 'T' && e.State != 't' {
			continue
		}
		if of, err := os.Stat("/proc/" + strconv.Itoa(e.PID) + "/exe"); err == nil && os.SameFile(own, of) {
			unix.Kill(e.PID, s) // not collected before its start is over: the number is its own
		}
	}
}
