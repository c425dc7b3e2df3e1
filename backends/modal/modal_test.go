package modal_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"hermes/backends"
	"hermes/backends/modal"
	"hermes/backends/modal/modaltest"
	"hermes/backends/modal/wire"
)

// quick is a back-end whose images have slotd.
func quick(t testing.TB, o modaltest.Options) (*modaltest.Fake, *modal.Backend) {
	t.Helper()
	o.Files = inImage(t)
	f := service(t, o)
	return f, open(t, f, modal.Config{Settings: modal.Settings{Program: program}})
}

func boxOf(t testing.TB, b *modal.Backend, s backends.Spec) backends.Sandbox {
	t.Helper()
	x, err := b.Open(t.Context(), s)
	if err != nil {
		noSecret(t, err.Error())
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := x.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return x
}

func sh(t testing.TB, x backends.Sandbox, script string) (code int, out string) {
	t.Helper()
	r, err := x.Exec(t.Context(), backends.Cmd{Shell: script, Merge: true})
	if err != nil {
		noSecret(t, err.Error())
		t.Fatal(err)
	}
	return r.Code, strings.TrimSpace(string(r.Stdout))
}

// TestBrought has slotd brought into the sandbox, over streams that break all the time.
func TestBrought(t *testing.T) {
	t.Parallel()
	f := service(t, modaltest.Options{})
	b := open(t, f, modal.Config{})
	f.Fail(wire.TaskExecStdinWrite, 3, codes.Unavailable)
	f.Lose(wire.TaskExecStdinWrite, 2, codes.DeadlineExceeded) // taken, and written again
	f.Lose(wire.TaskExecStart, 1, codes.Unavailable)           // started, and asked for again
	f.BreakAfter(3)
	x := boxOf(t, b, backends.Spec{Env: map[string]string{"GREETING": "hello\nyou"}, Dir: "work"})
	f.BreakAfter(0)
	if code, out := sh(t, x, `test "$PWD" = ~/work; echo $?; echo "$GREETING"; ls -a /.hermes`); code != 0 ||
		out != "0\nhello\nyou\n.\n..\nhermes-slotd\nsocket" {
		t.Errorf("%d %q", code, out)
	}
	d, _, err := f.Definition(x.ID())
	if err != nil || d.Timeout != 3600 || d.Network.Type != wire.NetworkBlocked || d.Idle != nil || strings.Contains(fmt.Sprint(d), "GREETING") {
		t.Errorf("%+v, %v", d, err)
	}
}

// TestStreamsBreak reads and writes more than any of the streams beneath carries.
func TestStreamsBreak(t *testing.T) {
	t.Parallel()
	f, b := quick(t, modaltest.Options{})
	x := boxOf(t, b, backends.Spec{})
	data := make([]byte, 3<<20)
	r := rand.New(rand.NewPCG(3, 4))
	for i := range data {
		data[i] = byte(r.Uint32())
	}
	f.BreakAfter(300_000)
	f.Lose(wire.TaskExecStdinWrite, 2, codes.Unavailable)
	if err := x.WriteFile(t.Context(), "data", data, 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := x.ReadFile(t.Context(), "data", 0)
	if err != nil || string(got) != string(data) {
		t.Errorf("%d bytes came back, %v", len(got), err)
	}
	f.Expire() // of the account and of the router
	if code, out := sh(t, x, "wc -c < data"); code != 0 || out != fmt.Sprint(len(data)) {
		t.Errorf("after the tokens' end: %d %q", code, out)
	}
}

// TestCreateOnce loses the answers to creating a sandbox in every way: there is one.
func TestCreateOnce(t *testing.T) {
	t.Parallel()
	f, b := quick(t, modaltest.Options{})
	for _, lost := range []int{1, 4} { // found by its idempotency key, and by its name
		f.Lose(wire.SandboxCreate, lost, codes.Unavailable)
		before := f.Running("")
		boxOf(t, b, backends.Spec{})
		if n := f.Running("") - before; n != 1 {
			t.Errorf("%d answers lost: %d sandboxes", lost, n)
		}
	}
	if key, try := f.Seen(wire.MetaIdempotency), f.Seen(wire.MetaRetryAttempt); len(key) < 16 || try == "" {
		t.Errorf("idempotency key %q, attempt %q", key, try)
	}
	// Nothing is known at the end, neither by answer nor by name: nothing stays.
	f.Lose(wire.SandboxCreate, 4, codes.Unavailable)
	f.Fail(wire.SandboxGetFromName, 4, codes.Unavailable)
	before := f.Running("")
	if _, err := b.Open(t.Context(), backends.Spec{}); !errors.Is(err, backends.ErrLost) || !errors.Is(err, modal.ErrNoService) {
		t.Errorf("error %v", err)
	}
	if n := f.Running("") - before; n != 0 {
		t.Errorf("%d sandboxes stayed", n)
	}
}

// TestCancelledCreate gives up in every step of making a box.
func TestCancelledCreate(t *testing.T) {
	t.Parallel()
	f, b := quick(t, modaltest.Options{})
	for _, call := range []string{
		wire.ImageGetOrCreate, wire.SandboxCreate, wire.SandboxGetTaskID, wire.TaskGetCommandRouterAccess, wire.TaskExecStart,
		wire.TaskExecStdinWrite,
	} {
		ctx, cancel := context.WithCancel(t.Context())
		f.FailSome(func(name string) error {
			if name == call {
				cancel()
				return status.Error(codes.Unavailable, "injected")
			}
			return nil
		})
		_, err := b.Open(ctx, backends.Spec{})
		f.FailSome(nil)
		cancel()
		if !errors.Is(err, context.Canceled) {
			t.Errorf("in %s: %v", call, err)
		}
		if n := f.Running(""); n != 0 {
			t.Errorf("in %s: %d sandboxes stayed", call, n)
		}
	}
}

// TestEnds tells ends of sandboxes apart, while a command runs.
func TestEnds(t *testing.T) {
	t.Parallel()
	f, b := quick(t, modaltest.Options{})
	for _, tt := range []struct {
		name string
		end  func(x backends.Sandbox)
		want []error
	}{
		{"a worker dies", func(x backends.Sandbox) { f.Kill(x.ID()) }, []error{backends.ErrLost, modal.ErrInternal}},
		{"terminated", func(x backends.Sandbox) { f.EndAs(x.ID(), wire.StatusTerminated) }, []error{backends.ErrLost, modal.ErrTerminated}},
		{"its lifetime is over", func(x backends.Sandbox) { f.EndAs(x.ID(), wire.StatusTimeout) }, []error{backends.ErrLost, modal.ErrTimeout}},
		{"idle", func(x backends.Sandbox) { f.EndAs(x.ID(), wire.StatusIdle) }, []error{backends.ErrLost, modal.ErrIdle}},
		{"evicted", func(x backends.Sandbox) { f.EndAs(x.ID(), wire.StatusEvicted) }, []error{backends.ErrLost, modal.ErrEvicted}},
		{"vanished", func(x backends.Sandbox) { f.Forget(x.ID()) }, []error{backends.ErrLost, modal.ErrTerminated}},
		{"slotd killed by a command", func(x backends.Sandbox) { x.WriteFile(context.Background(), "kill", nil, 0) }, []error{backends.ErrBroken}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			x := boxOf(t, b, backends.Spec{})
			done := make(chan error, 1)
			go func() {
				_, err := x.Exec(t.Context(), backends.Cmd{Shell: `touch begun; while [ ! -e kill ]; do sleep 0.02; done
					kill -KILL $PPID; sleep 100`})
				done <- err
			}()
			for _, err := x.ReadFile(t.Context(), "begun", 1); err != nil; _, err = x.ReadFile(t.Context(), "begun", 1) {
				if t.Context().Err() != nil {
					t.Fatal(err)
				}
			}
			tt.end(x)
			err := <-done
			for _, want := range tt.want {
				if !errors.Is(err, want) {
					t.Errorf("%v is not %v", err, want)
				}
			}
			if errors.Is(err, backends.ErrBroken) && errors.Is(err, backends.ErrLost) {
				t.Errorf("both the model's fault and ours: %v", err)
			}
			if err != nil {
				noSecret(t, err.Error())
			}
		})
	}
}

// TestLifetime has the service end a box.
func TestLifetime(t *testing.T) {
	t.Parallel()
	f := service(t, modaltest.Options{Files: inImage(t), Second: 20 * time.Millisecond})
	b := open(t, f, modal.Config{Settings: modal.Settings{Program: program, Timeout: time.Minute}})
	x := boxOf(t, b, backends.Spec{})
	if _, err := x.Exec(t.Context(), backends.Cmd{Shell: "sleep 1000"}); !errors.Is(err, backends.ErrLost) || !errors.Is(err, modal.ErrTimeout) {
		t.Errorf("error %v", err)
	}
}

// TestConnectionsHang cuts every connection at our end: the same command is joined again.
func TestConnectionsHang(t *testing.T) {
	t.Parallel()
	_, b := quick(t, modaltest.Options{})
	x := boxOf(t, b, backends.Spec{})
	type answer struct {
		r   backends.Result
		err error
	}
	done := make(chan answer, 1)
	go func() {
		r, err := x.Exec(t.Context(), backends.Cmd{Shell: "echo x >> runs; while [ ! -e go ]; do sleep 0.05; done; echo once"})
		done <- answer{r, err}
	}()
	for _, err := x.ReadFile(t.Context(), "runs", 0); err != nil; _, err = x.ReadFile(t.Context(), "runs", 0) {
		if t.Context().Err() != nil {
			t.Fatal(err)
		}
	}
	modal.Hang(x)
	if err := x.WriteFile(t.Context(), "go", nil, 0); err != nil { // a PUT is not repeated, so it may meet the cut
		if err := x.WriteFile(t.Context(), "go", nil, 0); err != nil {
			t.Fatal(err)
		}
	}
	a := <-done
	if _, runs := sh(t, x, "cat runs"); a.err != nil || string(a.r.Stdout) != "once\n" || runs != "x" {
		t.Errorf("%q, %v; runs %q", a.r.Stdout, a.err, runs)
	}
}

// TestImages has images built, refused, and fetched with credentials.
func TestImages(t *testing.T) {
	t.Parallel()
	private := "registry.test/private:1"
	f := service(t, modaltest.Options{Files: inImage(t), Private: map[string]string{private: "me:pass-of-registry"}})
	set := modal.Settings{Program: program, Setup: []string{"RUN true"}}
	b := open(t, f, modal.Config{Settings: set, Use: "default", Profiles: map[string]modal.Settings{"default": {}, "fails": {Setup: []string{"RUN false"}},
		"login": {RegistryUser: "REG_USER", RegistryPassword: "REG_PASSWORD"}, "bare": {Program: "/opt/nothing"}}})
	write := func(text string) string {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "Dockerfile"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return "dockerfile:" + dir
	}
	for _, tt := range []struct{ image, want string }{
		{"", ""},
		{"debian:12-slim", ""},
		{"@default/debian:12-slim", ""},
		{"@login/" + private, ""},
		{private, "authentication required"},
		{"nothing:1", "manifest unknown"},
		{"@fails", "RUN false: exit code 1"},
		{"@bare", "/opt/nothing: no such program in the image"},
		{"two words", "a name has no spaces"},
		{"@nobody/debian:12-slim", `no profile or class "nobody" (have bare, default, fails, login)`},
		{write("FROM debian:12-slim\nRUN a \\\n  COPY b\n"), ""},
		{write("# COPY x y\nFROM debian:12-slim\nCOPY a b\n"), "Dockerfile:3: COPY needs files of this machine"},
		{write("FROM a\nFROM b\n"), "2 stages"},
		{"im-never", "Image 'im-never' not found"},
	} {
		x, err := b.Open(t.Context(), backends.Spec{Image: tt.image})
		if err == nil {
			x.Close(context.Background())
		} else {
			noSecret(t, err.Error())
		}
		switch {
		case tt.want == "" && err != nil:
			t.Errorf("%s: %v", tt.image, err)
		case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want) || !errors.Is(err, backends.ErrImage) && tt.image != "im-never"):
			t.Errorf("%s: %v, want %s", tt.image, err, tt.want)
		}
	}
	for range 3 {
		boxOf(t, b, backends.Spec{})
	}
	before := f.Calls(wire.ImageGetOrCreate)
	boxOf(t, b, backends.Spec{})
	if n := f.Calls(wire.ImageGetOrCreate) - before; n != 0 {
		t.Errorf("a known image was asked for %d times", n)
	}
}
