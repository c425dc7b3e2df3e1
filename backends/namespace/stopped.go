//go:build linux

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
// their user already. pid 1 waits for it and answers no request meanwhile. That holds for
// slotd too: with one processor it has none left while it waits. So the host continues it.

// How long pid 1 may keep silent before its children are looked at, and how often then.
const (
	stuckAfter = time.Second
	stuckEvery = 20 * time.Millisecond
)

// continueStopped asks pid 1 for a sign of life, once a command has run for a while: when it
// answers, the command has become what it shall be.
func (x *box) continueStopped() {
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
			x.resume()
			timer.Reset(stuckEvery)
		}
	}
}

// resume lets the children of pid 1 go on that are stopped and still are copies of it, and
// says whether there was one. Whoever stops them may do so without end; so nothing else of
// the box runs meanwhile. (A command that calls itself as pid 1 does is taken for a copy,
// and may keep the box stuck: then it has broken it.) One that is stopped under slotd's eyes
// (ptrace) cannot go on: it is ended, and slotd starts its command again.
func (x *box) resume() (did bool) {
	if !x.looking.TryLock() {
		return true // another call's silence is being looked into
	}
	defer x.looking.Unlock()
	stuck := x.stoppedCopies()
	if len(stuck) == 0 {
		return false
	}
	x.stuck.Store(time.Now().UnixNano())
	others := map[string]relative{}
	defer func() {
		for _, p := range others {
			p.signal(unix.SIGCONT)
			p.close()
		}
		for _, p := range stuck {
			p.close()
		}
	}()
	for range patience {
		if x.hold(others) {
			break
		}
		time.Sleep(lookEvery)
	}
	for range patience {
		waiting := false
		for _, p := range stuck {
			if !p.copyOf(x.words()) {
				continue
			}
			switch waiting = true; p.state() {
			case 'T':
				p.signal(unix.SIGCONT)
			case 't':
				p.signal(unix.SIGKILL)
			}
		}
		if !waiting {
			break
		}
		time.Sleep(lookEvery)
	}
	return true
}

// While a child is made to go on, the box is looked at so often, and so many times at most.
const (
	lookEvery = 200 * time.Microsecond
	patience  = 100
)

// isStuck says whether pid 1 waited for a stopped child a moment ago.
func (x *box) isStuck() bool {
	return time.Since(time.Unix(0, x.stuck.Load())) < 5*time.Second
}

// hold stops what runs in the box and is not a copy of pid 1, and says whether nothing
// does any more. What it has stopped is added to others.
func (x *box) hold(others map[string]relative) (still bool) {
	still = true
	words := x.words()
	for next := []string{strconv.Itoa(x.proc.Pid)}; len(next) > 0; {
		parent := next[0]
		next = next[1:]
		for _, child := range childrenOf(parent) {
			next = append(next, child)
			p, known := others[child]
			if !known {
				var ok bool
				p, ok = relate(child, parent)
				if !ok {
					continue
				}
			}
			if runs := p.state(); runs != 'T' && runs != 't' && runs != 'X' && runs != 0 && !p.copyOf(words) {
				still = still && runs == 'Z' // its first thread alone may have ended
				p.signal(unix.SIGSTOP)
				if !known {
					others[child] = p
				}
				continue
			}
			if !known {
				p.close()
			}
		}
	}
	return still
}

// stoppedCopies lists the children of pid 1 that are stopped and still are copies of it.
func (x *box) stoppedCopies() (all []relative) {
	pid, words := strconv.Itoa(x.proc.Pid), x.words()
	for _, child := range childrenOf(pid) {
		p, ok := relate(child, pid)
		if !ok {
			continue
		}
		if s := p.state(); (s == 'T' || s == 't') && p.copyOf(words) {
			all = append(all, p)
			continue
		}
		p.close()
	}
	return all
}

// words are what pid 1 was executed with.
func (x *box) words() []byte {
	own, _ := os.ReadFile("/proc/" + strconv.Itoa(x.proc.Pid) + "/cmdline")
	return own
}

// relative is a process of a box. Its number is its own as long as it is not collected.
type relative struct {
	pid string
	fd  int
}

// relate opens a process that is a child of parent.
func relate(pid, parent string) (p relative, ok bool) {
	n, err := strconv.Atoi(pid)
	if err != nil {
		return p, false
	}
	fd, err := unix.PidfdOpen(n, 0)
	if err != nil {
		return p, false
	}
	p = relative{pid, fd}
	if !slices.Contains(childrenOf(parent), pid) { // the number is still that of a child
		p.close()
		return p, false
	}
	return p, true
}

func (p relative) signal(s unix.Signal) { unix.PidfdSendSignal(p.fd, s, nil, 0) }
func (p relative) close()               { unix.Close(p.fd) }

// state is that of its first thread, 0 once it has ended.
func (p relative) state() byte {
	stat, _ := os.ReadFile("/proc/" + p.pid + "/stat")
	state := bytes.TrimSpace(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(state) == 0 || unix.PidfdSendSignal(p.fd, 0, nil, 0) != nil {
		return 0
	}
	return state[0]
}

// copyOf says whether it has executed nothing since a process with these words made it.
func (p relative) copyOf(words []byte) bool {
	own, _ := os.ReadFile("/proc/" + p.pid + "/cmdline")
	return bytes.Equal(words, own)
}

// childrenOf lists the children of a process, whichever of its threads made them.
func childrenOf(pid string) (all []string) {
	files, _ := filepath.Glob("/proc/" + pid + "/task/*/children")
	for _, file := range files {
		raw, _ := os.ReadFile(file)
		all = append(all, strings.Fields(string(raw))...)
	}
	return all
}
