// Package escapes tries to get out of a box, in every way that we know.
//
// Its attempts are system calls and files: each runs as a program of its own inside the
// box, which is the test's own program, put there by [Run]. So a test that uses this
// package calls [Main] before anything else. [Host] and [Apart] look from the shell for
// what a box must not see of its machine and of other boxes.
package escapes

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"hermes/backends"
)

// command is the first argument of the program that makes one attempt.
const command = "hermes-escape"

// Main makes an attempt when args ask for one: then handled is true and the program must
// exit with code, which is 0 when the attempt was refused.
func Main(args []string) (code int, handled bool) {
	if len(args) != 3 || args[1] != command {
		return 0, false
	}
	f, ok := attempts()[args[2]]
	if !ok {
		fmt.Println("no such attempt")
		return 3, true
	}
	err := f()
	fmt.Println(err)
	if err == nil {
		return 1, true
	}
	return 0, true
}

// Options tell what is different about the boxes of a back-end.
type Options struct {
	Repeats int // of all attempts; 0: once
	// Open are attempts that this back-end lets work, with the reason. They are made all
	// the same, and must work: a list that is too long hides something.
	Open map[string]string
}

// Names lists the attempts.
func Names() []string { return slices.Sorted(maps.Keys(attempts())) }

// Run makes every attempt in a box; none may work but those that Options name.
func Run(t *testing.T, x backends.Sandbox, o Options) {
	t.Helper()
	raw, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	if err := x.WriteFile(t.Context(), "probe", raw, 0o755); err != nil {
		t.Fatal(err)
	}
	for range max(o.Repeats, 1) {
		for _, name := range Names() {
			t.Run(name, func(t *testing.T) {
				r, err := x.Exec(t.Context(), backends.Cmd{Argv: []string{"./probe", command, name}, Merge: true})
				if err != nil {
					t.Fatal(err)
				}
				_, open := o.Open[name]
				if worked := r.Code == 1; r.Code > 1 || worked != open {
					t.Errorf("expected to work: %v; exit code %d, %s", open, r.Code, r.Stdout)
				}
			})
		}
	}
}

// sh runs a script and returns its output.
func sh(t *testing.T, x backends.Sandbox, script string) string {
	t.Helper()
	r, err := x.Exec(t.Context(), backends.Cmd{Shell: script, Merge: true})
	if err != nil {
		t.Fatalf("%s: %v", script, err)
	}
	return strings.TrimSpace(string(r.Stdout))
}

// open makes a box that ends with the test.
func open(t *testing.T, b backends.Backend) backends.Sandbox {
	t.Helper()
	x, err := b.Open(t.Context(), backends.Spec{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := x.Close(context.Background()); err != nil {
			t.Errorf("close box %s: %v", x.ID(), err)
		}
	})
	return x
}

// call makes a raw system call and returns its error.
func call(nr uintptr, args ...uintptr) error {
	var a [6]uintptr
	copy(a[:], args)
	_, _, errno := unix.Syscall6(nr, a[0], a[1], a[2], a[3], a[4], a[5])
	if errno == 0 {
		return nil
	}
	return errno
}

// socket makes a socket of a family.
func socket(family, kind, protocol int) func() error {
	return func() error {
		_, err := unix.Socket(family, kind, protocol)
		return err
	}
}

// touch opens a file for reading, or for writing.
func touch(path string, flags int) func() error {
	return func() error {
		f, err := os.OpenFile(path, flags, 0o644)
		if err != nil {
			return err
		}
		defer f.Close()
		if flags == os.O_RDONLY {
			n, err := f.Read(make([]byte, 16))
			if n == 0 && (err == nil || err == io.EOF) {
				return errors.New("it is empty")
			}
			return err
		}
		_, err = f.WriteString("1")
		return err
	}
}

func buffer() uintptr { return uintptr(unsafe.Pointer(&make([]byte, 4096)[0])) }

func text(s string) uintptr {
	b, _ := unix.BytePtrFromString(s)
	return uintptr(unsafe.Pointer(b))
}

// attempts are ways out of a box, or towards the host, by system call or file. Each runs
// as a program of its own in the box; no error means that it worked.
func attempts() map[string]func() error {
	return map[string]func() error{
		"mount a tmpfs":         func() error { return unix.Mount("tmpfs", "/tmp", "tmpfs", 0, "") },
		"mount a new proc":      func() error { return unix.Mount("proc", "/tmp", "proc", 0, "") },
		"remount /usr writable": func() error { return unix.Mount("", "/usr", "", unix.MS_REMOUNT|unix.MS_BIND, "") },
		"unmount /proc/sys":     func() error { return unix.Unmount("/proc/sys", unix.MNT_DETACH) },
		"fsopen":                func() error { _, err := unix.Fsopen("tmpfs", 0); return err },
		"open_tree":             func() error { _, err := unix.OpenTree(unix.AT_FDCWD, "/", unix.OPEN_TREE_CLONE); return err },
		"pivot_root":            func() error { return unix.PivotRoot("/tmp", "/tmp") },
		"chroot":                func() error { return unix.Chroot("/tmp") },
		"unshare a user ns":     func() error { return unix.Unshare(unix.CLONE_NEWUSER) },
		"unshare a mount ns":    func() error { return unix.Unshare(unix.CLONE_NEWNS) },
		"unshare a net ns":      func() error { return unix.Unshare(unix.CLONE_NEWNET) },
		"clone a user ns":       func() error { return call(unix.SYS_CLONE, unix.CLONE_NEWUSER|uintptr(unix.SIGCHLD)) },
		"clone3":                func() error { return call(unix.SYS_CLONE3, buffer(), 88) },
		"setns":                 func() error { return unix.Setns(0, 0) },
		"namespaces of pid 1":   func() error { _, err := os.Readlink("/proc/1/ns/net"); return err },
		"ptrace pid 1":          func() error { return unix.PtraceAttach(1) },
		"ptrace seize":          func() error { return unix.PtraceSeize(os.Getppid()) },
		"memory of pid 1":       touch("/proc/1/mem", os.O_RDWR),
		"read memory across":    func() error { return call(unix.SYS_PROCESS_VM_READV, 1, buffer(), 1, buffer(), 1) },
		"root of pid 1":         func() error { _, err := os.ReadDir("/proc/1/root" + "/."); return err },
		"cwd of pid 1":          func() error { _, err := os.ReadDir("/proc/1/cwd/"); return err },
		"program of pid 1":      touch("/proc/1/exe", os.O_RDONLY),
		"environment of pid 1":  touch("/proc/1/environ", os.O_RDONLY),
		"descriptors of pid 1":  touch("/proc/1/fd/3", os.O_RDWR),
		"links of descriptors":  func() error { _, err := os.Readlink("/proc/1/fd/3"); return err },
		"pidfd_getfd":           func() error { return call(unix.SYS_PIDFD_GETFD, 0, 0, 0) },
		"become another user":   func() error { return call(unix.SYS_SETUID, 1000) },
		"become another group":  func() error { return call(unix.SYS_SETGID, 1000) },
		"set groups":            func() error { return call(unix.SYS_SETGROUPS, 1, buffer()) },
		"take capabilities":     takeCapabilities,
		"make a device":         func() error { return unix.Mknod("/tmp/sda", unix.S_IFBLK|0o666, 8<<8) },
		"read kernel messages":  touch("/dev/kmsg", os.O_RDONLY),
		"read memory device":    touch("/dev/mem", os.O_RDONLY),
		"syslog":                func() error { return call(unix.SYS_SYSLOG, 3, buffer(), 4096) },
		"join a keyring":        func() error { _, err := unix.KeyctlJoinSessionKeyring("x"); return err },
		"add a key": func() error {
			_, err := unix.AddKey("user", "x", []byte("y"), unix.KEY_SPEC_PROCESS_KEYRING)
			return err
		},
		"list keys":               touch("/proc/keys", os.O_RDONLY),
		"bpf":                     func() error { return call(unix.SYS_BPF, 0, buffer(), 72) },
		"perf events":             func() error { return call(unix.SYS_PERF_EVENT_OPEN, buffer(), 0, ^uintptr(0), ^uintptr(0), 0) },
		"userfaultfd":             func() error { return call(unix.SYS_USERFAULTFD, 1) },
		"io_uring":                func() error { return call(unix.SYS_IO_URING_SETUP, 4, buffer()) },
		"vsock":                   socket(unix.AF_VSOCK, unix.SOCK_STREAM, 0),
		"packet socket":           socket(unix.AF_PACKET, unix.SOCK_RAW, 0),
		"raw socket":              socket(unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_ICMP),
		"crypto socket":           socket(unix.AF_ALG, unix.SOCK_SEQPACKET, 0),
		"netfilter socket":        socket(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_NETFILTER),
		"kernel events":           socket(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_KOBJECT_UEVENT),
		"open by handle":          func() error { return call(unix.SYS_OPEN_BY_HANDLE_AT, ^uintptr(99), buffer(), 0) },
		"reboot":                  func() error { return unix.Reboot(unix.LINUX_REBOOT_CMD_CAD_OFF) },
		"load a kernel":           func() error { return call(unix.SYS_KEXEC_LOAD, 0, 0, 0, 0) },
		"load a module":           func() error { return unix.InitModule([]byte("x"), "") },
		"swap":                    func() error { return call(unix.SYS_SWAPON, text("/tmp/x"), 0) },
		"set the clock":           func() error { return unix.ClockSettime(unix.CLOCK_REALTIME, &unix.Timespec{Sec: 1}) },
		"set the host's name":     func() error { return unix.Sethostname([]byte("x")) },
		"type into a terminal":    func() error { return call(unix.SYS_IOCTL, 0, unix.TIOCSTI, text("x")) },
		"raise the process limit": func() error { return raise(unix.RLIMIT_NPROC) },
		"raise the file limit":    func() error { return raise(unix.RLIMIT_FSIZE) },
		"run on a core dump":      touch("/proc/sys/kernel/core_pattern", os.O_WRONLY),
		"magic keys":              touch("/proc/sysrq-trigger", os.O_WRONLY),
		"allow namespaces again":  touch("/proc/sys/user/max_user_namespaces", os.O_WRONLY),
		"change a host program":   touch("/usr/bin/env", os.O_WRONLY),
		"new host program":        touch("/usr/bin/hermes-escape", os.O_WRONLY|os.O_CREATE),
		"host passwords":          touch("/etc/shadow", os.O_RDONLY),
		"host devices":            func() error { _, err := os.ReadDir("/sys/class"); return err },
		"host cgroups":            func() error { _, err := os.ReadDir("/sys/fs/cgroup"); return err },
		"the internet":            func() error { return dial("tcp", "192.0.2.1:80") },
		"kill pid 1":              killInit,
	}
}

func raise(which int) error {
	return unix.Setrlimit(which, &unix.Rlimit{Cur: unix.RLIM_INFINITY, Max: unix.RLIM_INFINITY})
}

func dial(network, address string) error {
	c, err := net.DialTimeout(network, address, 3*time.Second)
	if err == nil {
		c.Close()
	}
	return err
}

func takeCapabilities() error {
	head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	all := [2]unix.CapUserData{{Effective: ^uint32(0), Permitted: ^uint32(0)}}
	return unix.Capset(&head, &all[0])
}

// killInit signals the box's server; the box must survive it, which the test sees by
// running the attempts that follow.
func killInit() error {
	for s := unix.Signal(1); s <= 31; s++ {
		unix.Kill(1, s)
	}
	return errors.New("it lives")
}

// Host looks for what a box must not see of its machine: files, processes, sockets,
// descriptors and secrets of the program that made it.
// Rows named by own are left out: there the image has files like the host's.
func Host(t *testing.T, b backends.Backend, own ...string) {
	t.Helper()
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Setenv("HERMES_TEST_SECRET", "sk-live-0123456789")
	leak, err := os.Open(secret) // a descriptor without close-on-exec must not get in
	if err != nil {
		t.Fatal(err)
	}
	defer leak.Close()
	if _, err := unix.FcntlInt(leak.Fd(), unix.F_SETFD, 0); err != nil {
		t.Fatal(err)
	}
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer tcp.Close()
	abstract, err := net.Listen("unix", fmt.Sprintf("@hermes-test-%d", os.Getpid()))
	if err != nil {
		t.Fatal(err)
	}
	defer abstract.Close()
	x := open(t, b)
	port := tcp.Addr().(*net.TCPAddr).Port
	for _, tt := range []struct{ name, script, not string }{
		{"host files", "cat " + secret + "; ls /home /boot /mnt /srv 2>&1 | grep -v 'cannot access'", "x"},
		{"host processes", fmt.Sprintf("ls /proc | grep -x %d; ls -d /proc/[0-9]*/ | wc -l | grep -E '.{3}'", os.Getpid()), "."},
		{"a signal to the host", fmt.Sprintf("kill -0 %d && echo reached", os.Getpid()), "reached"},
		{"the host's loopback", fmt.Sprintf("exec 3<>/dev/tcp/127.0.0.1/%d && echo reached", port), "reached"},
		{"other interfaces", "cat /proc/net/dev | grep -v -e lo: -e Inter -e face", ":"},
		{"routes", "tail -n +2 /proc/net/route", "\t"},
		{"the host's sockets", "cat /proc/net/unix", "hermes-test"},
		{"secrets of the environment", "cat /proc/*/environ | tr '\\0' '\\n'; env; set", "sk-live"},
		{"descriptors", "ls -l /proc/self/fd /proc/$$/fd", "secret"},
		{"sockets of the server", "ls -l /proc/self/fd /proc/$$/fd", "socket:"},
		{"shadow, ssh, hosts of the host", "ls /etc/shadow /etc/ssh ~/.ssh 2>&1 | grep -v 'cannot access'", "/"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if slices.Contains(own, tt.name) {
				t.Skip("the box has such files of its own")
			}
			out := sh(t, x, "exec 2>/dev/null; "+tt.script)
			if out != "" && strings.Contains(out, tt.not) || tt.not == "." && out != "" {
				t.Errorf("%s: %s", tt.script, out)
			}
		})
	}
}

// Links makes sure that a path of the box that leads out of it leads nowhere.
func Links(t *testing.T, b backends.Backend) {
	t.Helper()
	dir := t.TempDir()
	os.Chmod(dir, 0o777)
	x := open(t, b)
	sh(t, x, "ln -s "+dir+" out; ln -s /proc/1/root up")
	for _, path := range []string{"out/f", "up" + dir + "/f", "/../../.." + dir + "/f", dir + "/f"} {
		x.WriteFile(t.Context(), path, []byte("x"), 0o644) // may work, but inside
		if _, err := os.Stat(filepath.Join(dir, "f")); !errors.Is(err, os.ErrNotExist) {
			t.Fatalf("writing %s reached the host: %v", path, err)
		}
	}
	hostname, _ := os.Hostname()
	if raw, err := x.ReadFile(t.Context(), "up/etc/hostname", 0); err == nil && hostname != "" && strings.TrimSpace(string(raw)) == hostname {
		t.Errorf("host name of another root: %q", raw)
	}
}

// Apart makes sure that two boxes see nothing of each other.
func Apart(t *testing.T, b backends.Backend) {
	t.Helper()
	one, two := open(t, b), open(t, b)
	if one.ID() == two.ID() {
		t.Fatal("one id for two boxes")
	}
	sh(t, one, "for d in ~ /tmp /dev/shm /etc /var; do echo one > $d/mark; done; sleep 1000 >/dev/null 2>&1 &")
	if out := sh(t, two, "cat ~/mark /tmp/mark /dev/shm/mark /etc/mark /var/mark 2>/dev/null; ps ax 2>/dev/null | grep '[s]leep 1000'"); out != "" {
		t.Errorf("the second box sees of the first: %s", out)
	}
}

// Exhaust makes sure that a box which takes all it can get (processes, memory, disk)
// harms neither the machine nor another box, and leaves nothing running. Limits of the
// back-end, or of s, hold.
func Exhaust(t *testing.T, b backends.Backend, s backends.Spec) {
	t.Helper()
	neighbour := open(t, b)
	for _, tt := range []struct{ name, script string }{
		{"processes", "f() { [ $1 -gt 0 ] && { f $(($1-1)) & f $(($1-1)) & wait; }; sleep 5; }; f 9"},
		{"memory", "head -c 3000000000 /dev/zero | tail -n 1 | wc -c"},
		{"disk", "head -c 3000000000 /dev/zero > big; head -c 3000000000 /dev/zero > /tmp/big"},
		{"survivors", "for i in 1 2 3; do (setsid sh -c 'trap \"\" TERM HUP INT; while :; do sleep 1000; done' >/dev/null 2>&1 &); done"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			x, err := b.Open(t.Context(), s)
			if err != nil {
				t.Fatal(err)
			}
			_, err = x.Exec(t.Context(), backends.Cmd{Shell: tt.script, Timeout: 5 * time.Second})
			if err != nil && !errors.Is(err, backends.ErrBroken) {
				t.Errorf("not told as the command's doing: %v", err)
			}
			if got := sh(t, neighbour, "echo well"); got != "well" {
				t.Errorf("the other box: %q", got)
			}
			if err := x.Close(context.Background()); err != nil {
				t.Errorf("close: %v", err)
			}
		})
	}
}
