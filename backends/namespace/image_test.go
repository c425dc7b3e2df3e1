package namespace_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"hermes/backends"
	"hermes/backends/namespace"
)

// unpacked makes the directory of a small image: the host's shell and what it needs.
func unpacked(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	shell, err := exec.LookPath("sh")
	if err != nil {
		t.Skip("no shell to make an image of")
	}
	put := func(path string) {
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		to := filepath.Join(dir, path)
		if err := errors.Join(os.MkdirAll(filepath.Dir(to), 0o755), os.WriteFile(to, raw, 0o755)); err != nil {
			t.Fatal(err)
		}
	}
	put(shell)
	out, _ := exec.Command("ldd", shell).Output()
	for _, w := range strings.Fields(string(out)) {
		if strings.HasPrefix(w, "/") {
			put(w)
		}
	}
	if err := errors.Join(os.MkdirAll(dir+"/bin", 0o755), os.MkdirAll(dir+"/etc", 0o755),
		os.WriteFile(dir+"/etc/motd", []byte("from the image\n"), 0o644), os.Chmod(dir, 0o755)); err != nil {
		t.Fatal(err)
	}
	if shell != "/bin/sh" {
		os.Symlink(shell, dir+"/bin/sh")
	}
	return dir
}

func TestImage(t *testing.T) {
	dir := unpacked(t)
	b := open(t, namespace.Config{})
	x, y := boxOf(t, b, backends.Spec{Image: dir}), boxOf(t, b, backends.Spec{Image: dir})
	for _, script := range []string{
		"read l < /etc/motd; echo $l", "echo changed > /etc/motd; read l < /etc/motd; echo $l", "echo new > /etc/new; read l < /etc/new; echo $l", "cd /usr/share 2>/dev/null && echo host; echo none",
	} {
		want := map[byte]string{'r': "from the image", 'e': "changed", 'c': "none"}[script[0]]
		if strings.Contains(script, "new") {
			want = "new"
		}
		if code, out := sh(t, x, script); code != 0 || out != want {
			t.Errorf("%s: %d %q", script, code, out)
		}
	}
	if _, out := sh(t, y, "read l < /etc/motd; echo $l"); out != "from the image" {
		t.Errorf("another box of the image sees %q", out)
	}
	if raw, _ := os.ReadFile(dir + "/etc/motd"); string(raw) != "from the image\n" {
		t.Errorf("the image was changed: %q", raw)
	}
	if _, err := os.Stat(dir + "/etc/new"); err == nil {
		t.Error("the image got a file")
	}
}

func TestUnusableSpecs(t *testing.T) {
	b := open(t, namespace.Config{})
	file := filepath.Join(t.TempDir(), "file")
	os.WriteFile(file, nil, 0o644)
	for _, image := range []string{"/nowhere/at/all", file, "python:3.11"} {
		if _, err := b.Open(t.Context(), backends.Spec{Image: image}); !errors.Is(err, backends.ErrImage) {
			t.Errorf("image %s: %v", image, err)
		}
	}
	for _, l := range []backends.Limits{{Memory: 1}, {Memory: -5}, {Processes: 1}, {Disk: 1}, {CPUs: -1}} {
		if x, err := b.Open(t.Context(), backends.Spec{Limits: l}); err == nil {
			t.Errorf("%+v was accepted by %s", l, x.ID())
		}
	}
	for _, c := range []namespace.Config{{Root: "relative"}, {Home: "home"}, {Home: "/"}, {ReadOnly: []string{"/a/../b"}}, {Cgroup: "perhaps"}} {
		if _, err := namespace.Open(t.Context(), c); err == nil || errors.Is(err, backends.ErrUnavailable) {
			t.Errorf("%+v: %v", c, err)
		}
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := b.Open(gone, backends.Spec{}); !errors.Is(err, context.Canceled) {
		t.Error("a cancelled context: ", err)
	}
}

// Without cgroups the limits are rlimits, and the traits say so.
func TestWithoutCgroups(t *testing.T) {
	b := open(t, namespace.Config{Cgroup: "off", Limits: namespace.Limits{Memory: 64 << 20}})
	if tr := b.Traits(); tr.MemoryBy != "rlimit" || len(tr.Notes) < 2 {
		t.Errorf("traits: %+v", tr)
	}
	x := boxOf(t, b, backends.Spec{})
	if _, out := sh(t, x, "ulimit -d"); out != "65536" {
		t.Errorf("data limit of %s KiB", out)
	}
	if code, out := sh(t, x, "head -c 300m /dev/zero | tail | wc -c"); out == "314572800" {
		t.Errorf("300 MiB were held by a process: %d %s", code, out)
	}
}

func TestManyAtOnce(t *testing.T) {
	b := open(t, namespace.Config{})
	var all sync.WaitGroup
	var mu sync.Mutex
	ids := map[string]bool{}
	for range 32 {
		all.Go(func() {
			x, err := b.Open(t.Context(), backends.Spec{})
			if err != nil {
				t.Error(err)
				return
			}
			r, err := x.Exec(t.Context(), backends.Cmd{Shell: "echo ok"})
			if err != nil || string(r.Stdout) != "ok\n" {
				t.Errorf("%s: %+v %v", x.ID(), r, err)
			}
			mu.Lock()
			ids[x.ID()] = true
			mu.Unlock()
		})
	}
	all.Wait()
	if len(ids) != 32 {
		t.Errorf("%d different boxes", len(ids))
	}
	if err := b.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := b.Open(t.Context(), backends.Spec{}); !errors.Is(err, backends.ErrClosed) {
		t.Error("after closing: ", err)
	}
}
