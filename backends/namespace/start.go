//go:build linux

package namespace

import (
	"path/filepath"
	"strconv"
	"unsafe"

	"golang.org/x/sys/unix"

	"hermes/backends"
	"hermes/backends/namespace/pid1"
	"hermes/backends/slotd/filter"
	"hermes/backends/slotd/wire"
)

// lockdown takes from the process that plays the list, and so from the command that it
// becomes, all capabilities, the way to new ones, and the system calls of the filter. What
// it keeps is permitted to it and not to what it executes.
func lockdown(l *pid1.List, keeps uint64) {
	for c := 0; c <= 63; c++ {
		if _, err := unix.PrctlRetInt(unix.PR_CAPBSET_READ, uintptr(c), 0, 0, 0); err == unix.EINVAL {
			break // beyond the last one that the kernel knows
		}
		l.Call("drop capability "+strconv.Itoa(c)+" from the bounding set", unix.SYS_PRCTL, unix.PR_CAPBSET_DROP, c)
	}
	const noRoot = 1<<0 | 1<<1 | 1<<2 | 1<<3 | 1<<5 | 1<<6 | 1<<7 // SECBIT_NOROOT, NO_SETUID_FIXUP, NO_CAP_AMBIENT_RAISE, locked
	l.Call("set secure bits", unix.SYS_PRCTL, unix.PR_SET_SECUREBITS, noRoot)
	l.Call("clear ambient capabilities", unix.SYS_PRCTL, unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
	l.Call("drop capabilities", unix.SYS_CAPSET, l.Words(uint64(unix.LINUX_CAPABILITY_VERSION_3)), l.Words(keeps<<32, 0, 0))
	l.Call("set no_new_privs", unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1)
	code := filter.Program(true)
	raw := unsafe.Slice((*byte)(unsafe.Pointer(&code[0])), len(code)*int(unsafe.Sizeof(code[0])))
	l.Call("load the seccomp filter", unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, l.Words(len(code), l.Bytes(raw)))
}

// lockThread does the same with the calling thread, for the processes that it starts. The
// thread keeps one capability, which it does not use: the kernel lets no process change the
// priority, scheduling or cores of a thread that has a capability which it lacks.
func lockThread() error {
	l := pid1.NewList(0)
	lockdown(l, 1<<unix.CAP_SETPCAP)
	return l.Here()
}

// command writes the list by which a child of pid 1 becomes a command. Its streams are
// slots 0 to 2. Whatever is out of the ordinary (a program that is not there, a folder that
// cannot be entered) makes it end without one, and slotd say why.
func (x *box) command(c backends.Cmd, mark string) *pid1.List {
	fds := 3
	if c.Kept != nil {
		fds++
	}
	if c.Report != "" {
		fds++
	}
	l := pid1.NewList(fds)
	l.Call("make a session", unix.SYS_SETSID)
	for i := range 3 {
		l.Call("set stream "+strconv.Itoa(i), unix.SYS_DUP3, pid1.Slot(i), i, 0)
	}
	if c.Kept != nil {
		l.Call("set the kept file", unix.SYS_DUP3, pid1.Slot(3), backends.KeptFD, 0)
	}
	if c.Report != "" { // last, and from high up: another stream of pid 1's may lie where it goes
		high := l.Call("lift the report", unix.SYS_FCNTL, pid1.Slot(fds-1), unix.F_DUPFD_CLOEXEC, 64).Keep()
		l.Call("set the report", unix.SYS_DUP3, high, wire.ReportFD, 0)
	}
	dir := x.plan.Dir
	if c.Dir != "" {
		dir = c.Dir
		if !filepath.IsAbs(dir) {
			dir = x.plan.Dir + "/" + dir
		}
	}
	l.Call("enter "+dir, unix.SYS_CHDIR, dir)
	setLimits(l, x.plan.rlimits())
	lockdown(l, 0)
	l.Call("let signals in", unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, l.Words(0), 0, 8)
	env := wire.Environ(wire.Defaults(x.plan.Home, x.plan.Env), c)
	path := env["PATH"]
	env[wire.MarkEnv] = mark
	if c.Report != "" {
		env[c.Report] = wire.ReportPath
	}
	all := l.Strings(wire.Pairs(env))
	execute := func(argv []string) {
		words := l.Strings(argv)
		for _, file := range wire.Candidates(argv[0], dir, path) {
			l.Call("execute "+file, unix.SYS_EXECVE, file, words, all).Or(unix.ENOENT, unix.ENOTDIR)
		}
	}
	if c.Shell != "" {
		execute([]string{"bash", "-c", c.Shell})
		execute([]string{"sh", "-c", c.Shell})
	} else {
		execute(c.Argv)
	}
	return l
}

// rlimits are those of commands only.
func (p plan) rlimits() []rlimit {
	l := []rlimit{{unix.RLIMIT_NPROC, uint64(p.Limits.Processes)}, {unix.RLIMIT_NOFILE, uint64(p.Limits.Files)}, {unix.RLIMIT_SIGPENDING, uint64(p.Limits.Signals)}}
	if p.ByRlimit {
		l = append(l, rlimit{unix.RLIMIT_DATA, uint64(p.Limits.Memory)})
	}
	return l
}

// become writes the list by which pid 1 executes slotd in its place: slot 0 is the program,
// slot 1, if there is one, the counter of out-of-memory kills.
func become(counter bool) *pid1.List {
	l := pid1.NewList(2)
	l.Call("let signals in", unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, l.Words(0), 0, 8)
	l.Call("keep the socket", unix.SYS_FCNTL, pid1.Socket, unix.F_SETFD, 0)
	if counter {
		l.Call("keep the counter of kills", unix.SYS_DUP3, pid1.Slot(1), oomFD, 0)
	}
	l.Call("execute the server", unix.SYS_EXECVEAT, pid1.Slot(0), "", l.Strings([]string{wire.Name, initCommand}), l.Strings(boxEnv), unix.AT_EMPTY_PATH)
	return l
}

// oomFD is the counter of out-of-memory kills in a server, far from what pid 1 has open.
const oomFD = 64
