//go:build linux

package unpack_test

import (
	"archive/tar"
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"hermes/backends"
	"hermes/backends/namespace/unpack"
)

func store(t testing.TB, dir string, o unpack.Options) *unpack.Store {
	t.Helper()
	s, err := unpack.NewStore(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func get(t testing.TB, s *unpack.Store, text string) (unpack.Image, error) {
	t.Helper()
	r, err := unpack.Find(text)
	if err != nil {
		return unpack.Image{}, err
	}
	return s.Get(t.Context(), r)
}

// rootFS is a small root file system with one of everything.
func rootFS(t testing.TB) []byte {
	return tarOf(t, entry{name: "./", kind: tar.TypeDir, mode: 0o750}, dir("./etc/"), file("./etc/motd", "hello\n"),
		entry{
			name: "etc/shadow",
			text: "x",
			mode: 0o4000,
		}, entry{name: "tmp", kind: tar.TypeDir, mode: 0o1777}, symlink("bin", "usr/bin"), dir("usr/bin"), file("usr/bin/sh", "#!"),
		hardlink("usr/bin/bash", "usr/bin/sh"), hardlink("usr/bin/dash", "bin/sh"), symlink("var", "/srv"), file("var/log", "through the link"),
		file("/opt/absolute",
			"below the root"), entry{
			name: "dev/null",
			kind: tar.TypeChar,
		}, entry{name: "dev/pipe", kind: tar.TypeFifo}, file("deep/er/file", "no folder came before"))
}

func wantFS() map[string]string {
	return map[string]string{
		"etc":          "dir",
		"etc/motd":     "hello\n",
		"etc/shadow":   "x",
		"tmp":          "dir",
		"bin":          "-> usr/bin",
		"usr":          "dir",
		"usr/bin":      "dir",
		"usr/bin/sh":   "#!",
		"usr/bin/bash": "#!",
		"usr/bin/dash": "#!",
		"var":          "-> /srv",
		"srv":          "dir",
		"srv/log":      "through the link",
		"opt":          "dir",
		"opt/absolute": "below the root",
		"dev":          "dir",
		"deep":         "dir",
		"deep/er":      "dir",
		"deep/er/file": "no folder came before",
	}
}

func TestForms(t *testing.T) {
	raw := rootFS(t)
	one := picture{layers: [][]byte{zipped(raw)}, plain: [][]byte{raw}, env: []string{"PATH=/usr/bin", "A=b=c"}, dir: "/opt"}
	layout := func() made { m := made{}; return m.index(tagged(m.manifest(one), "latest")) }
	zstds := func() made {
		m := made{}
		return m.index(m.manifest(picture{layers: [][]byte{zstandard(raw)}, plain: [][]byte{raw}}))
	}
	nested := func() made {
		m := made{}
		other := picture{layers: [][]byte{zipped(raw)}, plain: [][]byte{raw}, arch: "s390x"}
		attestation := m.blob("application/vnd.oci.image.manifest.v1+json", []byte("{}"))
		attestation["platform"] = map[string]any{"os": "unknown", "architecture": "unknown"}
		return m.index(m.blob("application/vnd.oci.image.index.v1+json",
			encoded(map[string]any{"manifests": []any{m.manifest(other), attestation, m.manifest(one)}})))
	}
	tests := []struct {
		name string
		ref  string
		says bool // the image has a configuration
	}{
		{"tar", write(t, "x", raw), false},
		{"tar.gz", write(t, "x.tar", zipped(raw)), false},
		{"tar.zst", "tar:" + write(t, "x.tar", zstandard(raw)), false},
		{"layout", layout().folder(t), true},
		{"layout by tag", "oci:" + layout().folder(t) + ":latest", true},
		{"layout with zstd", zstds().folder(t), false},
		{"layout with platforms", nested().folder(t), true},
		{"layout in a tar", write(t, "x.tar", layout().tar(t)), true},
		{"layout in a tar.gz", "tar:" + write(t, "x:y.tar", zipped(layout().tar(t))) + ":latest", true},
		{"docker save", write(t, "x.tar", saved(one, "a/b:1").tar(t)), true},
		{"docker save by tag", "tar:" + write(t, "x.tar", saved(one, "a/b:1").tar(t)) + ":a/b:1", true},
		{"docker save, compressed", write(t, "x.tar", zipped(saved(one).tar(t))), true},
		{"a tar that holds a manifest.json itself", write(t, "x.tar", raw), false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			at := filepath.Join(t.TempDir(), "a", "store")
			s := store(t, at, unpack.Options{})
			img, err := get(t, s, tt.ref)
			if err != nil {
				t.Fatal(err)
			}
			same(t, wantFS(), listing(t, img.Root))
			if tt.says && (img.Dir != "/opt" || img.Env["A"] != "b=c" || img.Env["PATH"] != "/usr/bin") {
				t.Errorf("configuration: %+v", img)
			}
			for name, want := range map[string]os.FileMode{
				".":          0o755,
				"etc/shadow": 0o400,
				"etc/motd":   0o644,
				"tmp":        0o777 | os.ModeSticky,
				"bin":        0o777 | os.ModeSymlink,
			} {
				if s, err := os.Lstat(filepath.Join(img.Root, name)); err != nil || s.Mode()&^os.ModeDir != want {
					t.Errorf("%s: %v %v, want %v", name, s.Mode(), err, want)
				} else if name != "." && !s.ModTime().Equal(then) {
					t.Errorf("%s is of %v", name, s.ModTime())
				}
			}
			if again, err := get(t, store(t, at, unpack.Options{}), tt.ref); err != nil || again.Root != img.Root || again.Dir != img.Dir {
				t.Errorf("from another store there: %+v %v", again, err)
			}
			if names := left(t, at); len(names) != 3 { // the image, its lock, what the archive was
				t.Errorf("in the store: %q", names)
			}
		})
	}
}

func same(t testing.TB, want, got map[string]string) {
	t.Helper()
	for name, text := range want {
		if got[name] != text {
			t.Errorf("%s: %q, want %q", name, got[name], text)
		}
	}
	for name := range got {
		if _, ok := want[name]; !ok {
			t.Errorf("there is also %s", name)
		}
	}
}

func left(t testing.TB, at string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(at)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func TestLayers(t *testing.T) {
	lower := tarOf(t, file("a/gone", "1"), file("a/kept", "1"), file("b/x/old", "1"), file("b/y", "1"), file("was-file", "1"),
		file("was-dir/x", "1"), symlink("link", "a"), file("plain", "1"), symlink("to-outside", "/a"))
	upper := tarOf(t, file("a/.wh.gone", ""), file("a/new", "2"), file("a/.wh.new", ""), // a whiteout hides what is below alone
		file("b/x/young", "2"), file("b/.wh..wh..opq", ""), file("was-file/inner", "2"), file("was-dir", "2"), dir("link"), file("link/mine", "2"),
		hardlink("plain", "a/kept"), file("to-outside/through", "2"), file(".wh..wh.plnk", ""), file("none/.wh.nothing", ""))
	at := t.TempDir()
	if err := unpack.Apply(t.Context(), at, unpack.Options{Bytes: 1 << 20, Entries: 100}, lower, upper); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"a":              "dir",
		"a/kept":         "1",
		"a/new":          "2",
		"a/through":      "2",
		"b":              "dir",
		"b/x":            "dir",
		"b/x/young":      "2",
		"was-file":       "dir",
		"was-file/inner": "2",
		"was-dir":        "2",
		"link":           "dir",
		"link/mine":      "2",
		"plain":          "1",
		"to-outside":     "-> /a",
		"none":           "dir",
	}
	same(t, want, listing(t, at))
}

func TestRefused(t *testing.T) {
	raw := rootFS(t)
	one := picture{layers: [][]byte{zipped(raw)}, plain: [][]byte{raw}}
	layout := func(p picture, change func(made)) string {
		m := made{}
		m.index(m.manifest(p))
		if change != nil {
			change(m)
		}
		return m.folder(t)
	}
	blob := func(change func([]byte) []byte) func(made) {
		return func(m made) {
			name := "blobs/sha256/" + sum(zipped(raw))
			m[name] = change(m[name])
			if m[name] == nil {
				delete(m, name)
			}
		}
	}
	two := made{}
	two.index(tagged(two.manifest(one), "one"), tagged(two.manifest(picture{layers: one.layers, plain: one.plain, dir: "/x"}), "two"))
	twice := two.folder(t)
	tests := []struct{ name, ref, says string }{
		{"relative", "image.tar", "absolute path"},
		{"not there", "/nowhere/x.tar", "no such file"},
		{"not there with a tag", "oci:/nowhere/x:tag", "no such file"},
		{"a directory as tar", "tar:" + t.TempDir(), "not a file"},
		{"a file as layout", "oci:" + write(t, "x", raw), "not a directory"},
		{"empty", write(t, "x.tar", nil), "empty"},
		{"no tar", write(t, "x.tar", []byte(strings.Repeat("no tar ", 1000))), "is no tar"},
		{"cut off", write(t, "x.tar", raw[:len(raw)/2+100]), "unexpected EOF"},
		{"cut off gzip", write(t, "x.tar", zipped(raw)[:100]), "unexpected EOF"},
		{"xz", write(t, "x.tar", []byte("\xfd7zXZ\x00...")), "xz -d"},
		{"a tag of a plain tar", "tar:" + write(t, "x.tar", raw) + ":v1", "no tag"},
		{
			"another architecture",
			layout(picture{layers: one.layers, plain: one.plain, arch: "s390x"}, nil),
			"it is for linux/s390x, and this machine runs linux/" + runtime.GOARCH,
		},
		{"another architecture, saved", write(t, "x.tar", saved(picture{plain: one.plain, arch: "s390x"}).tar(t)), "linux/s390x"},
		{"a flipped bit", layout(one, blob(func(b []byte) []byte { b = slices.Clone(b); b[9] ^= 1; return b })), "damaged"},
		{"longer", layout(one, blob(func(b []byte) []byte { return append(slices.Clone(b), 0) })), "bytes that it should have"},
		{"shorter", layout(one, blob(func(b []byte) []byte { return b[:len(b)-1] })), ""},
		{"missing", layout(one, blob(func([]byte) []byte { return nil })), "is missing"},
		{"wrong without compression", layout(picture{layers: one.layers, plain: [][]byte{[]byte("else")}}, nil), "unpacked, has the digest"},
		{"fewer layers", layout(picture{layers: one.layers}, nil), "1 layers and 0 digests"},
		{"two images", twice, "oci:PATH:TAG"},
		{"no such tag", "oci:" + twice + ":three", "one, two"},
		{"no variable", layout(picture{layers: one.layers, plain: one.plain, env: []string{"nonsense"}}, nil), "no variable"},
		{"saved, no such tag", "tar:" + write(t, "x.tar", saved(one, "a/b:1", "a/b:2").tar(t)) + ":3", "it has a/b:1, a/b:2"},
		{"saved, a wrong layer", write(t, "x.tar", func() []byte {
			m := saved(one)
			m[sum([]byte{0})+"/layer.tar"] = tarOf(t, file("a", ""))
			return m.tar(t)
		}()), "damaged"},
		{"an index of nothing", made{}.index().folder(t), "names no image"},
		{"no index", made{"oci-layout": []byte("{}")}.folder(t), "index.json"},
		{"a strange digest", made{}.index(map[string]any{"digest": "sha256:../../../../etc/passwd"}).folder(t), "sha256 digests only"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			at := filepath.Join(t.TempDir(), "store")
			_, err := get(t, store(t, at, unpack.Options{}), tt.ref)
			if !errors.Is(err, backends.ErrImage) || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("%v, want %q", err, tt.says)
			}
			for _, name := range left(t, at) {
				if !strings.HasSuffix(name, ".lock") {
					t.Errorf("left %s", name)
				}
			}
		})
	}
}

// TestHostile: nothing outside of the folder that is filled changes, whatever the entries.
func TestHostile(t *testing.T) {
	deep := strings.Repeat("d/", 300)
	hops := []entry{symlink("l0", "."), file("x", "")}
	for i := range 60 {
		hops = append(hops, symlink("l"+string(rune('A'+i)), "l"+string(rune('A'+i-1))))
	}
	hops = append(hops, symlink("lA", "lB"), symlink("lB", "lA"), file("lA/x", "1"))
	tests := []struct {
		name    string
		says    string // empty: it is unpacked, harmless
		entries []entry
	}{
		{"dots", "..", []entry{file("../canary", "bad")}},
		{"dots within", "..", []entry{file("a/../../canary", "bad")}},
		{"absolute", "", []entry{file("/canary", "inside")}},
		{"a link out, written through", "", []entry{symlink("out", ".."), file("out/canary", "bad")}},
		{"a link far out, written through", "", []entry{symlink("out", "../../../../../../../.."), file("out/canary", "bad")}},
		{"an absolute link, written through", "", []entry{symlink("out", "CANARYDIR"), file("out/canary", "bad")}},
		{"a link to the file, written over", "", []entry{symlink("out", "../canary"), file("out", "bad")}},
		{"a link to the file, as a folder's mode", "", []entry{symlink("out", ".."), entry{name: "out", kind: tar.TypeDir, mode: 0o777}}},
		{"a hard link out", "..", []entry{hardlink("in", "../canary")}},
		{"a hard link through a link", "no file", []entry{symlink("out", ".."), hardlink("in", "out/canary")}},
		{"a hard link to a link that leads out, written over", "", []entry{symlink("out", "../canary"), hardlink("in", "out"), file("in", "bad")}},
		{"a hard link to a folder", "no file", []entry{dir("d"), hardlink("in", "d")}},
		{"a hard link to nothing", "no file", []entry{hardlink("in", "none")}},
		{"a hard link to itself", "", []entry{file("in", "1"), hardlink("in", "in")}},
		{"a hard link into what it replaces", "replaces", []entry{file("d/x", "1"), hardlink("d", "d/x")}},
		{"a link to itself", "more than 40 times", []entry{symlink("l", "l"), file("l/x", "1")}},
		{"links in a circle", "more than 40 times", hops},
		{"the parent is a file", "is a file", []entry{file("f", ""), file("f/x", "")}},
		{"the root is a file", "no folder", []entry{file(".", "x")}},
		{"the root is a link", "no folder", []entry{symlink("./", "/tmp")}},
		{"a whiteout of dots", "hides", []entry{file("d/.wh...", "")}},
		{"a whiteout of a dot", "hides", []entry{file(".wh..", "")}},
		{"a whiteout of nothing", "hides", []entry{file(".wh.", "")}},
		{"a whiteout through a link", "", []entry{symlink("out", ".."), file("out/.wh.canary", ""), file("out/.wh..wh..opq", "")}},
		{"a long name", "255", []entry{file(strings.Repeat("n", 256), "")}},
		{"a long path", "4095", []entry{file(strings.Repeat("n/", 2100)+"x", "")}},
		{"a deep path", "in each other", []entry{file(deep+"x", "")}},
		{"deep by links",
			"folders",
			[]entry{dir(strings.Repeat("d/", 200)), symlink("l", strings.Repeat("d/", 200)), file("l/"+strings.Repeat("e/", 100)+"x", "")}},
		{"a large file", "bytes, which is the bound", []entry{file("x", strings.Repeat("x", 1<<20+1))}},
		{"large files", "bytes, which is the bound", []entry{file("x", strings.Repeat("x", 1<<19)), file("y", strings.Repeat("x", 1<<19)), file("z", "1")}},
		{"many entries", "entries, which is the bound", slices.Repeat([]entry{file("x", "")}, 201)},
		{"devices", "", []entry{{name: "sda", kind: tar.TypeBlock}, {name: "mem", kind: tar.TypeChar}, {name: "pipe", kind: tar.TypeFifo}}},
		{"a strange type", "type", []entry{{name: "x", kind: 'Q'}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			out := t.TempDir()
			in := filepath.Join(out, "in")
			if err := errors.Join(os.Mkdir(in, 0o755), os.WriteFile(out+"/canary", []byte("sings"), 0o600)); err != nil {
				t.Fatal(err)
			}
			entries := slices.Clone(tt.entries)
			for i := range entries {
				entries[i].link = strings.ReplaceAll(entries[i].link, "CANARYDIR", out)
			}
			lower := tarOf(t, file("lower", "1"))
			err := unpack.Apply(t.Context(), in, unpack.Options{Bytes: 1 << 20, Entries: 200}, lower, tarOf(t, entries...))
			if tt.says == "" && err != nil {
				t.Error(err)
			}
			if tt.says != "" && (!errors.Is(err, backends.ErrImage) || !strings.Contains(err.Error(), tt.says)) {
				t.Errorf("%v, want %q", err, tt.says)
			}
			if raw, err := os.ReadFile(out + "/canary"); string(raw) != "sings" || err != nil {
				t.Errorf("the file outside: %q %v", raw, err)
			}
			if names := left(t, out); len(names) != 2 {
				t.Errorf("outside: %q", names)
			}
		})
	}
}

// TestBounds: an archive beyond the bounds leaves nothing in the store.
func TestBounds(t *testing.T) {
	zeros := tarOf(t, file("zeros", string(make([]byte, 4<<20))))
	for name, raw := range map[string][]byte{"bytes": zipped(zeros), "bytes of a layout": func() []byte {
		m := made{}
		return m.index(m.manifest(picture{layers: [][]byte{zipped(zeros)}, plain: [][]byte{zeros}})).tar(t)
	}(), "entries": tarOf(t, slices.Repeat([]entry{file("a", "")}, 11)...)} {
		at := filepath.Join(t.TempDir(), "store")
		_, err := get(t, store(t, at, unpack.Options{Bytes: 1 << 20, Entries: 10}), write(t, "x", raw))
		if !errors.Is(err, backends.ErrImage) || !strings.Contains(err.Error(), "bound") {
			t.Errorf("%s: %v", name, err)
		}
		for _, name := range left(t, at) {
			if !strings.HasSuffix(name, ".lock") {
				t.Errorf("left %s", name)
			}
		}
	}
}

// TestStores: who may use a folder as a store, and what they do about it.
func TestStores(t *testing.T) {
	if _, err := unpack.NewStore("relative", unpack.Options{}); err == nil {
		t.Error("a relative path was taken")
	}
	open := t.TempDir()
	if err := os.Chmod(open, 0o777); err != nil {
		t.Fatal(err)
	}
	if _, err := get(t, store(t, open, unpack.Options{}), write(t, "x", rootFS(t))); err == nil || errors.Is(err, backends.ErrImage) ||
		!strings.Contains(err.Error(), "chmod") {
		t.Error("a folder that others can write to: ", err)
	}
}

// TestChanged: another file at the same path is another image; the first one stays.
func TestChanged(t *testing.T) {
	s := store(t, filepath.Join(t.TempDir(), "store"), unpack.Options{})
	path := write(t, "x", tarOf(t, file("a", "1")))
	first, err := get(t, s, path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, tarOf(t, file("b", "22")), 0o644); err != nil {
		t.Fatal(err)
	}
	second, err := get(t, s, path)
	if err != nil || second.Root == first.Root || listing(t, second.Root)["b"] != "22" || listing(t, first.Root)["a"] != "1" {
		t.Errorf("%+v and %+v: %v", first, second, err)
	}
	if err := os.RemoveAll(filepath.Dir(second.Root)); err != nil { // somebody made room
		t.Fatal(err)
	}
	if again, err := get(t, s, path); err != nil || listing(t, again.Root)["b"] != "22" {
		t.Errorf("after it was removed: %+v %v", again, err)
	}
}

func TestManyAtOnce(t *testing.T) {
	at := filepath.Join(t.TempDir(), "store")
	path := write(t, "x.tar.gz", zipped(rootFS(t)))
	var all sync.WaitGroup
	for range 4 {
		s := store(t, at, unpack.Options{})
		for range 16 {
			all.Go(func() {
				img, err := get(t, s, path)
				if err != nil {
					t.Error(err)
				} else if raw, err := os.ReadFile(img.Root + "/etc/motd"); string(raw) != "hello\n" {
					t.Errorf("%q %v", raw, err)
				}
			})
		}
	}
	all.Wait()
	if names := left(t, at); len(names) != 3 {
		t.Errorf("in the store: %q", names)
	}
}

// TestMain becomes one of the processes of TestTwoProcesses when it is asked to.
func TestMain(m *testing.M) {
	if len(os.Args) == 4 && os.Args[1] == "unpack" {
		os.Exit(unpackOne(os.Args[2], os.Args[3]))
	}
	os.Exit(m.Run())
}

// unpackOne prints what became of the root: a folder that was made once keeps its inode.
func unpackOne(at, path string) int {
	s, err := unpack.NewStore(at, unpack.Options{})
	if err != nil {
		return 3
	}
	defer s.Close()
	fmt.Println("ready")
	bufio.NewReader(os.Stdin).ReadString('\n')
	r, err := unpack.Find(path)
	if err != nil {
		return 4
	}
	img, err := s.Get(context.Background(), r)
	if err != nil {
		fmt.Println(err)
		return 5
	}
	info, err := os.Stat(img.Root)
	if err != nil {
		return 6
	}
	fmt.Println(img.Root, info.Sys().(*syscall.Stat_t).Ino)
	return 0
}

// TestTwoProcesses: one of them unpacks, all of them get that.
func TestTwoProcesses(t *testing.T) {
	at, path := filepath.Join(t.TempDir(), "store"), write(t, "x.tar.gz", zipped(tarOf(t, file("a", strings.Repeat("x", 8<<20)))))
	var starts []io.Writer
	var outs []*bufio.Reader
	for range 3 {
		c := exec.CommandContext(t.Context(), "/proc/self/exe", "unpack", at, path)
		in, err := c.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		out, err := c.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Wait() })
		starts, outs = append(starts, in), append(outs, bufio.NewReader(out))
		if line, err := outs[len(outs)-1].ReadString('\n'); line != "ready\n" {
			t.Fatalf("%q %v", line, err)
		}
	}
	for _, in := range starts {
		fmt.Fprintln(in)
	}
	said := map[string]bool{}
	for _, out := range outs {
		line, err := out.ReadString('\n')
		if err != nil || !strings.HasPrefix(line, at) {
			t.Errorf("%q %v", line, err)
		}
		said[line] = true
	}
	if names := left(t, at); len(said) != 1 || len(names) != 3 {
		t.Errorf("different answers: %v, in the store: %q", said, names)
	}
}

// TestSweep: what a dead unpacking left goes, what is under way stays.
func TestSweep(t *testing.T) {
	at := filepath.Join(t.TempDir(), "store")
	s := store(t, at, unpack.Options{})
	if n, err := s.Sweep(t.Context()); n != 0 || err != nil {
		t.Errorf("a store that is not there: %d %v", n, err)
	}
	img, err := get(t, s, write(t, "x", rootFS(t)))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(at+"/dead.tmp/root/x", 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(at+"/alive.tmp/root", 0o700); err != nil {
		t.Fatal(err)
	}
	unlock := lock(t, at+"/alive.lock")
	if n, err := s.Sweep(t.Context()); n != 1 || err != nil {
		t.Errorf("%d removed: %v", n, err)
	}
	unlock()
	if n, err := s.Sweep(t.Context()); n != 1 || err != nil {
		t.Errorf("%d removed when it had died: %v", n, err)
	}
	if _, err := os.Stat(img.Root); err != nil {
		t.Error(err)
	}
}

func TestGivenUp(t *testing.T) {
	s := store(t, filepath.Join(t.TempDir(), "store"), unpack.Options{})
	r, err := unpack.Find(write(t, "x", rootFS(t)))
	if err != nil {
		t.Fatal(err)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Get(gone, r); err != nil && (!errors.Is(err, context.Canceled) || errors.Is(err, backends.ErrImage)) {
		t.Error(err)
	}
	s.Close()
	if _, err := s.Get(t.Context(), r); err != nil && !errors.Is(err, backends.ErrClosed) {
		t.Error("after closing: ", err)
	}
	if err := unpack.Apply(gone, t.TempDir(), unpack.Options{
		Bytes:   1 << 20,
		Entries: 9,
	}, rootFS(t)); !errors.Is(err, context.Canceled) || errors.Is(err, backends.ErrImage) {
		t.Error("a cancelled context: ", err)
	}
}

// written makes layers of a text: an entry a line, by its kind (f, d, s, h), name and what
// it links to; a line of dashes begins another layer.
func written(t testing.TB, text string) (layers [][]byte) {
	t.Helper()
	for part := range strings.SplitSeq(text, "---\n") {
		var entries []entry
		for line := range strings.Lines(part) {
			name, link, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "|")
			if len(name) < 2 || strings.Contains(name+link, "\x00") {
				continue
			}
			kind, name := name[0], name[1:]
			if kind != 'd' && strings.HasSuffix(name, "/") {
				continue // no program writes that
			}
			if e := (entry{
				name: name,
				link: link,
				kind: map[byte]byte{'d': tar.TypeDir, 's': tar.TypeSymlink, 'h': tar.TypeLink, 'p': tar.TypeFifo}[kind],
			}); e.kind != 0 {
				entries = append(entries, e)
			} else {
				entries = append(entries, file(name, link))
			}
		}
		layers = append(layers, tarOf(t, entries...))
	}
	return layers
}

// FuzzApply: whatever the archive, nothing outside of the folder changes.
func FuzzApply(f *testing.F) {
	f.Add(rootFS(f), "fetc/.wh.motd\n---\nfetc/motd|new\n")
	f.Add(tarOf(f, symlink("out", ".."), file("out/canary", "bad")), "fout/.wh.canary\n---\nsa|out\nfa/canary|bad\nfa/.wh..wh..opq\n")
	f.Add([]byte(nil), "sa|/..\nhb|a\nfb/canary|bad\n---\ndb\nfa/.wh..wh..opq\nf.wh.b\n")
	f.Add(zstandard(rootFS(f)), "hx|etc/motd\nfx|1\npx\nf../canary|bad\n")
	f.Add(zipped(rootFS(f)), "da/b/c\nsl|a/b/../..\nfl/l/../x|1\n---\nfa/b|file\nsa|..\nda\nha/canary|canary\n")
	f.Fuzz(func(t *testing.T, raw []byte, text string) {
		out := t.TempDir()
		in := filepath.Join(out, "in")
		if err := errors.Join(os.Mkdir(in, 0o755), os.WriteFile(out+"/canary", []byte("sings"), 0o600)); err != nil {
			t.Fatal(err)
		}
		for _, layers := range [][][]byte{{raw}, written(t, text)} {
			err := unpack.Apply(t.Context(), in, unpack.Options{Bytes: 1 << 20, Entries: 100}, layers...)
			if own := errors.Is(err, backends.ErrImage); err != nil && !own {
				t.Error("not the archive's fault? ", err)
			}
		}
		s, serr := os.Stat(out + "/canary")
		if raw, err := os.ReadFile(out + "/canary"); string(raw) != "sings" || err != nil || serr != nil || s.Mode() != 0o600 || len(left(t, out)) != 2 {
			t.Errorf("outside: %q, canary %q %v %v", left(t, out), raw, err, s)
		}
	})
}

// TestSparse: a file of a few bytes that says it is one of a tebibyte is refused before it
// fills a disk; a small one gets its holes as zeros.
func TestSparse(t *testing.T) {
	for size, ok := range map[string]bool{"1099511627776": false, "4096": true} {
		var out bytes.Buffer
		w := tar.NewWriter(&out)
		if err := w.WriteHeader(&tar.Header{Name: "x", Typeflag: tar.TypeReg, Mode: 0o644, Size: 1, Format: tar.FormatPAX, PAXRecords: map[string]string{
			"GNU-sparse.numblocks": "1", "GNU-sparse.map": "0,1", "GNU-sparse.size": size}}); err != nil {
			t.Fatal(err)
		}
		w.Write([]byte("1"))
		w.Close()
		raw := bytes.ReplaceAll(out.Bytes(), []byte("GNU-sparse."), []byte("GNU.sparse.")) // which the writer does not write
		at := t.TempDir()
		err := unpack.Apply(t.Context(), at, unpack.Options{Bytes: 1 << 20, Entries: 9}, raw)
		if ok && (err != nil || listing(t, at)["x"] != "1"+strings.Repeat("\x00", 4095)) {
			t.Errorf("%s bytes: %v", size, err)
		}
		if !ok && (!errors.Is(err, backends.ErrImage) || len(left(t, at)) != 0) {
			t.Errorf("%s bytes: %v, left %q", size, err, left(t, at))
		}
	}
}

// lock takes the lock of an image as one who unpacks it does.
func lock(t testing.TB, path string) (unlock func()) {
	t.Helper()
	unlock, err := backends.LockFile(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	return unlock
}
