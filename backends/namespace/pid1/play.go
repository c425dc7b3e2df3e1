//go:build linux

package pid1

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Everything here runs, or may run, in a copy of a process without the Go runtime (see
// the package's doc): each function is nosplit, and calls nothing but others of this file
// and raw system calls.

// call calls f. The linker adds up the frames of nosplit functions that call each other by
// name and refuses more than 792 bytes, which a build for a debugger (-gcflags='all=-N -l')
// takes. It does not follow this call; [reserve] has made room for all frames together.
//
//go:norace
//go:nosplit
//go:nocheckptr
//go:noinline
func call(f func(*area), a *area) { f(a) }

// clone makes the process. In the copy it does not return.
//
//go:norace
//go:nosplit
//go:nocheckptr
func (a *area) clone(args *cloneArgs) (pid uintptr, errno syscall.Errno) {
	pid, _, errno = syscall.RawSyscall6(unix.SYS_CLONE3, uintptr(unsafe.Pointer(args)), unsafe.Sizeof(*args), 0, 0, 0, 0)
	if errno == unix.ENOSYS && args.cgroup == 0 { // as the filters of some containers answer
		pid, _, errno = syscall.RawSyscall6(unix.SYS_CLONE, uintptr(args.flags), 0, 0, 0, 0, 0)
	}
	if errno == 0 && pid == 0 {
		a.serve()
	}
	return pid, errno
}

// serve is the life of pid 1. Signals are blocked.
//
//go:norace
//go:nosplit
//go:nocheckptr
func (a *area) serve() {
	for signal := uintptr(1); signal <= 64; signal++ { // children must not have the runtime's handlers
		syscall.RawSyscall6(unix.SYS_RT_SIGACTION, signal, uintptr(unsafe.Pointer(&a.action)), 0, 8, 0, 0)
	}
	if a.socket != Socket {
		syscall.RawSyscall6(unix.SYS_DUP3, uintptr(a.socket), Socket, unix.O_CLOEXEC, 0, 0, 0)
	}
	syscall.RawSyscall6(unix.SYS_CLOSE_RANGE, Socket+1, 1<<32-1, 0, 0, 0, 0)
	a.mask = 1 << (uint(unix.SIGCHLD) - 1)
	fd, _, errno := syscall.RawSyscall6(unix.SYS_SIGNALFD4, ^uintptr(0), uintptr(unsafe.Pointer(&a.mask)), 8, unix.SFD_CLOEXEC|unix.SFD_NONBLOCK, 0, 0)
	if errno != 0 || fd != deaths {
		exit(ExitHelpless)
	}
	a.more = false
	for {
		a.poll[0].fd, a.poll[0].events = Socket, unix.POLLIN
		a.poll[1].fd, a.poll[1].events = deaths, unix.POLLIN
		timeout := uintptr(0)
		if a.more {
			timeout = uintptr(unsafe.Pointer(&a.now))
		}
		_, _, errno := syscall.RawSyscall6(unix.SYS_PPOLL, uintptr(unsafe.Pointer(&a.poll)), 2, timeout, 0, 0, 0)
		if errno != 0 {
			continue
		}
		if a.poll[1].revents != 0 || a.more {
			call((*area).collect, a)
		}
		if a.poll[0].revents != 0 {
			call((*area).receive, a)
		}
	}
}

// exit ends the process.
//
//go:norace
//go:nosplit
func exit(code uintptr) {
	for {
		syscall.RawSyscall6(unix.SYS_EXIT_GROUP, code, 0, 0, 0, 0, 0)
	}
}

// collect takes the ends of children, and of orphans that fell to pid 1, and reports
// those of the table. It stops after many and sets more, so that an endless row of orphans
// does not delay requests.
//
//go:norace
//go:nosplit
//go:nocheckptr
func (a *area) collect() {
	a.more = true
	syscall.RawSyscall6(unix.SYS_READ, deaths, uintptr(unsafe.Pointer(&a.info)), 128, 0, 0, 0)
	for range 1000 {
		pid, _, errno := syscall.RawSyscall6(unix.SYS_WAIT4, ^uintptr(0), uintptr(unsafe.Pointer(&a.status)), unix.WNOHANG, uintptr(unsafe.Pointer(&a.usage)), 0, 0)
		if errno != 0 || pid == 0 {
			a.more = false
			return
		}
		for i := range a.table {
			c := &a.table[i]
			if c.pid != uint64(pid) {
				continue
			}
			c.pid = 0
			a.report = Report{Kind: ended, ID: c.id, Status: uint32(a.status), PID: int64(pid),
				User: int64(a.usage[0])*1e6 + int64(a.usage[1]), System: int64(a.usage[2])*1e6 + int64(a.usage[3]), RSS: int64(a.usage[4])}
			a.send()
			break
		}
	}
}

// send writes the report. A host that does not take it is gone, and pid 1 with it.
//
//go:norace
//go:nosplit
//go:nocheckptr
func (a *area) send() {
	if !a.sendTo(Socket) {
		exit(0)
	}
}

// sendTo writes the report to a descriptor of the socket.
//
//go:norace
//go:nosplit
//go:nocheckptr
func (a *area) sendTo(socket uintptr) bool {
	for {
		n, _, errno := syscall.RawSyscall6(unix.SYS_SENDTO, socket, uintptr(unsafe.Pointer(&a.report)), unsafe.Sizeof(a.report), unix.MSG_NOSIGNAL, 0, 0)
		if errno == unix.EINTR {
			continue
		}
		return errno == 0 && n == unsafe.Sizeof(a.report)
	}
}

// read fills memory from the socket.
//
//go:norace
//go:nosplit
//go:nocheckptr
func read(at, size uintptr) {
	for size > 0 {
		n, _, errno := syscall.RawSyscall6(unix.SYS_READ, Socket, at, size, 0, 0, 0)
		if errno == unix.EINTR {
			continue
		}
		if errno != 0 || n == 0 {
			exit(0)
		}
		at, size = at+n, size-n
	}
}

// receive takes one message and does what it asks for.
//
//go:norace
//go:nosplit
//go:nocheckptr
func (a *area) receive() {
	a.vector[0], a.vector[1] = uint64(uintptr(unsafe.Pointer(&a.request))), uint64(unsafe.Sizeof(a.request))
	a.message = message{vector: uint64(uintptr(unsafe.Pointer(&a.vector))), vectors: 1,
		control: uint64(uintptr(unsafe.Pointer(&a.control))), controlLen: uint64(unsafe.Sizeof(a.control))}
	a.control.len = 0
	n, _, errno := syscall.RawSyscall6(unix.SYS_RECVMSG, Socket, uintptr(unsafe.Pointer(&a.message)), unix.MSG_CMSG_CLOEXEC, 0, 0, 0)
	if errno == unix.EINTR {
		return
	}
	if errno != 0 || n == 0 {
		exit(0) // the host closed the box, or died
	}
	if n != unsafe.Sizeof(a.request) || a.request.ops > maxOps || a.request.data > maxData {
		exit(ExitNonsense)
	}
	a.fds = 0
	if a.message.controlLen >= 16 && a.control.level == unix.SOL_SOCKET && a.control.kind == unix.SCM_RIGHTS {
		a.fds = min((a.control.len-16)/4, maxFDs)
	}
	for i := uint64(0); i < a.fds; i++ {
		a.slots[i&(maxSlots-1)] = uint64(uint32(a.control.fds[i&(maxFDs-1)]))
	}
	read(uintptr(unsafe.Pointer(&a.ops)), uintptr(a.request.ops)*unsafe.Sizeof(op{}))
	read(uintptr(unsafe.Pointer(&a.data)), uintptr(a.request.data))
	switch a.request.kind {
	case playHere:
		a.report = Report{Kind: played}
		call((*area).play, a)
		a.send()
	case playChild:
		call((*area).start, a)
	case listChildren:
		for i := range a.table {
			if c := &a.table[i]; c.pid != 0 {
				a.report = Report{Kind: running, ID: c.id, PID: int64(c.pid)}
				a.send()
			}
		}
		a.report = Report{Kind: listed}
		a.send()
	default:
		exit(ExitNonsense)
	}
	if size := uintptr(a.request.ops)*unsafe.Sizeof(op{}) + uintptr(a.request.data); size > 32<<10 {
		// A long list is not kept: its pages are the box's memory.
		syscall.RawSyscall6(unix.SYS_MADVISE, (uintptr(unsafe.Pointer(&a.ops))+4095)&^4095, unsafe.Sizeof(a.ops)+unsafe.Sizeof(a.data)-8192, unix.MADV_DONTNEED, 0, 0, 0)
	}
}

// start plays the list in a child. When that has executed a program, or has said that it
// could not, it goes on.
//
//go:norace
//go:nosplit
//go:nocheckptr
func (a *area) start() {
	free := children
	for i := range a.table {
		if a.table[i].pid == 0 {
			free = i
			break
		}
	}
	errno := uintptr(unix.EAGAIN)
	if free < children {
		var pid uintptr
		pid, errno = vfork()
		if errno == 0 && pid == 0 {
			call((*area).become, a)
		}
		if errno == 0 {
			a.table[free&(children-1)] = child{pid: uint64(pid), id: a.request.id}
		}
	}
	for i := uint64(0); i < a.fds; i++ {
		syscall.RawSyscall6(unix.SYS_CLOSE, uintptr(a.slots[i&(maxSlots-1)]), 0, 0, 0, 0, 0)
	}
	if errno != 0 {
		a.report = Report{Kind: refused, ID: a.request.id, Errno: uint32(errno)}
		a.send()
	}
}

// vfork makes a child that has the same memory, and the same stack, while this process
// waits for it to execute a program or to end. The child must not return from the function
// that called it.
//
//go:noescape
func vfork() (pid, errno uintptr)

// aside is from where on a child keeps its socket, above what lists put in place.
const aside = 96

// become is the life of a child. A list that executes a program does not come back.
//
//go:norace
//go:nosplit
//go:nocheckptr
func (a *area) become() {
	// Where the socket lies, the list may put a stream of the command: what it says of a
	// failure behind that must not go there, and a command that was not started never ends with 0.
	socket, _, errno := syscall.RawSyscall6(unix.SYS_FCNTL, Socket, unix.F_DUPFD_CLOEXEC, aside, 0, 0, 0)
	if errno != 0 {
		socket = Socket
	}
	a.report = Report{Kind: refused, ID: a.request.id}
	a.play()
	a.sendTo(socket)
	exit(127)
}

// play does the calls of the list, in order, up to the first failure.
//
//go:norace
//go:nosplit
//go:nocheckptr
func (a *area) play() {
	a.report.Errno = 0
	for i := uint32(0); i < a.request.ops; i++ {
		o := &a.ops[i&(maxOps-1)]
		for j := range 6 {
			if o.slots&(1<<j) != 0 {
				o.args[j] = a.slots[o.args[j]&(maxSlots-1)]
			}
		}
		r, _, errno := syscall.RawSyscall6(uintptr(o.number), uintptr(o.args[0]), uintptr(o.args[1]), uintptr(o.args[2]), uintptr(o.args[3]), uintptr(o.args[4]), uintptr(o.args[5]))
		if errno == unix.EINTR {
			i--
			continue
		}
		if errno != 0 {
			if e := uint8(errno); uintptr(e) != uintptr(errno) || e != o.accept[0] && e != o.accept[1] && e != o.accept[2] && e != o.accept[3] {
				a.report.Errno, a.report.Index = uint32(errno), i
				return
			}
			i += uint32(o.skip)
			continue
		}
		if o.result != noSlot {
			a.slots[o.result&(maxSlots-1)] = uint64(r)
		}
	}
	a.report.Index = a.request.ops
}
