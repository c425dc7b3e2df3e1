//go:build linux

package procs

import (
	"bytes"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"hermes/backends/slotd/wire"
)

// Process is one process as /proc shows it.
type Process struct {
	PID, Ppid, group, session int
	Began                     uint64 // clock ticks since boot
	State                     byte
	bare                      bool // a program that has no arguments and no environment yet: it is in the middle of an exec
}

// Ticks is the time since boot in clock ticks, less a margin.
func Ticks() uint64 {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &now); err != nil || now.Sec < 1 {
		return 0
	}
	return uint64(now.Nano()-1e9) / 1e7
}

// List lists the living processes that began at or after a time.
func List(since uint64) []Process {
	dir, err := OpenKernel("/proc")
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1)
	var all []Process
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil {
			if e, ok := Read(pid); ok && e.Began >= since && e.State != 'Z' && e.State != 'X' {
				all = append(all, e)
			}
		}
	}
	return all
}

// Read reads /proc/PID/stat. The name in it may hold any byte, so fields are
// counted from its last parenthesis.
func Read(pid int) (Process, bool) {
	raw, err := ReadKernel("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return Process{}, false
	}
	return parseStat(pid, raw)
}

func parseStat(pid int, raw []byte) (Process, bool) {
	i := bytes.LastIndexByte(raw, ')')
	if i < 0 {
		return Process{}, false
	}
	f := strings.Fields(string(raw[i+1:]))
	if len(f) < 20 || f[0] == "" {
		return Process{}, false
	}
	e := Process{PID: pid, State: f[0][0]}
	var errs [4]error
	e.Ppid, errs[0] = strconv.Atoi(f[1])
	e.group, errs[1] = strconv.Atoi(f[2])
	e.session, errs[2] = strconv.Atoi(f[3])
	e.Began, errs[3] = strconv.ParseUint(f[19], 10, 64)
	const ending, kernel = 0x4, 0x200000 // PF_EXITING, PF_KTHREAD: these have no environment either
	if flags, err := strconv.ParseUint(f[6], 10, 64); err == nil && len(f) > 47 {
		e.bare = flags&(ending|kernel) == 0 && f[47] == "0" // env_start
	}
	return e, errs == [4]error{}
}

// marked reports whether the environment of a process carries a mark for which match is
// true. It is unsure about a process that is in the middle of an exec: on a busy machine
// one can stay there for long, without a trace of where it came from.
func marked(e Process, match func(string) bool) (yes, unsure bool) {
	raw, err := ReadKernel("/proc/" + strconv.Itoa(e.PID) + "/environ")
	if err != nil {
		return false, false
	}
	if len(raw) == 0 {
		return false, e.bare
	}
	key := []byte(wire.MarkEnv + "=")
	for len(raw) > 0 {
		var v []byte
		v, raw, _ = bytes.Cut(raw, []byte{0})
		if bytes.HasPrefix(v, key) && match(string(v[len(key):])) {
			return true, false
		}
	}
	return false, false
}

// Tree finds the members of one command or of a whole box.
type Tree struct {
	Since uint64
	Match func(mark string) bool
	Roots []int // processes (and sessions) that are members
	Known map[int]uint64
	// Killed counts the processes that Kill met. A process in the middle of an exec is not
	// among the members of one scan, but of those that follow.
	Killed int
	// unsure counts the processes of the last scan of which could not be said whether they
	// are members.
	Unsure int
}

// Members lists the living members. Members stay members when their parent ends.
func (t *Tree) Members() []Process {
	all := List(t.Since)
	in := map[int]bool{}
	for _, r := range t.Roots {
		in[r] = true
	}
	self := os.Getpid()
	var found []Process
	for grown := true; grown; {
		grown, t.Unsure = false, 0
		rest := all[:0]
		for _, e := range all {
			if e.PID == self {
				continue
			}
			began, seen := t.Known[e.PID]
			member := in[e.PID] || in[e.Ppid] || in[e.session] || in[e.group] || seen && began == e.Began
			if !member && t.Known[e.PID] == 0 {
				var unsure bool
				member, unsure = marked(e, t.Match)
				if unsure {
					t.Unsure++
				}
			}
			if member {
				in[e.PID] = true
				t.Known[e.PID] = e.Began
				found = append(found, e)
				grown = true
				continue
			}
			rest = append(rest, e)
		}
		all = rest
	}
	return found
}

// Signal sends a signal to every member and says how many there were.
func (t *Tree) Signal(s syscall.Signal) int {
	m := t.Members()
	for _, e := range m {
		unix.Kill(e.PID, s)
	}
	return len(m)
}

// Kill ends every member: it stops them first, so that none can fork unseen, and goes
// on until two scans in a row find none. It waits a second at most for processes of which
// it is not known whether they are members. It returns how many are left.
func (t *Tree) Kill() (left int) {
	deadline := time.Now().Add(10 * time.Second)
	patience := 1000
	met := map[int]bool{}
	defer func() { t.Killed = len(met) }()
	for empty := 0; empty < 2 && time.Now().Before(deadline); {
		stopped := map[int]bool{}
		for fresh := true; fresh; {
			fresh = false
			for _, e := range t.Members() {
				if !stopped[e.PID] {
					stopped[e.PID] = true
					met[e.PID] = true
					fresh = unix.Kill(e.PID, unix.SIGSTOP) == nil || fresh
				}
			}
		}
		for pid := range stopped {
			unix.Kill(pid, unix.SIGKILL)
		}
		left = len(stopped)
		if left == 0 && t.Unsure > 0 && patience > 0 {
			patience--
			time.Sleep(time.Millisecond)
			continue
		}
		if left == 0 {
			empty++
			continue
		}
		empty = 0
		WaitGone(stopped, 50*time.Millisecond)
	}
	return left
}

// WaitGone gives killed processes the moment that the kernel needs.
func WaitGone(pids map[int]bool, most time.Duration) {
	end := time.Now().Add(most)
	for pid := range pids {
		fd, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			continue
		}
		for left := time.Until(end); left > 0; left = time.Until(end) {
			_, err = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(left.Milliseconds())+1)
			if err != unix.EINTR {
				break
			}
		}
		unix.Close(fd)
	}
}
