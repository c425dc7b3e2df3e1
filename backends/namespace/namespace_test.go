//go:build linux

package namespace_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"hermes/backends"
	"hermes/backends/backendtest/escapes"
	"hermes/backends/backendtest/reach"
	"hermes/backends/namespace"
	"hermes/backends/namespace/driver"
)

var long = flag.Bool("long", false, "run the long forms")

func TestMain(m *testing.M) {
	if os.Getenv("HERMES_TEST_FORGETFUL") != "" { // a program that does not call namespace.Main
		_, err := driver.Open(context.Background(), namespace.Config{})
		fmt.Println(err)
		os.Exit(0)
	}
	if code, ok := namespace.Main(os.Args); ok {
		os.Exit(code)
	}
	if code, ok := reach.Main(os.Args); ok {
		os.Exit(code)
	}
	if code, ok := escapes.Main(os.Args); ok {
		os.Exit(code)
	}
	if len(os.Args) == 3 && os.Args[1] == "own" {
		os.Exit(own(os.Args[2]))
	}
	if len(os.Args) > 2 && os.Args[1] == "probe" {
		os.Exit(probe(os.Args[2:]))
	}
	if len(os.Args) == 3 && os.Args[1] == "churn" {
		os.Exit(churn(os.Args[2]))
	}
	if len(os.Args) == 3 && os.Args[1] == "stopper" {
		os.Exit(stopper(os.Args[2]))
	}
	_ = os.Setenv("HERMES_TEST_SECRET", "not-for-boxes") // what no box may see
	os.Exit(m.Run())
}

// TestStartsItselfOnce: a program that does not become the inside of the box that it was started
// to be opens no boxes; it would start itself without end.
func TestStartsItselfOnce(t *testing.T) {
	for _, as := range []string{"fork", "init"} {
		c := &exec.Cmd{Path: "/proc/self/exe", Args: []string{"hermes-slotd", as}, Env: append(os.Environ(), "HERMES_TEST_FORGETFUL=1")}
		out, err := c.CombinedOutput()
		if err != nil || !strings.Contains(string(out), "has to call namespace.Main") {
			t.Errorf("%s: %v: %s", as, err, out)
		}
	}
}

// open returns a back-end, or skips the test where the kernel forbids namespaces.
func open(t testing.TB, c namespace.Config) *namespace.Backend {
	t.Helper()
	b, err := driver.Open(t.Context(), c)
	if errors.Is(err, backends.ErrUnavailable) {
		t.Skip("this machine cannot make boxes: ", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(context.Background()); err != nil {
			t.Error("close the back-end: ", err)
		}
	})
	return b
}

// box opens a back-end and returns a box of it.
func box(t testing.TB, c namespace.Config, s backends.Spec) backends.Sandbox {
	t.Helper()
	return boxOf(t, open(t, c), s)
}

func boxOf(t testing.TB, b *namespace.Backend, s backends.Spec) backends.Sandbox {
	t.Helper()
	x, err := b.Open(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// sh runs a script and returns its exit code and both outputs.
func sh(t testing.TB, x backends.Sandbox, script string) (int, string) {
	t.Helper()
	r, err := x.Exec(t.Context(), backends.Cmd{Shell: script, Merge: true})
	if err != nil {
		t.Fatalf("%s: %v", script, err)
	}
	return r.Code, strings.TrimSpace(string(r.Stdout))
}

// TestPlainUser runs this package's tests again as a user without any right.
func TestPlainUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("already a plain user")
	}
	t.Parallel()
	args := []string{"-test.v", "-test.skip=TestContract.*/(2[5-9]|3[0-5]|10[0-5])_|" + escapeTests} // killing and hanging do not depend on the user
	if testing.Short() {
		args = append(args, "-test.short")
	}
	out, err := asPlainUser(t, args...)
	if err != nil {
		t.Fatalf("as a plain user: %v\n%s", err, out)
	}
	passed, skipped := strings.Count(string(out), "--- PASS"), strings.Count(string(out), "--- SKIP")
	fmt.Fprintf(t.Output(), "as a plain user: %d passed, %d skipped\n", passed, skipped)
	if passed == 0 {
		t.Errorf("as a plain user nothing ran:\n%s", out)
	}
}

// asPlainUser runs this program again as the user "nobody" (65534), in a folder of that user.
func asPlainUser(t *testing.T, args ...string) ([]byte, error) {
	t.Helper()
	const nobody = 65534
	dir := t.TempDir()
	for d := dir; d != os.TempDir() && d != "/"; d = d[:strings.LastIndexByte(d, '/')] {
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chown(dir, nobody, nobody); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe", args...)
	cmd.Dir, cmd.Env = dir, []string{"TMPDIR=" + dir, "HOME=" + dir, "PATH=" + os.Getenv("PATH")}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	return cmd.CombinedOutput()
}
