//go:build linux

package filter

import (
	"encoding/binary"
	"os"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// run interprets a program on one call, with the little that filters are made of.
func run(t *testing.T, code []unix.SockFilter, arch, nr uint32, args ...uint32) uint32 {
	t.Helper()
	var words []uint32
	for _, a := range args {
		words = append(words, a, 0)
	}
	return runWords(t, code, arch, nr, words)
}

// runWords is given the words of the arguments.
func runWords(t *testing.T, code []unix.SockFilter, arch, nr uint32, words []uint32) uint32 {
	t.Helper()
	data := make([]byte, 64)
	binary.LittleEndian.PutUint32(data[atNumber:], nr)
	binary.LittleEndian.PutUint32(data[atArch:], arch)
	for i, w := range words {
		binary.LittleEndian.PutUint32(data[atArgs+4*i:], w)
	}
	word := uint32(0)
	for at := 0; at < len(code); at++ {
		i := code[at]
		jump := func(yes bool) {
			if yes {
				at += int(i.Jt)
			} else {
				at += int(i.Jf)
			}
		}
		switch i.Code {
		case unix.BPF_LD | unix.BPF_W | unix.BPF_ABS:
			word = binary.LittleEndian.Uint32(data[i.K:])
		case unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K:
			jump(word == i.K)
		case unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K:
			jump(word >= i.K)
		case unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K:
			jump(word&i.K != 0)
		case unix.BPF_JMP | unix.BPF_JA:
			at += int(i.K)
		case unix.BPF_RET | unix.BPF_K:
			return i.K
		default:
			t.Fatalf("instruction %d: code %#x", at, i.Code)
		}
	}
	t.Fatal("the program has no end")
	return 0
}

// TestProgram asks about every number there may be, with arguments that no rule allows.
func TestProgram(t *testing.T) {
	code := Program(true)
	if len(code) > 4096 {
		t.Fatalf("%d instructions, the kernel takes 4,096", len(code))
	}
	t.Logf("%d instructions", len(code))
	var open, missing []string
	for _, g := range allowed {
		open = append(open, g.Calls()...)
	}
	for _, g := range absents {
		missing = append(missing, g.Calls()...)
	}
	special := map[string]uint32{"clone": allow, "socket": noFamily, "ptrace": refuse, "ioctl": allow, "prlimit64": refuse,
		"chown": pretend, "lchown": pretend, "fchown": pretend, "fchownat": pretend,
		"rt_sigqueueinfo": allow, "rt_tgsigqueueinfo": allow, "pidfd_send_signal": allow, "fcntl": allow}
	for nr := range uint32(2048) {
		name, known := names()[nr]
		want, ruled := special[name]
		switch {
		case ruled:
		case !known, slices.Contains(missing, name):
			want = absent
		case slices.Contains(open, name):
			want = allow
		default:
			want = refuse
		}
		if got := run(t, code, auditArch, nr, 99, 99, 99, 99); got != want {
			t.Errorf("call %d (%s): %#x, want %#x", nr, name, got, want)
		}
		if got := run(t, code, auditArch^1, nr); got != absent {
			t.Errorf("call %d of another architecture: %#x", nr, got)
		}
		if got := run(t, code, auditArch, nr|0x40000000); x32Bit != 0 && got != absent {
			t.Errorf("call %d of x32: %#x", nr, got)
		}
	}
	for _, tt := range []struct {
		name string
		nr   uint32
		args []uint32
		want uint32
	}{
		{"a thread", unix.SYS_CLONE, []uint32{unix.CLONE_VM | unix.CLONE_THREAD}, allow},
		{"a user namespace", unix.SYS_CLONE, []uint32{unix.CLONE_NEWUSER}, refuse},
		{"a network among other flags", unix.SYS_CLONE, []uint32{unix.CLONE_VM | unix.CLONE_NEWNET}, refuse},
		{"TCP", unix.SYS_SOCKET, []uint32{unix.AF_INET, unix.SOCK_STREAM, 0}, allow},
		{"routes", unix.SYS_SOCKET, []uint32{unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_ROUTE}, allow},
		{"audit", unix.SYS_SOCKET, []uint32{unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_AUDIT}, noFamily},
		{"packets", unix.SYS_SOCKET, []uint32{unix.AF_PACKET, unix.SOCK_RAW, 0}, noFamily},
		{"to be traced", unix.SYS_PTRACE, []uint32{unix.PTRACE_TRACEME}, allow},
		{"to trace", unix.SYS_PTRACE, []uint32{unix.PTRACE_ATTACH}, refuse},
		{"a window's size", unix.SYS_IOCTL, []uint32{1, unix.TIOCGWINSZ}, allow},
		{"to type", unix.SYS_IOCTL, []uint32{1, unix.TIOCSTI}, refuse},
		{"to paste", unix.SYS_IOCTL, []uint32{1, tioclinux}, refuse},
		{"an owner that is not there", unix.SYS_FCHOWN, []uint32{3, 33, 33}, pretend},
		{"a group that is not there", unix.SYS_FCHOWN, []uint32{3, 0, 33}, pretend},
		{"the owner that is there", unix.SYS_FCHOWN, []uint32{3, 0, 0}, allow},
		{"no change", unix.SYS_FCHOWN, []uint32{3, ^uint32(0), 0}, allow},
		{"its own limits", unix.SYS_PRLIMIT64, []uint32{0, unix.RLIMIT_CPU, 4096}, allow},
		{"the limits of another, to read", unix.SYS_PRLIMIT64, []uint32{1, unix.RLIMIT_CPU, 0}, allow},
		{"the limits of another", unix.SYS_PRLIMIT64, []uint32{1, unix.RLIMIT_CPU, 4096}, refuse},
		{"a queued signal", unix.SYS_RT_SIGQUEUEINFO, []uint32{1, uint32(unix.SIGUSR1), 4096}, allow},
		{"a forged fault", unix.SYS_RT_SIGQUEUEINFO, []uint32{1, uint32(unix.SIGSEGV), 4096}, refuse},
		{"a forged fault of a thread", unix.SYS_RT_TGSIGQUEUEINFO, []uint32{1, 9, uint32(unix.SIGSEGV), 4096}, refuse},
		{"a fault by descriptor, as kill", unix.SYS_PIDFD_SEND_SIGNAL, []uint32{3, uint32(unix.SIGSEGV), 0}, allow},
		{"a forged fault by descriptor", unix.SYS_PIDFD_SEND_SIGNAL, []uint32{3, uint32(unix.SIGSYS), 4096}, refuse},
		{"another signal with siginfo", unix.SYS_PIDFD_SEND_SIGNAL, []uint32{3, uint32(unix.SIGTERM), 4096}, allow},
		{"a file that signals", unix.SYS_FCNTL, []uint32{3, unix.F_SETSIG, uint32(unix.SIGIO)}, allow},
		{"a file that signals a fault", unix.SYS_FCNTL, []uint32{3, unix.F_SETSIG, uint32(unix.SIGSEGV)}, refuse},
	} {
		if got := run(t, code, auditArch, tt.nr, tt.args...); got != tt.want {
			t.Errorf("%s: %#x, want %#x", tt.name, got, tt.want)
		}
	}
	if got := run(t, Program(false), auditArch, unix.SYS_FCHOWN, 3, 33, 33); got != allow {
		t.Errorf("another owner in a box with several users: %#x", got)
	}
}

// TestHighWord: an address that has no low word is one all the same.
func TestHighWord(t *testing.T) {
	for _, tt := range []struct {
		name  string
		nr    uint32
		words []uint32 // of the arguments, low ones first
	}{
		{"a new limit of another", unix.SYS_PRLIMIT64, []uint32{1, 0, unix.RLIMIT_CPU, 0, 0, 1}},
		{"a forged fault by descriptor", unix.SYS_PIDFD_SEND_SIGNAL, []uint32{3, 0, uint32(unix.SIGSEGV), 0, 0, 1}},
	} {
		if got := runWords(t, Program(true), auditArch, tt.nr, tt.words); got != refuse {
			t.Errorf("%s: %#x", tt.name, got)
		}
	}
}

// TestGroups: each name of the list is a call of some architecture, in one group; what is
// bounded has a rule, and nothing else has.
func TestGroups(t *testing.T) {
	known := map[string]bool{}
	for _, arch := range []string{"amd64", "arm64"} {
		raw, err := os.ReadFile("calls_linux_" + arch + ".go")
		if err != nil {
			t.Fatal(err)
		}
		for _, part := range strings.Split(string(raw), "`") {
			for _, name := range strings.Fields(part) {
				known[name] = true
			}
		}
	}
	seen := map[string]string{}
	for _, g := range slices.Concat(allowed, bounded, absents) {
		if g.Reason == "" {
			t.Errorf("%s has no reason", g.Name)
		}
		for _, name := range g.Calls() {
			if !known[name] {
				t.Errorf("%s: no architecture has %s", g.Name, name)
			}
			if seen[name] != "" {
				t.Errorf("%s is in %s and in %s", name, seen[name], g.Name)
			}
			seen[name] = g.Name
		}
	}
	args := rules(true)
	for _, g := range bounded {
		for _, name := range g.Calls() {
			if args[name] == nil {
				t.Errorf("%s has no rule", name)
			}
			delete(args, name)
		}
	}
	for name := range args {
		t.Errorf("%s has a rule and is in no group", name)
	}
}

// TestNumbers: the list counts as the kernel does.
func TestNumbers(t *testing.T) {
	all := names()
	for nr, name := range map[uint32]string{
		unix.SYS_READ: "read", unix.SYS_FCHOWN: "fchown", unix.SYS_CLONE: "clone", unix.SYS_PTRACE: "ptrace", unix.SYS_BPF: "bpf",
		unix.SYS_PRLIMIT64: "prlimit64", unix.SYS_MOUNT: "mount", unix.SYS_KEYCTL: "keyctl", unix.SYS_IO_PGETEVENTS: "io_pgetevents",
		unix.SYS_RSEQ: "rseq", unix.SYS_PIDFD_SEND_SIGNAL: "pidfd_send_signal", unix.SYS_CLONE3: "clone3", unix.SYS_MSEAL: "mseal",
		unix.SYS_MEMFD_SECRET: "memfd_secret", 467: "open_tree_attr", 470: "listns",
	} {
		if all[nr] != name {
			t.Errorf("call %d is %s, want %s", nr, all[nr], name)
		}
	}
}
