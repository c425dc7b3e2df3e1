package namespace

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"hermes/backends/namespace/pid1"
)

// A child of pid 1 that is not yet a command can be stopped by commands of the box: it has
// their user already. pid 1 waits for it and hears nobody meanwhile, be it slotd or not (a
// server with one processor has none left while it waits); so the host makes it go on.

// How long pid 1 may keep silent before its children are looked at, and how often then.
const (
	stuckAfter = time.Second
	stuckEvery = 20 * time.Millisecond
)

// persistence is how often a child is told to go on at one look: for about a millisecond.
const persistence = 1000

// unstick asks pid 1 for a sign of life, once a command has run for a while: when it
// answers, the command has become what it shall be.
func (x *box) unstick() {
	x.starting.RLock()
	defer x.starting.RUnlock()
	if x.woken {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), setupTime)
	defer cancel()
	if _, err := x.children(ctx); err != nil {
		x.proc.Kill() // it is gone, or of no use to anybody
	}
}

// children asks pid 1 what it has started, and makes stopped children go on as long as it
// does not answer.
func (x *box) children(ctx context.Context) ([]*pid1.Child, error) {
	type answer struct {
		all []*pid1.Child
		err error
	}
	came := make(chan answer, 1)
	go func() {
		all, err := x.first.Children(ctx)
		came <- answer{all, err}
	}()
	timer := time.NewTimer(stuckEvery)
	defer timer.Stop()
	for {
		select {
		case a := <-came:
			return a.all, a.err
		case <-timer.C:
			x.goOn()
			timer.Reset(stuckEvery)
		}
	}
}

// goOn lets the children of pid 1 go on that are stopped and still are copies of it, and
// says whether there was one. One
// that is stopped under slotd's eyes (ptrace) cannot go on: it is ended, and slotd starts
// its command again.
func (x *box) goOn() (did bool) {
	pid := strconv.Itoa(x.proc.Pid)
	own, _ := os.ReadFile("/proc/" + pid + "/cmdline")
	for _, child := range x.childrenOf(pid) {
		n, err := strconv.Atoi(child)
		if err != nil {
			continue
		}
		fd, err := unix.PidfdOpen(n, 0)
		if err != nil {
			continue
		}
		stat, _ := os.ReadFile("/proc/" + child + "/stat")
		words, _ := os.ReadFile("/proc/" + child + "/cmdline")
		state := bytes.TrimSpace(stat[bytes.LastIndexByte(stat, ')')+1:])
		if bytes.Equal(words, own) && len(state) > 0 && slices.Contains(x.childrenOf(pid), child) { // the number is still that of a child
			switch state[0] {
			case 'T':
				for range persistence { // as often as it is stopped again meanwhile
					did = unix.PidfdSendSignal(fd, unix.SIGCONT, nil, 0) == nil || did
				}
			case 't':
				did = unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0) == nil || did
			}
		}
		unix.Close(fd)
	}
	return did
}

// childrenOf lists the children of a process, whichever of its threads made them.
func (x *box) childrenOf(pid string) (all []string) {
	files, _ := filepath.Glob("/proc/" + pid + "/task/*/children")
	for _, file := range files {
		raw, _ := os.ReadFile(file)
		all = append(all, strings.Fields(string(raw))...)
	}
	return all
}
