package slotd

import (
	"bytes"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// entry is one process as /proc shows it.
type entry struct {
	pid, ppid, group, session int
	began                     uint64 // clock ticks since boot
	state                     byte
	bare                      bool // a program that has no arguments and no environment yet: it is in the middle of an exec
}

// ticks is the time since boot in clock ticks, less a margin.
func ticks() uint64 {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &now); err != nil || now.Sec < 1 {
		return 0
	}
	return uint64(now.Nano()-1e9) / 1e7
}

// processes lists the living processes that began at or after a time.
func processes(since uint64) []entry {
	dir, err := openKernel("/proc")
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1)
	var all []entry
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil {
			if e, ok := readEntry(pid); ok && e.began >= since && e.state != 'Z' && e.state != 'X' {
				all = append(all, e)
			}
		}
	}
	return all
}

// readEntry reads /proc/PID/stat. The name in it may hold any byte, so fields are
// counted from its last parenthesis.
func readEntry(pid int) (entry, bool) {
	raw, err := readKernel("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return entry{}, false
	}
	return parseStat(pid, raw)
}

func parseStat(pid int, raw []byte) (entry, bool) {
	i := bytes.LastIndexByte(raw, ')')
	if i < 0 {
		return entry{}, false
	}
	f := strings.Fields(string(raw[i+1:]))
	if len(f) < 20 || f[0] == "" {
		return entry{}, false
	}
	e := entry{pid: pid, state: f[0][0]}
	var errs [4]error
	e.ppid, errs[0] = strconv.Atoi(f[1])
	e.group, errs[1] = strconv.Atoi(f[2])
	e.session, errs[2] = strconv.Atoi(f[3])
	e.began, errs[3] = strconv.ParseUint(f[19], 10, 64)
	const ending, kernel = 0x4, 0x200000 // PF_EXITING, PF_KTHREAD: these have no environment either
	if flags, err := strconv.ParseUint(f[6], 10, 64); err == nil && len(f) > 47 {
		e.bare = flags&(ending|kernel) == 0 && f[47] == "0" // env_start
	}
	return e, errs == [4]error{}
}

// marked reports whether the environment of a process carries a mark for which match is
// true. It is unsure about a process that is in the middle of an exec: on a busy machine
// one can stay there for long, without a trace of where it came from.
func marked(e entry, match func(string) bool) (yes, unsure bool) {
	raw, err := readKernel("/proc/" + strconv.Itoa(e.pid) + "/environ")
	if err != nil {
		return false, false
	}
	if len(raw) == 0 {
		return false, e.bare
	}
	key := []byte(MarkEnv + "=")
	for len(raw) > 0 {
		var v []byte
		v, raw, _ = bytes.Cut(raw, []byte{0})
		if bytes.HasPrefix(v, key) && match(string(v[len(key):])) {
			return true, false
		}
	}
	return false, false
}

// tree finds the members of one command or of a whole box.
type tree struct {
	since uint64
	match func(mark string) bool
	roots []int // processes (and sessions) that are members
	known map[int]uint64
	// unsure counts the processes of the last scan of which could not be said whether they
	// are members.
	unsure int
}

// members lists the living members. Members stay members when their parent ends.
func (t *tree) members() []entry {
	all := processes(t.since)
	in := map[int]bool{}
	for _, r := range t.roots {
		in[r] = true
	}
	self := os.Getpid()
	var found []entry
	for grown := true; grown; {
		grown, t.unsure = false, 0
		rest := all[:0]
		for _, e := range all {
			if e.pid == self {
				continue
			}
			began, seen := t.known[e.pid]
			member := in[e.pid] || in[e.ppid] || in[e.session] || in[e.group] || seen && began == e.began
			if !member && t.known[e.pid] == 0 {
				var unsure bool
				if member, unsure = marked(e, t.match); unsure {
					t.unsure++
				}
			}
			if member {
				in[e.pid] = true
				t.known[e.pid] = e.began
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

// signal sends a signal to every member and says how many there were.
func (t *tree) signal(s syscall.Signal) int {
	m := t.members()
	for _, e := range m {
		unix.Kill(e.pid, s)
	}
	return len(m)
}

// kill ends every member: it stops them first, so that none can fork unseen, and goes
// on until two scans in a row find nobody. Processes of which nothing can be said are
// waited for, a second at most. It returns how many are left.
func (t *tree) kill() (left int) {
	deadline := time.Now().Add(10 * time.Second)
	patience := 1000
	for empty := 0; empty < 2 && time.Now().Before(deadline); {
		stopped := map[int]bool{}
		for fresh := true; fresh; {
			fresh = false
			for _, e := range t.members() {
				if !stopped[e.pid] {
					stopped[e.pid] = true
					fresh = unix.Kill(e.pid, unix.SIGSTOP) == nil || fresh
				}
			}
		}
		for pid := range stopped {
			unix.Kill(pid, unix.SIGKILL)
		}
		left = len(stopped)
		if left == 0 && t.unsure > 0 && patience > 0 {
			patience--
			time.Sleep(time.Millisecond)
			continue
		}
		if left == 0 {
			empty++
			continue
		}
		empty = 0
		waitGone(stopped, 50*time.Millisecond)
	}
	return left
}

// waitGone gives killed processes the moment that the kernel needs.
func waitGone(pids map[int]bool, most time.Duration) {
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
