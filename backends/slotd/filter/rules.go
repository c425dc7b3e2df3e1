//go:build linux

package filter

import "golang.org/x/sys/unix"

// newNamespaces are the flags of clone that make namespaces.
const newNamespaces = unix.CLONE_NEWNS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC |
	unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNET

// tioclinux pastes into a console (linux/tty.h).
const tioclinux = 0x541c

// faults are the signals that a Go program takes for its own faults, and ends, when they
// do not say that a process has sent them. kill says it; a queued signal says what its
// sender likes, and one of a file (F_SETSIG) what happened to the file.
var faults = []uint32{uint32(unix.SIGILL), uint32(unix.SIGTRAP), uint32(unix.SIGBUS), uint32(unix.SIGFPE),
	uint32(unix.SIGSEGV), uint32(unix.SIGSTKFLT), uint32(unix.SIGSYS)}

// rules are the bodies for the calls of bounded, by name.
func rules(oneUser bool) map[string]body {
	owner := func(first int) body {
		if !oneUser {
			return answer(allow)
		}
		return func(a *assembler) {
			for i := range 2 { // an owner that the box does not have
				a.arg(first + i)
				a.code = append(a.code, jump(unix.BPF_JEQ, 0, 2, 0), jump(unix.BPF_JEQ, ^uint32(0), 1, 0), ret(pretend))
			}
			a.code = append(a.code, ret(allow))
		}
	}
	// signal is a call that queues a signal, of which it says all.
	signal := func(arg int) body {
		return func(a *assembler) {
			a.arg(arg)
			a.any(faults, refuse)
			a.code = append(a.code, ret(allow))
		}
	}
	return map[string]body{
		"clone": func(a *assembler) {
			a.arg(0)
			a.code = append(a.code, jump(unix.BPF_JSET, newNamespaces, 0, 1), ret(refuse), ret(allow))
		},
		"socket": func(a *assembler) {
			a.arg(0)
			a.any([]uint32{unix.AF_UNIX, unix.AF_INET, unix.AF_INET6}, allow)
			a.unless(unix.AF_NETLINK, noFamily)
			a.arg(2)
			a.unless(unix.NETLINK_ROUTE, noFamily)
			a.code = append(a.code, ret(allow))
		},
		"ptrace": func(a *assembler) {
			a.arg(0)
			a.any([]uint32{unix.PTRACE_TRACEME, unix.PTRACE_DETACH}, allow)
			a.code = append(a.code, ret(refuse))
		},
		"ioctl": func(a *assembler) {
			a.arg(1)
			a.any([]uint32{unix.TIOCSTI, tioclinux}, refuse)
			a.code = append(a.code, ret(allow))
		},
		"chown": owner(1), "lchown": owner(1), "fchown": owner(1), "fchownat": owner(2),
		"prlimit64": func(a *assembler) { // a process is named 0, or there is no new limit
			a.arg(0)
			a.code = append(a.code, jump(unix.BPF_JEQ, 0, 4, 0))
			a.arg(2)
			a.code = append(a.code, jump(unix.BPF_JEQ, 0, 0, 3))
			a.high(2)
			a.code = append(a.code, jump(unix.BPF_JEQ, 0, 0, 1), ret(allow), ret(refuse))
		},
		"rt_sigqueueinfo":   signal(1),
		"rt_tgsigqueueinfo": signal(2),
		"pidfd_send_signal": func(a *assembler) { // without siginfo it is as kill
			a.arg(1)
			for i, f := range faults {
				a.code = append(a.code, jump(unix.BPF_JEQ, f, uint8(len(faults)-i), 0))
			}
			a.code = append(a.code, ret(allow))
			a.arg(2)
			a.unless(0, refuse)
			a.high(2)
			a.unless(0, refuse)
			a.code = append(a.code, ret(allow))
		},
		"fcntl": func(a *assembler) {
			a.arg(1)
			a.unless(unix.F_SETSIG, allow)
			a.arg(2)
			a.any(faults, refuse)
			a.code = append(a.code, ret(allow))
		},
	}
}
