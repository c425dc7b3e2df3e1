package control_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"hermes/internal/control"
	"hermes/rollout/event"
	"hermes/trajectory"
)

// run records the calls that it gets.
type run struct {
	mu    sync.Mutex
	texts []string
}

func (r *run) tell(text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.texts = append(r.texts, text)
}

func (r *run) list() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.Join(r.texts, ", ")
}

func (r *run) Status() control.Status {
	return control.Status{Run: "x", State: control.Running, Concurrency: 3}
}
func (r *run) Pause()  { r.tell("pause") }
func (r *run) Resume() { r.tell("resume") }
func (r *run) SetConcurrency(n int) error {
	if n < 1 {
		return fmt.Errorf("concurrency %d: want at least 1", n)
	}
	r.tell(fmt.Sprint("set ", n))
	return nil
}

func (r *run) Cancel(id string) (trajectory.Key, error) {
	if id != "a/0" {
		return trajectory.Key{}, fmt.Errorf("no such sample as %q", id)
	}
	r.tell("cancel " + id)
	return trajectory.NewKey("a", 0, 0, 0), nil
}

func (r *run) Requeue(_ context.Context, id string) (trajectory.Key, error) {
	r.tell("requeue " + id)
	return trajectory.NewKey("a", 0, 0, 0), nil
}

func listen(t *testing.T, dir string, r control.Run) *control.Server {
	t.Helper()
	s, err := control.Listen(t.Context(), dir, r, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func dial(t *testing.T, dir string) *control.Client {
	t.Helper()
	c, err := control.Dial(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// short is a folder whose path fits into the path of a socket.
func short(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "ctl")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func TestRequests(t *testing.T) {
	dir, r := short(t), &run{}
	listen(t, dir, r)
	c := dial(t, dir)
	for _, q := range []control.Request{{Do: "status"},
		{Do: "pause"},
		{Do: "resume"},
		{Do: "set", Concurrency: 9},
		{Do: "cancel", ID: "a/0"},
		{Do: "requeue", ID: "a"}} {
		a, err := c.Ask(t.Context(), q)
		if err != nil || a.Status == nil || a.Status.Concurrency != 3 || (a.Key != nil) != (q.ID != "") {
			t.Errorf("%+v: %+v, %v", q, a, err)
		}
	}
	if want := "pause, resume, set 9, cancel a/0, requeue a"; r.list() != want {
		t.Errorf("texts %q, want %q", r.list(), want)
	}
	for _, q := range []control.Request{{Do: "explode"}, {Do: "set"}, {Do: "cancel", ID: "b"}} {
		var no *control.Refusal
		if _, err := c.Ask(t.Context(), q); !errors.As(err, &no) {
			t.Errorf("%+v: %v, want a refusal", q, err)
		}
	}
	st, err := os.Lstat(filepath.Join(dir, "control.sock"))
	if err != nil || st.Mode().Perm() != 0o600 || st.Mode()&os.ModeSocket == 0 {
		t.Errorf("the socket: %v, %v", st, err)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, ".control-*")); len(left) > 0 {
		t.Errorf("%v is left", left)
	}
}

// Lines that are no request are answered, and lines without end end the connection.
func TestHostileLines(t *testing.T) {
	dir := short(t)
	listen(t, dir, &run{})
	for _, tt := range []struct{ in, want string }{
		{"rubbish\n", "no JSON object"},
		{`{"do":"pause","shell":"rm"}` + "\n", "unknown field"},
		{strings.Repeat("x", 70_000), "longer than"},
	} {
		c, err := net.Dial("unix", filepath.Join(dir, "control.sock"))
		if err != nil {
			t.Fatal(err)
		}
		go c.Write([]byte(tt.in)) // the server may hang up before all of it is sent
		line, err := bufio.NewReader(c).ReadString('\n')
		if !strings.Contains(line, tt.want) {
			t.Errorf("%.30q: %q, %v; want %q", tt.in, line, err, tt.want)
		}
		c.Close()
	}
}

func TestNotRunning(t *testing.T) {
	dir := short(t)
	if _, err := control.Dial(t.Context(), dir); !errors.Is(err, control.ErrNotRunning) {
		t.Errorf("no socket: %v", err)
	}
	s := listen(t, dir, &run{})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if entries, _ := os.ReadDir(dir); len(entries) > 0 {
		t.Errorf("%v is left", entries)
	}
	// What a killed process leaves: a socket without a listener.
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(dir, "control.sock"), Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	l.Close()
	if _, err := control.Dial(t.Context(), dir); !errors.Is(err, control.ErrNotRunning) {
		t.Errorf("a stale socket: %v", err)
	}
	listen(t, dir, &run{})
	if _, err := dial(t, dir).Ask(t.Context(), control.Request{Do: "status"}); err != nil {
		t.Errorf("after a stale socket: %v", err)
	}
}

// A run directory may lie deeper than the path of a socket can be long.
func TestLongPath(t *testing.T) {
	dir := filepath.Join(short(t), strings.Repeat("deep/", 40))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	s := listen(t, dir, &run{})
	if _, err := dial(t, dir).Ask(t.Context(), control.Request{Do: "status"}); err != nil {
		t.Error(err)
	}
	far, err := os.Readlink(filepath.Join(dir, "control.sock"))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{filepath.Dir(far), filepath.Join(dir, "control.sock")} {
		if _, err := os.Lstat(name); err == nil {
			t.Errorf("%s is left", name)
		}
	}
	// A link whose other end is gone, and one that leads elsewhere: neither is followed to delete.
	precious := filepath.Join(short(t), "precious")
	if err := errors.Join(os.WriteFile(precious, nil, 0o600), os.Symlink(precious, filepath.Join(dir, "control.sock"))); err != nil {
		t.Fatal(err)
	}
	listen(t, dir, &run{})
	if _, err := os.Stat(precious); err != nil {
		t.Error("the end of a foreign link was removed")
	}
}

func TestMeter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := control.NewMeter(nil)
		k := trajectory.NewKey("a", 0, 0, 0)
		m.Observe(event.RolloutStarted{Key: k, Attempt: 2})
		for range 30 {
			time.Sleep(time.Second)
			m.Observe(event.TurnEnded{Key: k, Usage: trajectory.Usage{Completion: 31}})
		}
		m.Observe(event.TurnEnded{Key: k, Usage: trajectory.Usage{Completion: 1000}, Replay: true})
		if a, n := m.Progress(k); a != 2 || n != 31 {
			t.Errorf("attempt %d, %d turns", a, n)
		}
		m.Observe(event.RolloutEnded{Key: k})
		if r := m.Rates(); r.Seconds != 31 || r.TokensASecond != 30 || r.SamplesAMinute != 60./31 {
			t.Errorf("%+v", r)
		}
		time.Sleep(2 * time.Minute)
		if r := m.Rates(); r.Seconds != 60 || r.TokensASecond != 0 || r.SamplesAMinute != 0 {
			t.Errorf("after silence: %+v", r)
		}
	})
}
