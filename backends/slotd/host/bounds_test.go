//go:build linux

package host_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"hermes/backends"
	"hermes/backends/slotd/host"
	"hermes/backends/slotd/server"
)

// newHost is a host with a folder of the test as its home.
func newHost(t *testing.T, confine bool) (*host.Host, string) {
	t.Helper()
	dir := t.TempDir()
	h, err := host.New(host.Options{Home: dir, Confine: confine})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.Close(context.Background()) })
	return h, dir
}

// stuck is a stream on which nothing ever moves.
type stuck struct{ end chan struct{} }

func (s stuck) Write([]byte) (int, error) { <-s.end; return 0, io.ErrClosedPipe }
func (s stuck) Read([]byte) (int, error)  { <-s.end; return 0, io.ErrClosedPipe }

// TestStuckStream: a call whose other end does not move ends all the same, and so does one
// whose caller leaves.
func TestStuckStream(t *testing.T) {
	for name, call := range map[string]func(context.Context, *host.Host, stuck) error{
		"copy out": func(ctx context.Context, h *host.Host, s stuck) error { return h.CopyOut(ctx, ".", s) },
		"copy in":  func(ctx context.Context, h *host.Host, s stuck) error { return h.CopyIn(ctx, "d", s) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h, dir := newHost(t, false)
				if err := os.WriteFile(filepath.Join(dir, "f"), nil, 0o644); err != nil {
					t.Fatal(err)
				}
				s := stuck{make(chan struct{})}
				defer close(s.end)
				began := time.Now()
				if err := call(t.Context(), h, s); !errors.Is(err, backends.ErrSlow) || time.Since(began) > 2*time.Minute {
					t.Errorf("%v after %v", err, time.Since(began))
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				began = time.Now()
				if err := call(ctx, h, s); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) > 3*time.Second {
					t.Errorf("%v after %v", err, time.Since(began))
				}
			})
		})
	}
}

// pipeListener accepts the other ends of the connections that dial makes.
type pipeListener struct {
	conns chan net.Conn
	gone  chan struct{}
	once  sync.Once
}

func (l *pipeListener) dial() net.Conn {
	ours, theirs := net.Pipe()
	l.conns <- theirs
	return ours
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.gone:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error   { l.once.Do(func() { close(l.gone) }); return nil }
func (l *pipeListener) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "unix"} }

// TestStalledClient: a server does not keep a call whose client takes or sends nothing.
func TestStalledClient(t *testing.T) {
	for name, tt := range map[string]struct{ request, answer string }{
		"read":     {"GET /v1/file?path=f HTTP/1.1\r\nHost: slotd\r\n", ""},
		"write":    {"PUT /v1/file?path=g HTTP/1.1\r\nHost: slotd\r\nContent-Length: 10\r\n", "HTTP/1.1 422 "},
		"copy in":  {"PUT /v1/tar?path=d HTTP/1.1\r\nHost: slotd\r\nContent-Length: 10\r\n", "HTTP/1.1 422 "},
		"copy out": {"GET /v1/tar?path=. HTTP/1.1\r\nHost: slotd\r\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				dir := t.TempDir()
				if err := os.WriteFile(filepath.Join(dir, "f"), make([]byte, 1<<20), 0o644); err != nil {
					t.Fatal(err)
				}
				l := &pipeListener{conns: make(chan net.Conn), gone: make(chan struct{})}
				ctx, stop := context.WithCancel(t.Context())
				ended := make(chan error)
				go func() { ended <- server.Serve(ctx, l, server.Options{Options: host.Options{Home: dir}}) }()
				c := l.dial()
				if _, err := io.WriteString(c, tt.request+"\r\n"); err != nil {
					t.Fatal(err)
				}
				if tt.answer == "" { // it takes nothing
					time.Sleep(3 * time.Minute)
				}
				c.SetReadDeadline(time.Now().Add(2 * time.Minute))
				if got, err := io.ReadAll(c); err != nil || !strings.HasPrefix(string(got), tt.answer) || tt.answer == "" && len(got) > 0 {
					t.Errorf("%.200q, %v", got, err)
				}
				c.Close()
				stop()
				if err := <-ended; err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// TestExchangedWhileSearched: files that become FIFOs and back again, and folders too, never
// make a call wait, confined or not.
func TestExchangedWhileSearched(t *testing.T) {
	for _, confine := range []bool{false, true} {
		t.Run(fmt.Sprint(confine), func(t *testing.T) {
			h, dir := newHost(t, confine)
			at := func(name string) string { return filepath.Join(dir, name) }
			if err := errors.Join(os.MkdirAll(at("kept/sub"), 0o755), os.WriteFile(at("kept/file"), []byte("needle\n"), 0o644), syscall.Mkfifo(at("kept/fifo"), 0o644)); err != nil {
				t.Fatal(err)
			}
			ctx, stop := context.WithCancel(t.Context())
			done := make(chan struct{})
			go func() {
				defer close(done)
				for ctx.Err() == nil {
					for _, name := range []string{".gitignore", "x", "y"} {
						os.Remove(at(name))
						os.Link(at("kept/fifo"), at(name))
						os.Remove(at(name))
						os.Link(at("kept/file"), at(name))
					}
					os.Remove(at("z"))
					os.Mkdir(at("z"), 0o755)
					os.Remove(at("z"))
					os.Link(at("kept/fifo"), at("z"))
				}
			}()
			var timed context.Context
		calls:
			for range 300 {
				for what, call := range map[string]func() error{
					"search": func() error {
						_, err := h.Search(timed, backends.Query{Root: ".", Pattern: "needle", Content: true})
						return err
					},
					"search z": func() error { _, err := h.Search(timed, backends.Query{Root: "z", Pattern: "*"}); return err },
					"read":     func() error { _, err := h.ReadFile(timed, "x", 0); return err },
					"list":     func() error { _, err := h.List(timed, "z", 0); return err },
					"write":    func() error { return h.WriteFile(timed, "z/a", nil, 0) },
					"copy":     func() error { return h.CopyOut(timed, ".", io.Discard) },
					"copy z":   func() error { return h.CopyOut(timed, "z", io.Discard) },
				} {
					var cancel context.CancelFunc
					timed, cancel = context.WithTimeout(t.Context(), 2*time.Minute)
					err := call()
					if timed.Err() != nil || errors.Is(err, backends.ErrSlow) {
						t.Errorf("%s: %v", what, err)
					}
					cancel()
					if t.Failed() {
						break calls
					}
				}
			}
			stop()
			<-done
		})
	}
}

// TestSpecialFiles: what is no plain file is refused by its kind, and counted by a search.
func TestSpecialFiles(t *testing.T) {
	for _, confine := range []bool{false, true} {
		t.Run(fmt.Sprint(confine), func(t *testing.T) {
			h, dir := newHost(t, confine)
			ctx := t.Context()
			if err := errors.Join(syscall.Mkfifo(filepath.Join(dir, "ff"), 0o644), syscall.Mkfifo(filepath.Join(dir, ".gitignore"), 0o644),
				os.WriteFile(filepath.Join(dir, "f"), []byte("needle"), 0o644)); err != nil {
				t.Fatal(err)
			}
			for what, err := range map[string]error{
				"read": errOf(h.ReadFile(ctx, "ff", 0)), "search": errOf(h.Search(ctx, backends.Query{Root: "ff", Pattern: "*"})),
				"write": h.WriteFile(ctx, "ff", nil, 0), "copy out": h.CopyOut(ctx, "ff", io.Discard),
			} {
				var pe *fs.PathError
				if !errors.Is(err, fs.ErrInvalid) || !errors.As(err, &pe) || !strings.Contains(err.Error(), "FIFO") {
					t.Errorf("%s: %v", what, err)
				}
			}
			f, err := h.Search(ctx, backends.Query{Root: ".", Pattern: "needle", Content: true})
			if err != nil || f.Total != 1 || f.Skipped.Special != 1 || strings.Join(f.Skipped.Names, " ") != "ff" {
				t.Errorf("%+v, %v", f, err)
			}
		})
	}
}

func errOf[R any](_ R, err error) error { return err }

// TestManyIgnoreFiles: the rules of a folder hold below it alone, however many folders have some.
func TestManyIgnoreFiles(t *testing.T) {
	h, dir := newHost(t, false)
	rules := strings.Repeat("nothing-of-it\n", 1000) + "out\n"
	for i := range 100 {
		d := filepath.Join(dir, fmt.Sprintf("d%03d", i))
		if err := errors.Join(os.Mkdir(d, 0o755), os.WriteFile(filepath.Join(d, ".gitignore"), []byte(rules), 0o644),
			os.WriteFile(filepath.Join(d, "in"), nil, 0o644), os.WriteFile(filepath.Join(d, "out"), nil, 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	began := time.Now()
	f, err := h.Search(t.Context(), backends.Query{Root: ".", Pattern: "*"})
	if err != nil || f.Total != 100 || f.Skipped.Ignored != 100 || len(f.Skipped.Bounds) != 0 {
		t.Errorf("%d files, %+v, %v", f.Total, f.Skipped, err)
	}
	if took := time.Since(began); took > time.Minute {
		t.Errorf("it took %v", took)
	}
}
