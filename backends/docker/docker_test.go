//go:build linux

package docker_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"hermes/backends"
	"hermes/backends/backendtest/escapes"
	"hermes/backends/backendtest/reach"
	"hermes/backends/docker"
	"hermes/backends/slotd/server"
	"hermes/backends/slotd/wire"
)

// engineEnv names an engine with the images of scripts/docker.sh: unix:///…
const engineEnv = "HERMES_TEST_DOCKER"

// testImage is what scripts/docker.sh makes.
const testImage = "hermes-test:python"

func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == wire.Name {
		os.Exit(server.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
	}
	if len(os.Args) == 3 && os.Args[1] == connectArg {
		os.Exit(connect(os.Args[2]))
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
	code := m.Run()
	if dir, err := builtIn(); err == nil {
		os.RemoveAll(dir)
	}
	os.Exit(code)
}

// engineHost skips a test where there is no engine.
func engineHost(t testing.TB) string {
	t.Helper()
	host := os.Getenv(engineEnv)
	if host == "" {
		t.Skip("no engine: " + engineEnv + " is not set (make engine)")
	}
	return host
}

// builtIn is the folder with what built made.
var builtIn = sync.OnceValues(func() (string, error) { return os.MkdirTemp("", "hermes-docker-test-") })

// built builds a static slotd, once for all tests. A test binary with cgo is none.
var built = sync.OnceValues(func() (string, error) {
	dir, err := builtIn()
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "slotd")
	c := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", path, "hermes/cmd/slotd")
	c.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := c.CombinedOutput(); err != nil {
		return "", errors.Join(errors.New(string(out)), err)
	}
	return path, nil
})

func builtServer(t testing.TB) string {
	t.Helper()
	path, err := built()
	if err != nil {
		t.Fatal("build slotd: ", err)
	}
	return path
}

// open returns a back-end on the test's engine.
func open(t testing.TB, c docker.Config) *docker.Backend {
	t.Helper()
	c.Host = engineHost(t)
	if c.Image == "" {
		c.Image = testImage
	}
	c.Slotd = builtServer(t)
	b, err := docker.Open(t.Context(), c, docker.Surroundings{Tell: func(text string) { t.Log(text) }})
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

// boxOf returns a box that the back-end closes.
func boxOf(t testing.TB, b backends.Backend, s backends.Spec) backends.Sandbox {
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
	return r.Code, strings.TrimSpace(string(bytes.ToValidUTF8(r.Stdout, []byte("?"))))
}

func TestBox(t *testing.T) {
	for _, inject := range []string{"bind", "copy"} {
		t.Run(inject, func(t *testing.T) {
			b := open(t, docker.Config{Inject: inject})
			x := boxOf(t, b, backends.Spec{Env: map[string]string{"GIVEN": "1"}, Dir: "/srv/work"})
			code, out := sh(t, x,
				`pwd; id -u; echo $GIVEN $HOME; grep -c . /proc/net/route; cat /proc/1/environ 2>&1; ls -l /proc/1/fd 2>&1 | tail -1; ls /.hermes; python3 -c 'print(6*7)'`)
			t.Log(code, out)
			for _, want := range []string{"/srv/work\n0\n1 /root\n", "\n42", "Permission denied"} {
				if !strings.Contains(out, want) {
					t.Errorf("no %q", want)
				}
			}
		})
	}
}

// TestBlame has commands do their worst to a box. It answers, or its loss is theirs.
func TestBlame(t *testing.T) {
	b := open(t, docker.Config{})
	limits := backends.Limits{Memory: 64 << 20, Processes: 40}
	for name, script := range map[string]string{
		"fork bomb":     "bomb() { bomb | bomb & }; bomb; sleep 2",
		"memory":        "python3 -c 'x = bytearray(1 << 30)'",
		"memory by all": "for i in 1 2 3 4 5 6 7 8; do python3 -c 'import time; x = bytearray(30 << 20); time.sleep(2)' & done; wait",
		"signals":       "for s in HUP INT QUIT ILL ABRT FPE KILL SEGV PIPE ALRM TERM STOP BUS USR1; do kill -$s 1; done; :",
	} {
		t.Run(name, func(t *testing.T) {
			x := boxOf(t, b, backends.Spec{Limits: limits})
			r, err := x.Exec(t.Context(), backends.Cmd{Shell: script, Timeout: 20 * time.Second})
			t.Logf("code %d, timed out %v, oom %v, error %v", r.Code, r.TimedOut, r.OOM, err)
			if err != nil && !errors.Is(err, backends.ErrBroken) {
				t.Fatalf("the box's own doing is called %v", err)
			}
			if err == nil && name == "memory" && !r.OOM {
				t.Errorf("the memory limit was hit and the result does not say so")
			}
			if err == nil && name == "signals" {
				if code, out := sh(t, x, "echo alive"); code != 0 || out != "alive" {
					t.Errorf("after signals to the server: %d %s", code, out)
				}
			}
			if err := x.Close(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	x := boxOf(t, b, backends.Spec{})
	if err := b.Kill(x.ID()); err != nil {
		t.Fatal(err)
	}
	if _, err := x.Exec(t.Context(), backends.Cmd{Shell: "true"}); !errors.Is(err, backends.ErrLost) || errors.Is(err, backends.ErrBroken) {
		t.Errorf("killed from outside: %v", err)
	}
}

func TestSnapshot(t *testing.T) {
	b := open(t, docker.Config{})
	x := boxOf(t, b, backends.Spec{Env: map[string]string{"SECRET": "hidden"}})
	sh(t, x, "echo kept > /srv/file; sleep 1000 >/dev/null 2>&1 &")
	s, ok := backends.As[backends.Snapshotter](x)
	if !ok {
		t.Fatal("no snapshots")
	}
	image, err := s.Snapshot(t.Context(), "test-"+strings.ToLower(x.ID()[len(x.ID())-12:]))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.RemoveImage(image) })
	y := boxOf(t, b, backends.Spec{Image: image})
	if _, out := sh(t, y, "cat /srv/file; echo $SECRET; ps -e 2>/dev/null | grep -c sleep || ls /proc | grep -c '^[0-9]'"); !strings.HasPrefix(out, "kept\n\n") {
		t.Errorf("in the snapshot: %q", out)
	}
	if env := b.ImageEnv(image); strings.Contains(env, "hidden") {
		t.Errorf("the snapshot's environment: %s", env)
	}
	// A snapshot goes when its time is over, and not as long as a box is made of it.
	old := image + "-old"
	if err := b.Expire(x, old); err != nil {
		t.Fatal(err)
	}
	z := boxOf(t, b, backends.Spec{Image: old})
	if n, err := b.Sweep(t.Context()); n != 0 || err != nil {
		t.Errorf("while a box is made of it: %d removed, %v", n, err)
	}
	if err := z.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n, err := b.Sweep(t.Context()); n != 1 || err != nil {
		t.Errorf("an old snapshot: %d removed, %v", n, err)
	}
	boxOf(t, b, backends.Spec{Image: image})
}

func TestBuild(t *testing.T) {
	b := open(t, docker.Config{Build: docker.BuildConfig{Args: map[string]string{"WORD": "built"}}})
	dir := t.TempDir()
	for name, text := range map[string]string{
		"Dockerfile": "FROM " + testImage + "\nARG WORD\nENV SAYS=$WORD\nWORKDIR /app\nCOPY hello .\n", "hello": "there\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	x := boxOf(t, b, backends.Spec{Image: "dockerfile:" + dir})
	if _, out := sh(t, x, "pwd; cat hello; echo $SAYS"); out != "/app\nthere\nbuilt" {
		t.Errorf("the image says %q", out)
	}
	if err := os.WriteFile(filepath.Join(dir, "hello"), []byte("again\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	other := open(t, docker.Config{Build: docker.BuildConfig{Args: map[string]string{"WORD": "built"}}}) // what is changed is built again
	if _, out := sh(t, boxOf(t, other, backends.Spec{Image: "dockerfile:" + dir + "/Dockerfile"}), "cat hello"); out != "again" {
		t.Errorf("the changed image says %q", out)
	}
	for name, text := range map[string]string{"bad": "FROM " + testImage + "\nRUN echo seen; exit 3\n", "none": ""} {
		if text != "" {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		_, err := b.Open(t.Context(), backends.Spec{Image: "dockerfile:" + dir + "/" + name})
		if !errors.Is(err, backends.ErrImage) {
			t.Errorf("%s: %v", name, err)
		}
		if text != "" && !strings.Contains(err.Error(), "returned a non-zero code: 3") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestReadOnly: the disk limit holds where the root is read-only.
func TestReadOnly(t *testing.T) {
	b := open(t, docker.Config{ReadOnly: true})
	x := boxOf(t, b, backends.Spec{Limits: backends.Limits{Disk: 8 << 20}})
	code, out := sh(t, x,
		"touch /etc/x && echo etc; for d in ~ /tmp /var/tmp /run /dev/shm; do head -c 5000000 /dev/zero > $d/big && echo $d; done; echo small > ~/f && cat ~/f")
	if out := out[strings.LastIndexByte(out, '\n')+1:]; code == 0 && out != "small" {
		t.Errorf("after the limit: %s", out)
	}
	for _, d := range []string{"etc\n", "/root\n", "/tmp\n", "/run\n", "/dev/shm\n"} {
		if strings.Contains("\n"+out, "\n"+d) {
			t.Errorf("%s was written: %s", d, out)
		}
	}
	if _, err := open(t, docker.Config{}).Open(t.Context(), backends.Spec{Limits: backends.Limits{Disk: 8 << 20}}); err == nil ||
		!strings.Contains(err.Error(), "cannot limit disk") {
		t.Errorf("a limit that does not hold: %v", err)
	}
}

// TestIdleBox: a box with a copied slotd is still there when it was not used for a time, as
// while a model thinks.
func TestIdleBox(t *testing.T) {
	b := open(t, docker.Config{Inject: "copy"})
	other, err := b.Open(t.Context(), backends.Spec{})
	if err != nil {
		t.Fatal(err)
	}
	b.SetAlone(2 * time.Second)
	x, err := b.Open(t.Context(), backends.Spec{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := other.Exec(t.Context(), backends.Cmd{Shell: "sleep 6"}); err != nil {
		t.Fatal(err)
	}
	if r, err := x.Exec(t.Context(), backends.Cmd{Shell: "echo here"}); err != nil || string(r.Stdout) != "here\n" {
		t.Errorf("%q, %v", r.Stdout, err)
	}
}
