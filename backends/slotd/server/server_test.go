//go:build linux

package server_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"hermes/backends"
	"hermes/backends/backendtest"
	"hermes/backends/slotd/client"
	"hermes/backends/slotd/host"
	"hermes/backends/slotd/server"
	"hermes/backends/slotd/wire"
	"hermes/backends/trees"
)

const token = "a-token-for-tests"

// TestMain is slotd itself when a test starts this program under that name.
func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == wire.Name {
		os.Exit(server.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

// servers is a back-end whose boxes are servers in this process, each behind a socket.
type servers struct {
	t     *testing.T
	mu    sync.Mutex
	boxes map[string]*served
}

// served is one server and the connections to it.
type served struct {
	*client.Client
	from  *servers
	stop  context.CancelFunc
	ended chan error
	mu    sync.Mutex
	conns []net.Conn
}

func (s *servers) Traits() backends.Traits {
	return backends.Traits{Name: "slotd", Network: "host", PTY: true, Root: os.Geteuid() == 0}
}

func (s *servers) Open(ctx context.Context, spec backends.Spec) (backends.Sandbox, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if spec.Image != "" {
		return nil, fmt.Errorf("image %q: %w", spec.Image, backends.ErrImage)
	}
	return s.open(host.Options{Env: spec.Env})
}

func (s *servers) open(o host.Options) (*served, error) {
	var err error
	o.Home, err = os.MkdirTemp(s.t.TempDir(), "")
	if err != nil {
		return nil, err
	}
	o.Resets = true
	sock := filepath.Join(s.t.TempDir(), "s")
	l, err := net.Listen("unix", sock)
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.Background())
	b := &served{from: s, stop: stop, ended: make(chan error, 1)}
	go func() { b.ended <- server.Serve(ctx, l, server.Options{Options: o, Token: token}) }()
	b.Client = client.New(func(ctx context.Context) (net.Conn, error) {
		c, err := new(net.Dialer).DialContext(ctx, "unix", sock)
		if err == nil {
			b.mu.Lock()
			b.conns = append(b.conns, c)
			b.mu.Unlock()
		}
		return c, err
	}, client.Options{Token: token, Close: func(ctx context.Context) error {
		stop()
		return errors.Join(<-b.ended, trees.Remove(ctx, o.Home))
	}})
	s.mu.Lock()
	s.boxes[b.ID()] = b
	s.mu.Unlock()
	return b, nil
}

func (s *servers) Close(context.Context) error { return nil }

func (s *servers) find(b backends.Sandbox) *served {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.boxes[b.ID()]
}

func (s *servers) kill(b backends.Sandbox) error {
	x := s.find(b)
	x.stop()
	err := <-x.ended
	x.ended <- err
	return err
}

func (s *servers) cut(b backends.Sandbox) error {
	x := s.find(b)
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, c := range x.conns {
		c.Close()
	}
	x.conns = nil
	return nil
}

func newServers(t *testing.T) *servers { return &servers{t: t, boxes: map[string]*served{}} }

func TestContract(t *testing.T) {
	s := newServers(t)
	backendtest.Run(t, func(t *testing.T) backends.Backend { return s }, backendtest.Options{
		Token: token, Secret: "HERMES_NOT_HERE", Kill: s.kill, Cut: s.cut,
		Skips: []int{29, 35, 46, 50, 51, 52, 53, 54, 55, 56, 59, 67, 68, 69, 71, 72, 73, 84},
	})
}

func TestWrongTokenIsRefused(t *testing.T) {
	s := newServers(t)
	b, err := s.open(host.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close(context.Background())
	thief := client.New(func(ctx context.Context) (net.Conn, error) {
		return net.Dial("unix", b.conn(t))
	}, client.Options{Token: "guess"})
	defer thief.Close(context.Background())
	if r, err := thief.Exec(t.Context(), backends.Cmd{Shell: "id"}); err == nil {
		t.Errorf("a command ran with a wrong token: %+v", r)
	}
	if h, err := thief.Health(t.Context()); err != nil || !h.OK {
		t.Errorf("health needs no token: %+v, %v", h, err)
	}
}

// conn gives the address of the server.
func (b *served) conn(t *testing.T) string {
	t.Helper()
	if _, err := b.Health(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.conns[0].RemoteAddr().String()
}

func TestLimitsHoldInEveryCommand(t *testing.T) {
	s := newServers(t)
	b, err := s.open(host.Options{
		Rlimits: []host.Rlimit{{Resource: unix.RLIMIT_FSIZE, Value: 1 << 20}, {Resource: unix.RLIMIT_NOFILE, Value: 77}},
		Spawn:   func() error { return unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) },
	})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close(context.Background())
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 5 {
				r, err := b.Exec(t.Context(), backends.Cmd{Shell: "ulimit -n; ulimit -Hn; grep -c 'NoNewPrivs:.1' /proc/self/status"})
				if err != nil || string(r.Stdout) != "77\n77\n1\n" {
					t.Errorf("%q %q, %v", r.Stdout, r.Stderr, err)
				}
			}
		})
	}
	all.Wait()
	r, err := b.Exec(t.Context(), backends.Cmd{Argv: []string{"sh", "-c", "head -c 2000000 /dev/zero > big; wc -c < big"}})
	if err != nil || strings.TrimSpace(string(r.Stdout)) != "1048576" {
		t.Errorf("file beyond its limit: %q, %v", r.Stdout, err)
	}
}

func TestLostReason(t *testing.T) {
	broken := fmt.Errorf("out of memory: %w", backends.ErrBroken)
	c := client.New(func(context.Context) (net.Conn, error) { return nil, errors.New("refused") },
		client.Options{Cause: func(context.Context) error { return broken }})
	defer c.Close(context.Background())
	if _, err := c.Exec(t.Context(), backends.Cmd{Shell: "true"}); !errors.Is(err, backends.ErrBroken) || errors.Is(err, backends.ErrLost) {
		t.Error(err)
	}
}

// process starts slotd as a separate process on an inherited socket.
func process(t *testing.T, args ...string) (c *client.Client, cmd *exec.Cmd, life *os.File, home string) {
	t.Helper()
	home = t.TempDir()
	sock := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", sock)
	if err != nil {
		t.Fatal(err)
	}
	lf, err := l.(*net.UnixListener).File()
	if err != nil {
		t.Fatal(err)
	}
	r, life, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd = exec.Command(self)
	cmd.Args = append([]string{wire.Name, "serve", "--listen", "fd:3", "--life", "fd:4", "--token", "stdin", "--home", home}, args...)
	cmd.ExtraFiles = []*os.File{lf, r}
	cmd.Stdin, cmd.Stderr = strings.NewReader(token+"\n"), os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lf.Close()
	r.Close()
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	l.Close() // else a dead server's socket would still take connections
	c = client.New(func(ctx context.Context) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", sock)
	}, client.Options{Token: token})
	t.Cleanup(func() {
		c.Close(context.Background())
		life.Close()
		cmd.Wait()
	})
	return c, cmd, life, home
}

func TestProgram(t *testing.T) {
	c, cmd, life, home := process(t, "--env", "A=b c", "--rlimit", "nofile=99")
	r, err := c.Exec(t.Context(), backends.Cmd{Shell: "pwd; echo $A; ulimit -n; ls /proc/self/fd | wc -l"})
	if err != nil || string(r.Stdout) != home+"\nb c\n99\n4\n" { // 0, 1, 2 and the folder that ls reads
		t.Fatalf("%q %q, %v", r.Stdout, r.Stderr, err)
	}
	p, err := c.Start(t.Context(), backends.Cmd{Shell: "(setsid sleep 1000 &) ; exec sleep 1000"}, backends.StartOptions{})
	if err != nil {
		t.Fatal(err)
	}
	life.Close() // the owner is dead
	if err := cmd.Wait(); err != nil {
		t.Errorf("end of the server: %v", err)
	}
	if err := unix.Kill(p.PID(), 0); err == nil {
		t.Errorf("process %d outlived the server", p.PID())
	}
}

func TestKilledProgramIsALostBox(t *testing.T) {
	c, cmd, _, _ := process(t)
	done := make(chan error, 1)
	p, err := c.Start(t.Context(), backends.Cmd{Shell: "echo up; exec sleep 1000"}, backends.StartOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Kill(p.PID(), unix.SIGKILL) // the killed server cannot do it
	go func() {
		_, err := p.Wait(t.Context())
		done <- err
	}()
	cmd.Process.Kill()
	if err := <-done; !errors.Is(err, backends.ErrLost) {
		t.Errorf("wait: %v", err)
	}
	if _, err := c.ReadFile(t.Context(), "f", 0); !errors.Is(err, backends.ErrLost) {
		t.Errorf("read: %v", err)
	}
}

func TestMain_usage(t *testing.T) {
	for _, args := range [][]string{{},
		{"nonsense"},
		{"serve", "--env", "x"},
		{"serve", "--rlimit", "lunch=1"},
		{"serve", "extra"},
		{"serve", "--user", "me"}} {
		var out, errs strings.Builder
		if code := server.Main(slices.Clone(args), strings.NewReader(""), &out, &errs); code != 2 || errs.Len() == 0 || out.Len() > 0 {
			t.Errorf("%q: code %d, stdout %q, stderr %q", args, code, out.String(), errs.String())
		}
	}
	var out, errs strings.Builder
	if code := server.Main([]string{"probe"}, strings.NewReader(""), &out, &errs); code != 0 || !strings.Contains(out.String(), `"arch"`) {
		t.Errorf("probe: code %d, %q %q", code, out.String(), errs.String())
	}
}

func TestCommandsOfAnotherUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can start commands of another user")
	}
	home, err := os.MkdirTemp("/tmp", "hermes-user-") // t.TempDir is closed to others
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(home)
	if err := errors.Join(os.Chown(home, 12345, 12345), os.Chmod(home, 0o700)); err != nil {
		t.Fatal(err)
	}
	o := host.Options{Home: home, User: &wire.User{UID: 12345, GID: 12345}, Rlimits: []host.Rlimit{{Resource: unix.RLIMIT_NPROC, Value: 40}}}
	h, err := host.New(o)
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close(context.Background())
	limited := true
	if _, err := h.Exec(t.Context(), backends.Cmd{Shell: "touch ran"}); errors.Is(err, unix.EPERM) { // no CAP_SYS_RESOURCE
		if _, err := os.Stat(filepath.Join(home, "ran")); err == nil {
			t.Fatal("the command ran without its limits")
		}
		o.Rlimits, limited = nil, false
		h, err = host.New(o)
		if err != nil {
			t.Fatal(err)
		}
		defer h.Close(context.Background())
	}
	if err := h.WriteFile(t.Context(), "a/b/f", []byte("x"), 0); err != nil {
		t.Fatal(err)
	}
	r, err := h.Exec(t.Context(), backends.Cmd{Shell: "id -u; id -G; echo y >> a/b/f && touch a/b/g && rm a/b/f && cat a/b/g"})
	if err != nil || string(r.Stdout) != "12345\n12345\n" || r.Code != 0 {
		t.Fatalf("%q %q, %v", r.Stdout, r.Stderr, err)
	}
	if !limited {
		return
	}
	r, err = h.Exec(t.Context(), backends.Cmd{Shell: "grep 'Max processes' /proc/self/limits | tr -s ' '"})
	if err != nil || string(r.Stdout) != "Max processes 40 40 processes \n" {
		t.Fatalf("%q %q, %v", r.Stdout, r.Stderr, err)
	}
	// The limit was seen to be set, so a bounded number of children may be tried: 60 in 40.
	r, err = h.Exec(t.Context(), backends.Cmd{
		Argv:    []string{"sh", "-c", "i=0; while [ $i -lt 60 ]; do sleep 30 & i=$((i+1)); done; echo all"},
		Timeout: 5 * time.Second,
	})
	if err != nil || strings.Contains(string(r.Stdout), "all") {
		t.Errorf("60 processes where 40 are allowed: %q %q, %v", r.Stdout, r.Stderr, err)
	}
}
