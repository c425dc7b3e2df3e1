//go:build linux

package local_test

import (
	"context"
	"errors"
	"flag"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"hermes/backends"
	"hermes/backends/backendtest"
	"hermes/backends/local"
)

var long = flag.Bool("long", false, "run the long forms")

func open(t *testing.T, c local.Config) *local.Backend {
	c.Dir = t.TempDir()
	b, err := local.New(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(context.Background()); err != nil {
			t.Error(err)
		}
		if left, err := os.ReadDir(c.Dir); err != nil || len(left) > 0 {
			t.Errorf("left behind: %v, %v", left, err)
		}
	})
	return b
}

func TestContract(t *testing.T) {
	t.Setenv("HERMES_TEST_SECRET", "not-for-boxes")
	backendtest.Run(t, func(t *testing.T) backends.Backend { return open(t, local.Config{}) }, backendtest.Options{
		Secret: "not-for-boxes",
		Heavy:  *long,
		Skips:  []int{29, 35, 46, 50, 51, 52, 53, 54, 55, 56, 57, 59, 64, 65, 66, 67, 68, 69, 71, 72, 73, 84},
	})
}

func TestConfined(t *testing.T) {
	b := open(t, local.Config{Confine: true})
	ctx := t.Context()
	x, err := b.Open(ctx, backends.Spec{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := x.Exec(ctx, backends.Cmd{Shell: "echo in > in; ln -s /etc/passwd out; ln -s in link; ln -s / root"}); err != nil {
		t.Fatal(err)
	}
	if data, err := x.ReadFile(ctx, "link", 0); err != nil || string(data) != "in\n" {
		t.Errorf("link inside: %q, %v", data, err)
	}
	for _, name := range []string{"/etc/passwd", "../../../etc/passwd", "out", "root/etc/passwd"} {
		if data, err := x.ReadFile(ctx, name, 0); err == nil {
			t.Errorf("%s was read: %.20q", name, data)
		}
		if err := x.WriteFile(ctx, name, []byte("x"), 0); err == nil {
			t.Errorf("%s was written", name)
		}
	}
}

func TestMemoryIsLimitedBeforeTheFirstInstruction(t *testing.T) {
	x, err := open(t, local.Config{}).Open(t.Context(), backends.Spec{Limits: backends.Limits{Memory: 64 << 20}})
	if err != nil {
		t.Fatal(err)
	}
	for range 20 {
		r, err := x.Exec(t.Context(), backends.Cmd{Shell: "ulimit -d; ulimit -Hd"})
		if err != nil || string(r.Stdout) != "65536\n65536\n" {
			t.Fatalf("limits %q, %v", r.Stdout, err)
		}
	}
}

func TestOpenAfterClose(t *testing.T) {
	b := open(t, local.Config{})
	if err := b.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Open(t.Context(), backends.Spec{}); !errors.Is(err, backends.ErrClosed) {
		t.Error(err)
	}
}

// A process that is in the middle of an exec shows neither its parent nor its environment;
// one that does nothing but exec must end with its command all the same.
func TestKillFindsWhatIsInAnExec(t *testing.T) {
	box, err := open(t, local.Config{}).Open(t.Context(), backends.Spec{})
	if err != nil {
		t.Fatal(err)
	}
	if err := box.WriteFile(t.Context(), "loop", []byte("exec sh ./loop\n"), 0); err != nil {
		t.Fatal(err)
	}
	for i := range 20 {
		name := "pid" + strconv.Itoa(i)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() {
			_, err := box.Exec(ctx,
				backends.Cmd{Shell: "mkfifo f" + name + "; (setsid sh -c 'echo $$ > " + name + "; echo > f" + name + "; exec sh ./loop' &); read -r x < f" + name + "; echo > seen" + name + "; sleep 1000"})
			done <- err
		}()
		for {
			if _, err := box.ReadFile(t.Context(), "seen"+name, 0); err == nil {
				break
			}
			runtime.Gosched()
		}
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Fatalf("error %v", err)
		}
		pid, err := box.ReadFile(t.Context(), name, 0)
		if err != nil {
			t.Fatal(err)
		}
		if stat, err := os.ReadFile("/proc/" + strings.TrimSpace(string(pid)) + "/stat"); err == nil && !strings.Contains(string(stat), ") Z ") &&
			!strings.Contains(string(stat), ") X ") {
			t.Fatalf("round %d: a process outlives its command: %s", i, stat)
		}
	}
}
