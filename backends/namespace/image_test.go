//go:build linux

package namespace_test

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"hermes/backends"
	"hermes/backends/namespace"
	"hermes/backends/namespace/driver"
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
	for _, image := range []string{"/nowhere/at/all", file, "python:3.11", "tar:relative", "oci:/nowhere:tag", "dir:" + file} {
		if _, err := b.Open(t.Context(), backends.Spec{Image: image}); !errors.Is(err, backends.ErrImage) {
			t.Errorf("image %s: %v", image, err)
		}
	}
	for _, l := range []backends.Limits{{Memory: 1}, {Memory: -5}, {Processes: 1}, {Disk: 1}, {CPUs: -1}} {
		if x, err := b.Open(t.Context(), backends.Spec{Limits: l}); err == nil {
			t.Errorf("%+v was accepted by %s", l, x.ID())
		}
	}
	for _, c := range []namespace.Config{{Root: "relative"},
		{Root: "oci:relative"},
		{Store: "relative"},
		{Home: "home"},
		{Home: "/"},
		{ReadOnly: []string{"/a/../b"}},
		{Cgroup: "perhaps"}} {
		if _, err := driver.Open(t.Context(), c); err == nil || errors.Is(err, backends.ErrUnavailable) {
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

// packed makes the tar of a directory.
func packed(t *testing.T, dir string) []byte {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	if err := errors.Join(w.AddFS(os.DirFS(dir)), w.Close()); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// put writes a file and returns its path.
func put(t *testing.T, path string, raw []byte) string {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, raw, 0o644)); err != nil {
		t.Fatal(err)
	}
	return path
}

// layout makes an OCI image layout of a root file system and a layer over it.
func layout(t *testing.T, layers ...[]byte) string {
	t.Helper()
	dir := t.TempDir()
	blob := func(kind string, raw []byte) map[string]any {
		sum := fmt.Sprintf("%x", sha256.Sum256(raw))
		put(t, dir+"/blobs/sha256/"+sum, raw)
		return map[string]any{"mediaType": kind, "digest": "sha256:" + sum, "size": len(raw)}
	}
	text := func(v any) []byte {
		raw, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return raw
	}
	var diffs, list []any
	for _, raw := range layers {
		d := blob("application/vnd.oci.image.layer.v1.tar", raw)
		diffs, list = append(diffs, d["digest"]), append(list, d)
	}
	conf := blob("application/vnd.oci.image.config.v1+json",
		text(map[string]any{"os": "linux", "architecture": runtime.GOARCH, "rootfs": map[string]any{"type": "layers", "diff_ids": diffs},
			"config": map[string]any{
				"Env":        []string{"GREETING=from the image", "HOME=/home/image", "LANG=C"},
				"WorkingDir": "/srv/work",
				"User":       "1000",
				"Entrypoint": []string{"/bin/false"},
			}}))
	manifest := blob("application/vnd.oci.image.manifest.v1+json", text(map[string]any{"schemaVersion": 2, "config": conf, "layers": list}))
	manifest["annotations"] = map[string]string{"org.opencontainers.image.ref.name": "v1"}
	put(t, dir+"/oci-layout", []byte(`{"imageLayoutVersion":"1.0.0"}`))
	put(t, dir+"/index.json", text(map[string]any{"schemaVersion": 2, "manifests": []any{manifest}}))
	return dir
}

// upper is a layer that removes a file and adds one that only the owner may read.
func upper(t *testing.T) []byte {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, h := range []tar.Header{{Name: "etc/.wh.gone"},
		{Name: "srv/work/mine", Mode: 0o600, Size: 3, Uid: 1234},
		{Name: "srv/work/su", Mode: 0o4755, Size: 3}} {
		h.Typeflag = tar.TypeReg
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if h.Size > 0 {
			w.Write([]byte("my\n"))
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// TestArchive runs boxes of a tar, and of an image with a configuration.
func TestArchive(t *testing.T) {
	dir := unpacked(t)
	put(t, dir+"/etc/gone", []byte("gone\n"))
	store := filepath.Join(t.TempDir(), "store")
	raw := packed(t, dir)
	file, oci := put(t, filepath.Join(t.TempDir(), "image"), raw), layout(t, raw, upper(t))
	b := open(t, namespace.Config{Store: store, Resets: true})
	for _, image := range []string{file, "tar:" + file} {
		x := boxOf(t, b, backends.Spec{Image: image})
		if code, out := sh(t, x, "read l < /etc/motd; echo $l; pwd; echo changed > /etc/motd; echo $?"); code != 0 || out != "from the image\n/root\n0" {
			t.Errorf("%s: %d %q", image, code, out)
		}
	}
	for _, image := range []string{oci, "oci:" + oci + ":v1"} {
		x := boxOf(t, b, backends.Spec{Image: image, Env: map[string]string{"LANG": "C.UTF-8"}})
		for script, want := range map[string]string{
			"echo $GREETING, $LANG, $HOME":             "from the image, C.UTF-8, /root",
			"pwd":                                      "/srv/work",
			"read l < mine; echo $l":                   "my",
			"echo more >> mine && echo changed":        "changed",
			"test -e /etc/gone || echo hidden":         "hidden",
			"test -u su || echo plain":                 "plain",
			"test -O mine && test -O /etc && echo own": "own",
		} {
			if code, out := sh(t, x, script); code != 0 || out != want {
				t.Errorf("%s: %s: %d %q", image, script, code, out)
			}
		}
		if _, out := sh(t, boxOf(t, b, backends.Spec{Image: image, Dir: "/etc"}), "pwd"); out != "/etc" {
			t.Errorf("%s: a directory of the Spec: %s", image, out)
		}
	}
	if entries, err := os.ReadDir(store); err != nil || len(entries) != 7 { // two images, two locks, the three names for them
		t.Errorf("the store has %v, %v", entries, err)
	}
	if n, err := b.Sweep(t.Context()); err != nil {
		t.Errorf("sweep: %d %v", n, err)
	}
	if _, err := b.Open(t.Context(), backends.Spec{Image: "oci:" + oci + ":v2"}); !errors.Is(err, backends.ErrImage) ||
		!strings.Contains(err.Error(), "it has v1") {
		t.Error("a tag that is not there: ", err)
	}
}

// TestArchiveAsRoot: the section's root can be an archive, and is unpacked when the
// back-end opens.
func TestArchiveAsRoot(t *testing.T) {
	file := put(t, filepath.Join(t.TempDir(), "image"), packed(t, unpacked(t)))
	b := open(t, namespace.Config{Root: file, Store: filepath.Join(t.TempDir(), "store")})
	if _, out := sh(t, boxOf(t, b, backends.Spec{}), "read l < /etc/motd; echo $l"); out != "from the image" {
		t.Errorf("the root of the section: %q", out)
	}
	if _, out := sh(t, boxOf(t, b, backends.Spec{Image: "host"}), "test -e /etc/motd || echo none"); out != "none" {
		t.Errorf("the host's programs: %q", out)
	}
}
