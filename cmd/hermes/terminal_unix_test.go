//go:build unix

package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"

	"hermes/internal/fakellm"
)

// screen is a terminal with a program in it, and all that the program wrote.
type screen struct {
	master *os.File
	ended  chan error
	whole  chan struct{} // closed when all that was written has been read
	mu     sync.Mutex
	text   bytes.Buffer
}

// inTerminal starts a command as a terminal's own: closing the screen hangs it up.
func inTerminal(t *testing.T, c *exec.Cmd) *screen {
	t.Helper()
	master, tty, err := pty.Open()
	if err != nil {
		t.Skipf("no pseudo terminals here: %v", err)
	}
	// A file that the runtime polls: closing it ends a read that waits.
	fd, err := unix.FcntlInt(master.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err = errors.Join(err, syscall.SetNonblock(fd, true), master.Close()); err != nil {
		t.Fatal(err)
	}
	master = os.NewFile(uintptr(fd), "terminal")
	s := &screen{master: master, ended: make(chan error, 1), whole: make(chan struct{})}
	s.resize(t, 100)
	c.Stdin = tty
	c.Stdout = tty
	c.Stderr = tty
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := errors.Join(c.Start(), tty.Close()); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(s.whole)
		b := make([]byte, 4096)
		for {
			n, err := master.Read(b)
			s.mu.Lock()
			s.text.Write(b[:n])
			s.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	go func() { s.ended <- c.Wait() }()
	t.Cleanup(func() { master.Close() })
	return s
}

func (s *screen) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

func (s *screen) resize(t *testing.T, columns int) {
	t.Helper()
	raw, err := s.master.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	if cerr := raw.Control(func(fd uintptr) {
		err = unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: uint16(columns)})
	}); cerr != nil || err != nil {
		t.Fatal(cerr, err)
	}
}

// until waits until what the program wrote fulfils a condition. It fails when the program
// ends before, or never does.
func (s *screen) until(t *testing.T, what string, holds func(text string) bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(3 * time.Minute); !holds(s.String()); <-tick.C {
		select {
		case err := <-s.ended:
			t.Fatalf("it ended before %s: %v\n%s", what, err, s)
		default:
		}
		if time.Now().After(end) {
			t.Fatalf("never %s:\n%s", what, s)
		}
	}
}

// hangUp closes the terminal and returns the exit code of the program.
func (s *screen) hangUp(t *testing.T, c *exec.Cmd) int {
	t.Helper()
	if err := s.master.Close(); err != nil {
		t.Fatal(err)
	}
	select {
	case <-s.ended:
	case <-time.After(3 * time.Minute):
		c.Process.Kill()
		t.Fatalf("it lives on without its terminal:\n%s", s)
	}
	return c.ProcessState.ExitCode()
}

// TestTerminalOfBatch: the bar follows the width of the terminal; when the terminal is
// closed the run drains, and the same command completes it.
func TestTerminalOfBatch(t *testing.T) {
	dir := t.TempDir()
	s, url := server(t, fakellm.Options{Latency: fakellm.Latency{Fixed: 20 * time.Millisecond}})
	const n = 70
	args := []string{"batch", tasks(t, dir, n), "--run", "r", "--model", "fake", "--base-url", url, "--send-scripts", "--concurrency", "2",
		"--backend", "local", "--max-turns", "20"}
	c := hermes(t, dir, append(args, "--progress", "bar")...)
	term := inTerminal(t, c)
	last := func(text string) string { // what was drawn last, and is complete
		parts := strings.Split(text, "\r\x1b[2K")
		return parts[max(0, len(parts)-2)]
	}
	term.until(t, "a bar is drawn", func(text string) bool { return strings.Contains(last(text), "%") })
	term.resize(t, 30)
	term.until(t, "a narrow bar is drawn", func(text string) bool {
		l := last(text)
		return l != "" && !strings.Contains(l, "\n") && utf8.RuneCountInString(l) < 30
	})
	if code := term.hangUp(t, c); code != 143 {
		t.Errorf("exit code %d when the terminal was closed, want 143:\n%s", code, term)
	}
	if got := len(bought(s.Entries())); got == n {
		t.Error("all rollouts were begun: the run did not drain")
	}
	if out, err := hermes(t, dir, append(args, "--progress", "none", "--concurrency", "16")...).CombinedOutput(); err != nil {
		t.Fatalf("the second start: %v\n%s", err, out)
	}
	eachOnce(t, filepath.Join(dir, "runs", "r", "trajectories.jsonl"), n)
}

// TestTerminalOfChat: a conversation goes on when the window changes its size, and ends
// with its terminal.
func TestTerminalOfChat(t *testing.T) {
	dir := t.TempDir()
	url := plainServer(t, nil)
	c := hermes(t, dir, "chat", "--model", "m", "--base-url", url, "--backend", "local", "--toolsets", "todo")
	term := inTerminal(t, c)
	say := func(text string, answers int) {
		t.Helper()
		if _, err := term.master.WriteString(text + "\n"); err != nil {
			t.Fatal(err)
		}
		term.until(t, "an answer came", func(text string) bool { return strings.Count(text, "done") >= answers })
	}
	say("hello", 1)
	term.resize(t, 20)
	say("again", 2)
	term.resize(t, 200)
	say("once more", 3)
	if code := term.hangUp(t, c); code != 143 && code != 0 {
		t.Errorf("exit code %d when the terminal was closed, want 143:\n%s", code, term)
	}
	if strings.Contains(term.String(), "panic") {
		t.Error(term.String())
	}
}
