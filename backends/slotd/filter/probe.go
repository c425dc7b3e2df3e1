//go:build linux

package filter

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Highest is the last number that a [Probe] asks about.
const Highest = 600

// Seen is what becomes of calls in a place, by number. Those that depend on arguments are
// asked with zeroes.
type Seen struct {
	Allowed []uint32 `json:"allowed"`
	Refused []uint32 `json:"refused"` // not permitted
	Absent  []uint32 `json:"absent"`  // do not exist
	Other   []uint32 `json:"other"`   // another error, as of sockets of an unknown family
}

// Open says that there is no filter at all.
func (s Seen) Open() bool { return len(s.Refused)+len(s.Absent)+len(s.Other) == 0 }

// Beyond are the calls that are allowed there and not by the list.
func (s Seen) Beyond() (beyond []string) {
	all := ranges(false)
	for _, nr := range s.Allowed {
		at := 0
		for at+1 < len(all) && all[at+1].from <= nr {
			at++
		}
		if all[at].rule == nil && all[at].whole != allow {
			beyond = append(beyond, Name(nr))
		}
	}
	return beyond
}

// Name is the name of a call, or its number.
func Name(nr uint32) string {
	if name, ok := names()[nr]; ok {
		return name
	}
	return fmt.Sprint(nr)
}

// names are the calls of this architecture, not to be changed.
var names = sync.OnceValue(func() map[uint32]string {
	all := map[uint32]string{}
	for _, r := range calls {
		for i, name := range strings.Fields(r.names) {
			all[r.first+uint32(i)] = name
		}
	}
	return all
})

// Unfiltered says that the kernel shows a call to no filter: these it makes itself, for
// probes that root has put into programs, and a program that makes one gets a SIGILL.
func Unfiltered(name string) bool { return name == "uprobe" || name == "uretprobe" }

// asked is in the last two arguments of the calls of a probe.
const asked = 0x48524d53

// caught is the errno of calls that the filter of a place lets through: no call returns it.
const caught = unix.EHWPOISON

// Probe asks what becomes of each call here. No call is carried out: where the filters of
// the place allow one, a filter of the probe's own hands it to the probe, which answers it.
// The thread that asks ends afterwards. It needs two processors of the Go runtime, which it
// takes, and a place where no other filter hands calls on.
func Probe() (s Seen, err error) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(max(2, runtime.GOMAXPROCS(0))))
	type opened struct {
		fd  int
		err error
	}
	listener, done := make(chan opened), make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // never unlocked
		fd, err := listen()
		listener <- opened{fd, err}
		if err != nil {
			return
		}
		for nr := range uint32(Highest + 1) {
			if Unfiltered(Name(nr)) {
				continue
			}
			// Not a raw one: the runtime could stop who answers it, and wait for this thread.
			_, _, errno := syscall.Syscall6(uintptr(nr), 0, 0, 0, 0, asked, asked)
			switch errno {
			case caught:
				s.Allowed = append(s.Allowed, nr)
			case unix.EPERM:
				s.Refused = append(s.Refused, nr)
			case unix.ENOSYS:
				s.Absent = append(s.Absent, nr)
			default:
				s.Other = append(s.Other, nr)
			}
		}
	}()
	o := <-listener
	if o.err != nil {
		<-done
		return Seen{}, fmt.Errorf("ask what the filter does: %w", o.err)
	}
	go func() { // until the thread has ended and with it the only user of the filter
		for answerOne(o.fd) == nil {
		}
		unix.Close(o.fd)
	}()
	<-done
	return s, nil
}

// listen has the calling thread's probing calls handed on.
func listen() (fd int, err error) {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return -1, err
	}
	a := &assembler{}
	for _, i := range []int{4, 5} {
		a.arg(i)
		a.unless(asked, allow)
	}
	a.code = append(a.code, ret(unix.SECCOMP_RET_USER_NOTIF))
	prog := unix.SockFprog{Len: uint16(len(a.code)), Filter: &a.code[0]}
	r, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_NEW_LISTENER, uintptr(unsafe.Pointer(&prog)))
	runtime.KeepAlive(a)
	if errno != 0 {
		return -1, errno
	}
	return int(r), nil
}

// notice and reply are struct seccomp_notif and seccomp_notif_resp.
type notice struct {
	id   uint64
	rest [9]uint64
}

type reply struct {
	id    uint64
	value int64
	errno int32
	flags uint32
}

// The requests of a listener (linux/seccomp.h).
const (
	receiveNotice = 0xc0502100
	sendReply     = 0xc0182101
)

// answerOne waits for a call and answers it. An error says that there will be none.
func answerOne(fd int) error {
	poll := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	if _, err := unix.Poll(poll, -1); err != nil && !errors.Is(err, unix.EINTR) {
		return err
	}
	if poll[0].Revents&unix.POLLHUP != 0 {
		return unix.ESRCH
	}
	if poll[0].Revents&unix.POLLIN == 0 {
		return nil
	}
	var n notice
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), receiveNotice, uintptr(unsafe.Pointer(&n))); errno != 0 {
		return nonFatal(errno)
	}
	r := reply{id: n.id, errno: -int32(caught)}
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), sendReply, uintptr(unsafe.Pointer(&r))); errno != 0 {
		return nonFatal(errno)
	}
	return nil
}

// nonFatal lets go on after what happens when a signal interrupts the caller.
func nonFatal(errno syscall.Errno) error {
	if errno == unix.EINTR || errno == unix.ENOENT {
		return nil
	}
	return errno
}
