//go:build linux

package pid1

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"slices"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A helper makes the processes, because a new user namespace makes fork copy the page
// tables of the whole process: 50 ms for each gigabyte of heap. It does nothing else, and
// what it makes are children of hermes all the same (CLONE_PARENT).

// order asks the helper for a process. Its socket, and its cgroup of version 2 if there
// is one, come as descriptors.
type order struct {
	flags uint64 // CLONE_NEW…
	group uint64 // 1: a cgroup came too
	owner uint64 // user to whom the namespaces are counted; 0: the helper's
}

// answer is what the helper says: first, as a greeting, where lists have their data, then
// the number of each process, or why there is none.
type answer struct {
	value uint64
	errno uint64
}

// Serve is the helper: it makes processes until hermes closes the socket, or dies. It
// returns the exit code.
func Serve(control int) int {
	runtime.LockOSThread()
	// A change of the user is to leave this thread its capabilities: it enters cgroups for its copies. Where the
	// kernel refuses that, the user does not change.
	const noFixup = 1 << 2 // SECBIT_NO_SETUID_FIXUP
	changes := os.Geteuid() == 0 && unix.Prctl(unix.PR_SET_SECUREBITS, noFixup, 0, 0, 0) == nil
	a, err := newArea()
	if err != nil {
		return 1
	}
	if write(control, answer{value: a.dataAt()}) != nil {
		return 1
	}
	var m made
	for {
		o, fds, err := readOrder(control)
		if errors.Is(err, io.EOF) {
			m.end()
			return 0
		}
		if err != nil {
			return 1
		}
		if !changes {
			o.owner = 0
		}
		pid, errno := a.fork(o, fds)
		if errno == 0 {
			m.add(int(pid)) // before hermes hears of it and can collect it
		}
		for _, fd := range fds {
			unix.Close(fd)
		}
		if write(control, answer{value: uint64(pid), errno: uint64(errno)}) != nil {
			return 1
		}
	}
}

// made are the processes of a helper that may live. They end by themselves when hermes
// does, unless one of their children, stopped by others of its box, keeps them waiting.
type made struct {
	fds  []unix.PollFd // of processes
	look int           // when there are so many, those that have ended are let go
}

// add notes a process.
func (m *made) add(pid int) {
	if fd, err := unix.PidfdOpen(pid, 0); err == nil {
		m.fds = append(m.fds, unix.PollFd{Fd: int32(fd), Events: unix.POLLIN})
	}
	m.look = max(m.look, 64)
	if len(m.fds) < m.look {
		return
	}
	if _, err := unix.Poll(m.fds, 0); err == nil {
		m.fds = slices.DeleteFunc(m.fds, func(f unix.PollFd) bool { return f.Revents != 0 && unix.Close(int(f.Fd)) == nil })
	}
	m.look = 2 * len(m.fds)
}

// end ends those that live.
func (m *made) end() {
	for _, f := range m.fds {
		unix.PidfdSendSignal(int(f.Fd), unix.SIGKILL, nil, 0)
	}
}

// become changes the effective user of this thread only. The other two stay root, so that it can change back.
func become(user uint64) syscall.Errno {
	_, _, errno := syscall.RawSyscall(unix.SYS_SETRESUID, ^uintptr(0), uintptr(user), ^uintptr(0))
	return errno
}

// fork makes one process. What the kernel counts for a user namespace it counts for the user who made it too, with one limit
// for all that he made: inotify instances, signals that wait, message queues. So each box is made by a different user.
func (a *area) fork(o order, fds []int) (pid uintptr, errno syscall.Errno) {
	a.socket = uint64(fds[0])
	args := cloneArgs{flags: o.flags | unix.CLONE_PARENT} // the parent's signal is sent at its end
	if o.group != 0 {
		args.flags |= unix.CLONE_INTO_CGROUP
		args.cgroup = uint64(fds[1])
	}
	all, old := ^uint64(0), uint64(0)
	syscall.RawSyscall6(unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, uintptr(unsafe.Pointer(&all)), uintptr(unsafe.Pointer(&old)), 8, 0, 0)
	if o.owner == 0 || become(o.owner) != 0 {
		o.owner = 0
	}
	reserve() // and from here to the clone nothing may stop this goroutine, as its stack could shrink: signals are blocked, clone is nosplit
	pid, errno = a.clone(&args)
	if o.owner != 0 && become(0) != 0 {
		exit(ExitHelpless) // as another user it would be of no use
	}
	syscall.RawSyscall6(unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, uintptr(unsafe.Pointer(&old)), 0, 8, 0, 0)
	return pid, errno
}

// room is the stack that the copy has. Its functions take 0.8 kB together, and twice that in
// a build for a debugger.
const room = 8 << 10

// reserve makes the stack so large that room is left below the frame of the caller.
//
//go:noinline
func reserve() {
	var frame [room]byte
	touch(&frame)
}

// touch keeps the compiler from leaving out the frame.
//
//go:noinline
func touch(frame *[room]byte) { frame[0] = 1 }

// readOrder waits for the next order; io.EOF says that hermes is gone.
func readOrder(control int) (o order, fds []int, err error) {
	raw := unsafe.Slice((*byte)(unsafe.Pointer(&o)), unsafe.Sizeof(o))
	var oob [64]byte
	n, oobn, _, _, err := unix.Recvmsg(control, raw, oob[:], unix.MSG_CMSG_CLOEXEC)
	for err == unix.EINTR {
		n, oobn, _, _, err = unix.Recvmsg(control, raw, oob[:], unix.MSG_CMSG_CLOEXEC)
	}
	switch {
	case err != nil:
		return o, nil, fmt.Errorf("read an order: %w", err)
	case n == 0:
		return o, nil, io.EOF
	case n < len(raw):
		return o, nil, io.ErrUnexpectedEOF
	}
	messages, err := unix.ParseSocketControlMessage(oob[:oobn])
	if err != nil || len(messages) != 1 {
		return o, nil, fmt.Errorf("an order without descriptors (%v)", err)
	}
	fds, err = unix.ParseUnixRights(&messages[0])
	if err != nil || len(fds) != 1+int(o.group) {
		return o, nil, fmt.Errorf("an order with %d descriptors (%v)", len(fds), err)
	}
	return o, fds, nil
}

func write(fd int, a answer) error {
	_, err := unix.Write(fd, unsafe.Slice((*byte)(unsafe.Pointer(&a)), unsafe.Sizeof(a)))
	return err
}

// Helper is hermes' end of the helper. It is not safe for concurrent use.
type Helper struct {
	conn *net.UnixConn
	base uint64
}

// NewHelper reads the greeting of a helper that was just started.
func NewHelper(conn *net.UnixConn) (*Helper, error) {
	h := &Helper{conn: conn}
	a, err := h.read()
	h.base = a.value
	return h, err
}

// Fork makes a process with namespaces (CLONE_NEW…), which the kernel counts for the user
// owner, or for the helper's where that is 0. It has the box's end of a socket pair, and is in
// a cgroup of version 2 unless group is nil. It is a child of this process, waits on the
// socket for lists, and has nothing else open. The second error is one of the helper
// itself, which is of no more use then.
func (h *Helper) Fork(flags uint64, owner int, socket *os.File, group *os.File) (pid int, refused, broken error) {
	o, fds := order{flags: flags, owner: uint64(owner)}, []int{int(socket.Fd())}
	if group != nil {
		o.group, fds = 1, append(fds, int(group.Fd()))
	}
	raw := unsafe.Slice((*byte)(unsafe.Pointer(&o)), unsafe.Sizeof(o))
	if _, _, err := h.conn.WriteMsgUnix(raw, unix.UnixRights(fds...), nil); err != nil {
		return 0, nil, err
	}
	a, err := h.read()
	if err != nil {
		return 0, nil, err
	}
	if a.errno != 0 {
		return 0, syscall.Errno(a.errno), nil
	}
	return int(a.value), nil, nil
}

// Conn returns the host's end of a process that this helper has made.
func (h *Helper) Conn(socket *net.UnixConn) *Conn { return newConn(socket, h.base) }

// read reads one answer.
func (h *Helper) read() (a answer, err error) {
	_, err = io.ReadFull(h.conn, unsafe.Slice((*byte)(unsafe.Pointer(&a)), unsafe.Sizeof(a)))
	return a, err
}
