// Package filter is the seccomp filter of commands in a box: what no command needs and
// has been the way out of many a box.
package filter

import (
	"fmt"
	"maps"
	"runtime"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Answers of the filter.
const (
	allow    = unix.SECCOMP_RET_ALLOW
	pretend  = unix.SECCOMP_RET_ERRNO // success without doing it
	refuse   = unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)
	absent   = unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)
	noFamily = unix.SECCOMP_RET_ERRNO | uint32(unix.EAFNOSUPPORT)
)

// Where things stand in struct seccomp_data.
const (
	atNumber = 0
	atArch   = 4
	atArgs   = 16 // 8 bytes each, low word first
)

// newNamespaces are the flags of clone that make namespaces.
const newNamespaces = unix.CLONE_NEWNS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC |
	unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNET

// refused are the calls that no command needs and that have been the way out of many a
// box: mounts, namespaces, keys, kernel programs and modules, other processes' memory.
var refused = []uint32{
	unix.SYS_MOUNT, unix.SYS_UMOUNT2, unix.SYS_PIVOT_ROOT, unix.SYS_CHROOT, unix.SYS_SETNS, unix.SYS_UNSHARE,
	unix.SYS_FSOPEN, unix.SYS_FSCONFIG, unix.SYS_FSMOUNT, unix.SYS_FSPICK, unix.SYS_OPEN_TREE, unix.SYS_MOVE_MOUNT, unix.SYS_MOUNT_SETATTR,
	unix.SYS_KEYCTL, unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY,
	unix.SYS_BPF, unix.SYS_PERF_EVENT_OPEN, unix.SYS_USERFAULTFD,
	unix.SYS_KEXEC_LOAD, unix.SYS_KEXEC_FILE_LOAD, unix.SYS_INIT_MODULE, unix.SYS_FINIT_MODULE, unix.SYS_DELETE_MODULE,
	unix.SYS_PROCESS_VM_READV, unix.SYS_PROCESS_VM_WRITEV, unix.SYS_KCMP, unix.SYS_PIDFD_GETFD, unix.SYS_PROCESS_MADVISE,
	unix.SYS_OPEN_BY_HANDLE_AT, unix.SYS_NAME_TO_HANDLE_AT, unix.SYS_FANOTIFY_INIT,
	unix.SYS_SWAPON, unix.SYS_SWAPOFF, unix.SYS_REBOOT, unix.SYS_SYSLOG, unix.SYS_ACCT, unix.SYS_QUOTACTL, unix.SYS_QUOTACTL_FD,
	unix.SYS_SETTIMEOFDAY, unix.SYS_CLOCK_SETTIME, unix.SYS_VHANGUP, unix.SYS_LOOKUP_DCOOKIE, unix.SYS_NFSSERVCTL,
	unix.SYS_SETHOSTNAME, unix.SYS_SETDOMAINNAME, unix.SYS_MOVE_PAGES, unix.SYS_MIGRATE_PAGES,
}

// missing are calls for which programs have another way when the kernel lacks them.
// clone3 hides its flags from a filter.
var missing = []uint32{unix.SYS_CLONE3, unix.SYS_IO_URING_SETUP, unix.SYS_IO_URING_ENTER, unix.SYS_IO_URING_REGISTER}

// Load installs the filter on the calling thread, and so on every command that it
// starts. A call of another architecture, the 32-bit one too, does not exist. In a box
// with oneUser, changes of a file's owner are accepted and do nothing.
func Load(oneUser bool) error { return load(Program(oneUser)) }

// Program is the filter as a classic BPF program. The kernel runs it for every number
// there is when it is loaded, to know those that are always allowed: so numbers are
// searched by halves, which makes the loading, once for every command of some boxes, cost
// a third of what a list does.
func Program(oneUser bool) []unix.SockFilter {
	t := table{}
	for _, nr := range append(slices.Clone(refused), refusedHere...) {
		t.answer(nr, refuse)
	}
	for _, nr := range missing {
		t.answer(nr, absent)
	}
	t[unix.SYS_CLONE] = func(a *assembler) {
		a.arg(0)
		a.code = append(a.code, unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K, K: newNamespaces, Jf: 1}, ret(refuse), ret(allow))
	}
	t[unix.SYS_SOCKET] = func(a *assembler) {
		a.arg(0)
		a.any([]uint32{unix.AF_UNIX, unix.AF_INET, unix.AF_INET6}, allow)
		a.unless(unix.AF_NETLINK, noFamily)
		a.arg(2)
		a.unless(unix.NETLINK_ROUTE, noFamily)
		a.code = append(a.code, ret(allow))
	}
	t[unix.SYS_PTRACE] = func(a *assembler) { // only what the server itself needs to hold a command at its start
		a.arg(0)
		a.any([]uint32{unix.PTRACE_TRACEME, unix.PTRACE_DETACH}, allow)
		a.code = append(a.code, ret(refuse))
	}
	t[unix.SYS_IOCTL] = func(a *assembler) {
		a.arg(1)
		a.any([]uint32{unix.TIOCSTI, tioclinux}, refuse)
		a.code = append(a.code, ret(allow))
	}
	for nr, first := range chowns {
		if !oneUser {
			break
		}
		t[nr] = func(a *assembler) {
			for i := range 2 { // an owner that the box does not have
				a.arg(first + i)
				a.code = append(a.code,
					unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: 0, Jt: 2},
					unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: ^uint32(0), Jt: 1},
					ret(pretend))
			}
			a.code = append(a.code, ret(allow))
		}
	}
	a := &assembler{}
	a.load(atArch)
	a.unless(auditArch, absent)
	a.load(atNumber)
	a.search(t.ranges())
	return a.code
}

// table holds what is done about a call, by its number. What is not in it is allowed.
type table map[uint32]func(*assembler)

// answer makes the filter answer a call.
func (t table) answer(nr, answer uint32) {
	t[nr] = func(a *assembler) { a.code = append(a.code, ret(answer)) }
}

// numbers is what is done about all calls from a number up to that of the next range.
type numbers struct {
	from uint32
	body func(*assembler)
}

// ranges are all numbers, in order.
func (t table) ranges() []numbers {
	allowed := func(a *assembler) { a.code = append(a.code, ret(allow)) }
	all := []numbers{{0, allowed}}
	for _, nr := range slices.Sorted(maps.Keys(t)) {
		if last := len(all) - 1; all[last].from == nr { // right after the one before
			all = all[:last]
		}
		all = append(all, numbers{nr, t[nr]}, numbers{nr + 1, allowed})
	}
	if x32Bit != 0 {
		all = append(all, numbers{x32Bit, func(a *assembler) { a.code = append(a.code, ret(absent)) }})
	}
	return all
}

// search adds what finds the range of the loaded number, and their bodies.
func (a *assembler) search(all []numbers) {
	if len(all) == 1 {
		all[0].body(a)
		return
	}
	middle := len(all) / 2
	at := len(a.code)
	a.code = append(a.code, unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K, K: all[middle].from, Jf: 1}, unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JA})
	a.search(all[:middle])
	a.code[at+1].K = uint32(len(a.code) - at - 2)
	a.search(all[middle:])
}

// tioclinux pastes into a console (linux/tty.h).
const tioclinux = 0x541c

// assembler appends instructions.
type assembler struct{ code []unix.SockFilter }

func ret(k uint32) unix.SockFilter { return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: k} }

func (a *assembler) load(offset uint32) {
	a.code = append(a.code, unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: offset})
}

// arg loads the low word of an argument; both architectures are little-endian.
func (a *assembler) arg(i int) { a.load(uint32(atArgs + 8*i)) }

// unless ends with answer when the loaded word is not k.
func (a *assembler) unless(k, answer uint32) {
	a.code = append(a.code, unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: k, Jt: 1}, ret(answer))
}

// any ends with answer when the loaded word is one of ks (at most 200).
func (a *assembler) any(ks []uint32, answer uint32) {
	for i, k := range ks {
		a.code = append(a.code, unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: k, Jt: uint8(len(ks) - i)})
	}
	a.code = append(a.code, unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JA, K: 1}, ret(answer))
}

func load(code []unix.SockFilter) error {
	prog := unix.SockFprog{Len: uint16(len(code)), Filter: &code[0]}
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&prog)))
	runtime.KeepAlive(code)
	if errno != 0 {
		return fmt.Errorf("load the seccomp filter of %d instructions: %w", len(code), errno)
	}
	return nil
}
