package slotd

import (
	"errors"
	"os"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// A process that is being started is ours, and yet other commands of the box may stop it: it
// has their user already. Whoever starts it waits for it, and nobody else is answered.

// How long a start may take before it is looked at, how often then, and how many looks a
// process is given to go on before it is ended. Under ptrace it cannot be made to go on.
const (
	stuckAfter = 200 * time.Millisecond
	stuckEvery = 20 * time.Millisecond
	stuckLooks = 25
)

// startTries is how often a command is started whose process was ended before it was one.
const startTries = 5

// errUnborn says that a process has ended before it became a command. Nothing of it ran.
var errUnborn = errors.New("the process ended before it became a command")

// unstick keeps processes of ours that are being started from staying stopped, until stop
// is called.
func unstick() (stop func()) {
	done := make(chan struct{})
	var looking sync.WaitGroup
	looking.Add(1)
	timer := time.AfterFunc(stuckAfter, func() {
		defer looking.Done()
		tick := time.NewTicker(stuckEvery)
		defer tick.Stop()
		for n := 0; ; n++ {
			if n < stuckLooks {
				signalUnborn(unix.SIGCONT)
			} else {
				signalUnborn(unix.SIGKILL)
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

// signalUnborn signals children that are stopped and execute this very program still.
func signalUnborn(s syscall.Signal) {
	own, err := os.Stat("/proc/self/exe")
	if err != nil {
		return
	}
	for _, e := range processes(0) {
		if e.ppid != os.Getpid() || e.state != 'T' && e.state != 't' {
			continue
		}
		if of, err := os.Stat("/proc/" + strconv.Itoa(e.pid) + "/exe"); err == nil && os.SameFile(own, of) {
			unix.Kill(e.pid, s) // not collected before its start is over: the number is its own
		}
	}
}
