//go:build linux

package pid1

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// TestMain is also the helper, and the server that takes the place of pid 1. The server
// answers a line with its pid and the line, and "adopt PID" with how that child ended.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == "fork" {
		unix.CloseOnExec(Socket)
		os.Exit(Serve(Socket))
	}
	if len(os.Args) == 2 && os.Args[1] == "serve" {
		os.Exit(server())
	}
	os.Exit(m.Run())
}

func server() int {
	in := bufio.NewScanner(os.NewFile(Socket, "socket"))
	out := os.NewFile(Socket, "socket")
	for in.Scan() {
		if why, bad := strings.CutPrefix(in.Text(), "complain "); bad {
			IsUp(out, why)
			return 1
		}
		var pid int
		if _, err := fmt.Sscanf(in.Text(), "adopt %d", &pid); err == nil {
			IsUp(out, "")
			var ws unix.WaitStatus
			_, err := unix.Wait4(pid, &ws, 0, nil)
			fmt.Fprintf(out, "%d %v\n", ws.ExitStatus(), err)
			continue
		}
		fmt.Fprintln(out, os.Getpid(), in.Text())
	}
	return 0
}

// helper starts a helper.
func helper(t *testing.T) *Helper {
	t.Helper()
	ours, theirs := pair(t)
	cmd := exec.Command("/proc/self/exe", "fork")
	cmd.ExtraFiles = []*os.File{theirs}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	theirs.Close()
	t.Cleanup(func() {
		ours.Close()
		if err := cmd.Wait(); err != nil {
			t.Error("the helper: ", err)
		}
	})
	h, err := NewHelper(ours)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func pair(t *testing.T) (*net.UnixConn, *os.File) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	ours := os.NewFile(uintptr(fds[0]), "ours")
	defer ours.Close()
	c, err := net.FileConn(ours)
	if err != nil {
		t.Fatal(err)
	}
	return c.(*net.UnixConn), os.NewFile(uintptr(fds[1]), "theirs")
}

// process is one that a helper has made.
type process struct {
	*Conn
	*os.Process
}

// fork makes a process, which the end of the test ends.
func fork(t *testing.T, h *Helper, flags uint64, group *os.File) process {
	t.Helper()
	ours, theirs := pair(t)
	defer theirs.Close()
	pid, refused, broken := h.Fork(flags, 0, theirs, group)
	if errors.Is(refused, unix.EPERM) || errors.Is(refused, unix.ENOSPC) {
		t.Skip("this machine does not let us make such a process: ", refused)
	}
	if err := errors.Join(refused, broken); err != nil {
		t.Fatal(err)
	}
	p, err := os.FindProcess(pid)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.Kill()
		p.Wait()
		ours.Close()
	})
	return process{h.Conn(ours), p}
}

// execute is a list that becomes a program with three streams.
func execute(argv ...string) *List {
	l := NewList(3)
	for i := range 3 {
		l.Call("set a stream", unix.SYS_DUP3, Slot(i), i, 0)
	}
	l.Call("let signals in", unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, l.Words(0), 0, 8)
	words := l.Strings(argv)
	for _, dir := range []string{"/nowhere/", "/usr/bin/", "/bin/"} {
		l.Call("execute", unix.SYS_EXECVE, dir+argv[0], words, l.Strings([]string{"A=b", "PATH=/usr/bin:/bin"})).Or(unix.ENOENT, unix.ENOTDIR)
	}
	return l
}

// run starts a command and returns what it wrote, and its end.
func (p process) run(t *testing.T, l *List) (string, unix.WaitStatus, error) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	x, err := p.Start(l, int(null.Fd()), int(w.Fd()), int(w.Fd()))
	w.Close()
	null.Close()
	if err != nil {
		t.Fatal(err)
	}
	out, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	end, ok := <-x.Ended
	if !ok {
		t.Fatal("pid 1 is gone")
	}
	ws, _, err := x.Exit(end)
	return string(out), ws, err
}

func TestCommands(t *testing.T) {
	p := fork(t, helper(t), 0, nil)
	for range 3 {
		out, ws, err := p.run(t, execute("sh", "-c", "echo out $A; echo err >&2; exit 7"))
		if err != nil || out != "out b\nerr\n" || ws.ExitStatus() != 7 {
			t.Errorf("%q, status %d, %v", out, ws.ExitStatus(), err)
		}
	}
	if _, ws, err := p.run(t, execute("sh", "-c", "kill -USR1 $$; sleep 100")); err != nil || ws.Signal() != syscall.SIGUSR1 {
		t.Errorf("ended by %v, %v", ws.Signal(), err)
	}
	if out, _, err := p.run(t, execute("no-such-program")); !errors.Is(err, ErrRefused) || out != "" {
		t.Errorf("a program that is not there: %q, %v", out, err)
	}
	l := NewList(3)
	l.Call("enter a folder", unix.SYS_CHDIR, "/no/such/folder")
	if _, _, err := p.run(t, l); !errors.Is(err, ErrRefused) || !errors.Is(err, unix.ENOENT) || !strings.Contains(err.Error(), "enter a folder") {
		t.Errorf("a call that fails: %v", err)
	}
	if out, _, err := p.run(t, execute("grep", "-E", "SigBlk|SigIgn", "/proc/self/status")); err != nil ||
		out != "SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\n" {
		t.Errorf("signals of a command: %q, %v", out, err)
	}
	if out, _, err := p.run(t, execute("ls", "/proc/self/fd")); err != nil || out != "0\n1\n2\n3\n" { // the last is ls's own
		t.Errorf("descriptors of a command: %q, %v", out, err)
	}
}

// TestManyChildren: as many as the table has run at once; one more is refused, and those go on.
func TestManyChildren(t *testing.T) {
	p := fork(t, helper(t), 0, nil)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var all []*Child
	for range children + 1 {
		x, err := p.Start(execute("cat"), int(r.Fd()), int(w.Fd()), int(w.Fd()))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, x)
	}
	if _, _, err := all[children].Exit(<-all[children].Ended); !errors.Is(err, ErrRefused) || !errors.Is(err, unix.EAGAIN) {
		t.Errorf("child %d: %v", children+1, err)
	}
	known, err := p.Children(t.Context())
	if err != nil || len(known) != children {
		t.Fatalf("%d children, %v", len(known), err)
	}
	for _, x := range known {
		if err := unix.Kill(x.PID, unix.SIGKILL); err != nil {
			t.Error(err)
		}
	}
	for _, x := range all[:children] {
		if ws, _, err := x.Exit(<-x.Ended); err != nil || ws.Signal() != syscall.SIGKILL {
			t.Errorf("child %d: %v, %v", x.PID, ws, err)
		}
	}
	if known, err := p.Children(t.Context()); err != nil || len(known) != 0 {
		t.Errorf("%d children, %v", len(known), err)
	}
}

// TestPlay: results are arguments of later calls, errors that are accepted leave calls out,
// any other ends the list.
func TestPlay(t *testing.T) {
	p, dir := fork(t, helper(t), 0, nil), t.TempDir()
	l := NewList(0)
	open := func(name string, flags int) Step {
		return l.Call("open "+name, unix.SYS_OPENAT, uint64(1<<64-100), filepath.Join(dir, name), flags|unix.O_CLOEXEC, 0o644)
	}
	a := open("a", unix.O_WRONLY|unix.O_CREAT).Keep()
	l.Call("write a", unix.SYS_WRITE, a, l.Bytes([]byte("first")), 5)
	open("missing", unix.O_WRONLY).Or(unix.ENOENT).Skip(1).Into(a)
	l.Call("left out", unix.SYS_WRITE, a, l.Bytes([]byte("XXXXX")), 5)
	l.Call("write a again", unix.SYS_WRITE, a, l.Bytes([]byte(" second")), 7)
	for range 2 { // a list can be played again
		if err := p.Play(t.Context(), l); err != nil {
			t.Fatal(err)
		}
	}
	if raw, err := os.ReadFile(filepath.Join(dir, "a")); err != nil || string(raw) != "first second" {
		t.Errorf("%q, %v", raw, err)
	}
	l.Call("make a", unix.SYS_MKDIRAT, uint64(1<<64-100), filepath.Join(dir, "a"), 0o755)
	open("b", unix.O_WRONLY|unix.O_CREAT)
	if err := p.Play(t.Context(), l); !errors.Is(err, unix.EEXIST) || !strings.HasPrefix(err.Error(), "make a: ") {
		t.Errorf("a list that fails: %v", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "b")); err == nil {
		t.Error("the list went on after a failure")
	}
	long := NewList(0)
	for range maxOps + 1 {
		long.Call("nothing", unix.SYS_GETPID)
	}
	if err := p.Play(t.Context(), long); !errors.Is(err, ErrTooLong) {
		t.Errorf("%d calls: %v", maxOps+1, err)
	}
	if _, err := p.Start(execute("echo", strings.Repeat("x", maxData))); !errors.Is(err, ErrTooLong) {
		t.Errorf("a command with too much data: %v", err)
	}
	if out, _, err := p.run(t, execute("echo", strings.Repeat("x", 100<<10))); err != nil || len(out) != 100<<10+1 {
		t.Errorf("a long command: %d bytes, %v", len(out), err)
	}
}

// TestHere: a list does the same on a thread of this process.
func TestHere(t *testing.T) {
	name := filepath.Join(t.TempDir(), "a")
	l := NewList(0)
	fd := l.Call("open", unix.SYS_OPENAT, uint64(1<<64-100), name, unix.O_WRONLY|unix.O_CREAT|unix.O_CLOEXEC, 0o644).Keep()
	l.Call("write", unix.SYS_WRITEV, fd, l.Words(l.Text("one "), 4, l.Text("two"), 3), 2)
	l.Call("close", unix.SYS_CLOSE, fd)
	if err := l.Here(); err != nil {
		t.Fatal(err)
	}
	if raw, err := os.ReadFile(name); err != nil || string(raw) != "one two" {
		t.Errorf("%q, %v", raw, err)
	}
	l.Call("close again", unix.SYS_CLOSE, 1<<20)
	if err := l.Here(); !errors.Is(err, unix.EBADF) || !strings.HasPrefix(err.Error(), "close again: ") {
		t.Error(err)
	}
}

// TestEnds: pid 1 ends with the socket, and who waits for its children hears when it is killed.
func TestEnds(t *testing.T) {
	h := helper(t)
	p := fork(t, h, 0, nil)
	p.Socket.Close()
	if s, err := p.Process.Wait(); err != nil || s.ExitCode() != 0 {
		t.Errorf("ended with %v, %v", s, err)
	}
	q := fork(t, h, 0, nil)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	x, err := q.Start(execute("cat"), int(r.Fd()), int(w.Fd()), int(w.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := q.Children(t.Context()); err != nil {
		t.Fatal(err)
	}
	q.Kill()
	if _, ok := <-x.Ended; ok {
		t.Error("the child has ended, which pid 1 cannot have reported")
	}
	if err := q.Play(t.Context(), NewList(0)); !errors.Is(err, ErrGone) {
		t.Errorf("a list: %v", err)
	}
	if _, err := q.Start(execute("true"), int(r.Fd()), int(w.Fd()), int(w.Fd())); !errors.Is(err, ErrGone) {
		t.Errorf("a command: %v", err)
	}
}

// TestOrphans: orphans that fall to pid 1 are collected and not reported.
func TestOrphans(t *testing.T) {
	flags := uint64(unix.CLONE_NEWPID)
	if os.Geteuid() != 0 {
		flags |= unix.CLONE_NEWUSER
	}
	p := fork(t, helper(t), flags, nil)
	for range 3 {
		if _, ws, err := p.run(t, execute("sh", "-c", "for i in 1 2 3 4 5 6 7 8 9; do (true & true) & done; wait")); err != nil || ws.ExitStatus() != 0 {
			t.Fatal(ws, err)
		}
	}
	// The orphans have ended before this command does, or are collected when they do.
	if _, _, err := p.run(t, execute("true")); err != nil {
		t.Fatal(err)
	}
	if left, err := p.Children(t.Context()); err != nil || len(left) != 0 {
		t.Errorf("%v, %v", left, err)
	}
}

// TestBecome: a server takes the place of pid 1, with its number, its socket and its children.
func TestBecome(t *testing.T) {
	self, err := os.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	defer self.Close()
	become := func() *List {
		l := NewList(1)
		l.Call("let signals in", unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, l.Words(0), 0, 8)
		l.Call("keep the socket", unix.SYS_FCNTL, Socket, unix.F_SETFD, 0)
		l.Call("execute the server", unix.SYS_EXECVEAT, Slot(0), "", l.Strings([]string{"pid1", "serve"}), l.Strings(nil), unix.AT_EMPTY_PATH)
		return l
	}
	h := helper(t)
	p := fork(t, h, 0, nil)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	x, err := p.Start(execute("sh", "-c", "read x; exit $x"), int(r.Fd()), int(w.Fd()), int(w.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	r.Close()
	all, err := p.Children(t.Context())
	if err != nil || len(all) != 1 || all[0] != x {
		t.Fatal(all, err)
	}
	complaint, err := p.Become(t.Context(), become(), fmt.Appendf(nil, "adopt %d\n", x.PID), int(self.Fd()))
	if err != nil || complaint != "" {
		t.Fatal(complaint, err)
	}
	fmt.Fprintln(w, 5)
	w.Close()
	fmt.Fprintln(p.Socket, "hello")
	in := bufio.NewScanner(p.Socket)
	for _, want := range []string{"5 <nil>", fmt.Sprintf("%d hello", p.Pid)} {
		if in.Scan(); in.Text() != want {
			t.Errorf("the server says %q, want %q", in.Text(), want)
		}
	}
	q := fork(t, h, 0, nil)
	if complaint, err := q.Become(t.Context(), become(), []byte("complain it is too late\n"), int(self.Fd())); err != nil || complaint != "it is too late" {
		t.Errorf("a server that cannot serve: %q, %v", complaint, err)
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	s := fork(t, h, 0, nil)
	if _, err := s.Become(t.Context(), become(), nil, int(null.Fd())); !errors.Is(err, unix.EACCES) {
		t.Errorf("what is no program: %v", err)
	}
}

// TestGroup makes a process in a cgroup of version 2.
func TestGroup(t *testing.T) {
	raw, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(raw)) {
		f := strings.Fields(line)
		if f[2] != "cgroup2" {
			continue
		}
		dir := filepath.Join(f[1], fmt.Sprintf("hermes-test-%d", os.Getpid()))
		if err := os.Mkdir(dir, 0o755); err != nil {
			continue
		}
		defer os.Remove(dir)
		group, err := os.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer group.Close()
		p := fork(t, helper(t), 0, group)
		defer func() {
			p.Kill()
			p.Process.Wait()
		}()
		if err := p.Play(t.Context(), NewList(0)); err != nil {
			t.Fatal(err)
		}
		if raw, err := os.ReadFile(dir + "/cgroup.procs"); err != nil || strings.TrimSpace(string(raw)) != fmt.Sprint(p.Pid) {
			t.Errorf("processes of the group: %q, %v", raw, err)
		}
		return
	}
	t.Skip("no cgroup of version 2 here in which a group can be made")
}
