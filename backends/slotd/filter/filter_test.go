package filter

import (
	"encoding/binary"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

// run interprets a program on one call, with the little that filters are made of.
func run(t *testing.T, code []unix.SockFilter, arch, nr uint32, args ...uint32) uint32 {
	t.Helper()
	data := make([]byte, 64)
	binary.LittleEndian.PutUint32(data[atNumber:], nr)
	binary.LittleEndian.PutUint32(data[atArch:], arch)
	for i, a := range args {
		binary.LittleEndian.PutUint32(data[atArgs+8*i:], a)
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

// TestProgram asks about every number there may be.
func TestProgram(t *testing.T) {
	code := Program(true)
	if len(code) > 4096 {
		t.Fatalf("%d instructions, the kernel takes 4,096", len(code))
	}
	never := append(slices.Clone(refused), refusedHere...)
	never = append(never, unix.SYS_PTRACE) // with these arguments
	for nr := range uint32(2048) {
		want := uint32(allow)
		switch {
		case slices.Contains(never, nr):
			want = refuse
		case slices.Contains(missing, nr):
			want = absent
		case nr == unix.SYS_SOCKET:
			want = noFamily
		}
		if nr == unix.SYS_CLONE {
			want = allow
		}
		if got := run(t, code, auditArch, nr, 99, 99, 99); got != want {
			if _, owner := chowns[nr]; owner && got == pretend {
				continue
			}
			t.Errorf("call %d: %#x, want %#x", nr, got, want)
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
	} {
		if got := run(t, code, auditArch, tt.nr, tt.args...); got != tt.want {
			t.Errorf("%s: %#x, want %#x", tt.name, got, tt.want)
		}
	}
	if got := run(t, Program(false), auditArch, unix.SYS_FCHOWN, 3, 33, 33); got != allow {
		t.Errorf("another owner in a box with several users: %#x", got)
	}
}
