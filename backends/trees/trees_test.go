//go:build linux

package trees_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"hermes/backends/trees"
)

// deep makes n folders in each other and a file in each hundredth, without a long path.
func deep(t testing.TB, dir string, n int) {
	t.Helper()
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	for i := 0; err == nil && i < n; i++ {
		next := -1
		if err = unix.Mkdirat(fd, "d", 0o755); err == nil {
			next, err = unix.Openat(fd, "d", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		}
		if err == nil && i%100 == 99 {
			var f int
			f, err = unix.Openat(next, "f", unix.O_CREAT|unix.O_WRONLY|unix.O_CLOEXEC, 0o644)
			if err == nil {
				unix.Close(f)
			}
		}
		unix.Close(fd)
		fd = next
	}
	if err != nil {
		t.Fatal(err)
	}
	unix.Close(fd)
}

// fewFiles lets this process open only so many files until the test ends.
func fewFiles(t testing.TB, most uint64) {
	t.Helper()
	var was unix.Rlimit
	err := unix.Getrlimit(unix.RLIMIT_NOFILE, &was)
	if err == nil {
		err = unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: most, Max: was.Max})
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Setrlimit(unix.RLIMIT_NOFILE, &was) })
}

// soon fails the test when f does not return.
func soon(t testing.TB, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() { defer close(done); f() }()
	select {
	case <-done:
	case <-time.After(2 * time.Minute):
		t.Fatal("no end after two minutes")
	}
}

func walk(t *testing.T, dir string, b trees.Bounds) (files, folders []string, left map[string]error) {
	t.Helper()
	top, _, err := trees.Folder(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer top.Close()
	left = map[string]error{}
	soon(t, func() {
		err = trees.Walk(t.Context(), top, b, trees.Visitor{
			Visit: func(e *trees.Entry) error {
				if e.Type.IsDir() {
					folders = append(folders, e.Path)
				} else {
					files = append(files, e.Path)
				}
				return nil
			},
			Left: func(p string, why error) { left[p] = why },
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	return files, folders, left
}

// TestDeep: a tree of any depth costs what its folders cost, whatever bound is set, and few open
// files.
func TestDeep(t *testing.T) {
	dir := t.TempDir()
	fewFiles(t, 100)
	deep(t, dir, 20_000)
	if files, folders, left := walk(t, dir, trees.Bounds{}); len(folders) != 2001 || len(files) != 20 || len(left) != 1 {
		t.Errorf("%d files, %d folders, left %d", len(files), len(folders), len(left))
	} else {
		for p, why := range left {
			if !trees.Deep(why) {
				t.Errorf("%d: %v", len(p), why)
			}
		}
	}
	if files, folders, left := walk(t, dir, trees.Bounds{Depth: 50_000, Path: 100_000}); len(folders) != 20_000 || len(files) != 200 || len(left) != 0 {
		t.Errorf("all of it: %d files, %d folders, left %v", len(files), len(folders), left)
	}
	soon(t, func() {
		if err := trees.Remove(t.Context(), filepath.Join(dir, "d")); err != nil {
			t.Error(err)
		}
	})
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("left %v, %v", left, err)
	}
}

func TestOrderAndBounds(t *testing.T) {
	dir := t.TempDir()
	for _, p := range []string{"b/2", "b/1", "a/x/1", "c"} {
		if err := errors.Join(os.MkdirAll(filepath.Join(dir, filepath.Dir(p)), 0o755), os.WriteFile(filepath.Join(dir, p), nil, 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	files, folders, left := walk(t, dir, trees.Bounds{})
	if got := strings.Join(files, " "); got != "a/x/1 b/1 b/2 c" || len(left) != 0 {
		t.Errorf("files %s, left %v", got, left)
	}
	if got := strings.Join(folders, " "); got != "a a/x b" {
		t.Errorf("folders %s", got)
	}
	for _, tt := range []struct {
		b    trees.Bounds
		left string
		what string
	}{
		{trees.Bounds{Depth: 1}, "a/x", "beyond the bound of 1 folders in each other"},
		{trees.Bounds{Path: 1}, "a/x", "beyond the bound of 1 bytes of a path"},
		{trees.Bounds{Entries: 4}, "b", "beyond the bound of 4 names"},
	} {
		_, _, left := walk(t, dir, tt.b)
		if len(left) == 0 || left[tt.left] == nil || left[tt.left].Error() != tt.what {
			t.Errorf("%+v: left %v", tt.b, left)
		}
	}
}

// TestSpecial: an open does not block, whatever the name leads to.
func TestSpecial(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	sock, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(sock)
	if err := errors.Join(syscall.Mkfifo(at("fifo"), 0o644), unix.Bind(sock, &unix.SockaddrUnix{Name: at("sock")}), os.WriteFile(at("file"), []byte("x"), 0o644),
		os.Symlink("fifo", at("link")), os.Symlink("file", at("good")), os.Symlink("/dev/zero", at("zero")), os.Mkdir(at("dir"), 0o755)); err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	for name, want := range map[string]struct{ file, folder error }{
		"fifo": {fs.ErrInvalid, unix.ENOTDIR}, "sock": {fs.ErrInvalid, unix.ENOTDIR}, "link": {fs.ErrInvalid, unix.ENOTDIR},
		"zero": {
			fs.ErrInvalid,
			unix.ENOTDIR,
		}, "file": {nil, unix.ENOTDIR}, "good": {nil, unix.ENOTDIR}, "dir": {unix.EISDIR, nil}, "none": {fs.ErrNotExist, fs.ErrNotExist},
	} {
		check := func(how string, f *os.File, err, want error) {
			if f != nil {
				f.Close()
			}
			if !errors.Is(err, want) {
				t.Errorf("%s as %s: %v, want %v", name, how, err, want)
			}
		}
		soon(t, func() {
			f, _, err := trees.File(at(name))
			check("file", f, err, want.file)
			f, _, err = trees.Folder(at(name))
			check("folder", f, err, want.folder)
			r, err := trees.FolderRoot(at(name))
			if r != nil {
				r.Close()
			}
			check("root", nil, err, want.folder)
			if name == "zero" { // it leads out
				return
			}
			f, _, err = trees.FileIn(root, name)
			check("file of a root", f, err, want.file)
			f, _, err = trees.FolderIn(root, name)
			check("folder of a root", f, err, want.folder)
		})
	}
}

// TestExchanged: a file that becomes a FIFO again and again, between looks and opens, is a file
// or an error.
func TestExchanged(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "x")
	fifo := filepath.Join(dir, "fifo")
	file := filepath.Join(dir, "file")
	if err := errors.Join(syscall.Mkfifo(fifo, 0o644), os.WriteFile(file, []byte("x"), 0o644), os.Link(file, name)); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := 0; ctx.Err() == nil; i++ {
			from := []string{fifo, file}[i%2]
			tmp := name + strconv.Itoa(i)
			if os.Link(from, tmp) == nil {
				os.Rename(tmp, name)
			}
		}
	}()
	opened := 0
	soon(t, func() {
		for range 20_000 {
			f, st, err := trees.File(name)
			if err != nil {
				continue
			}
			opened++
			if !st.Mode().IsRegular() {
				t.Errorf("opened %v", st.Mode())
			}
			f.Close()
		}
	})
	stop()
	<-done
	if opened == 0 {
		t.Error("it was never opened")
	}
}

// TestRemove takes away what a tree has against it.
func TestRemove(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, "top", name) }
	outside := filepath.Join(dir, "outside")
	if err := errors.Join(os.MkdirAll(at("a/locked/in"), 0o755), os.MkdirAll(at("many"), 0o755), os.WriteFile(at("a/locked/in/f"), nil, 0), os.Mkdir(outside, 0o755),
		os.WriteFile(filepath.Join(outside, "f"), nil, 0o644), os.Symlink(outside, at("link")), syscall.Mkfifo(at("a/fifo"), 0)); err != nil {
		t.Fatal(err)
	}
	for i := range 9_000 {
		if err := os.WriteFile(at("many/"+strconv.Itoa(i)), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.Chmod(at("a/locked"), 0), os.Chmod(at("a"), 0o500)); err != nil {
		t.Fatal(err)
	}
	soon(t, func() {
		if err := trees.Remove(t.Context(), filepath.Join(dir, "top")); err != nil {
			t.Error(err)
		}
		if err := trees.Remove(t.Context(), filepath.Join(dir, "top")); err != nil {
			t.Errorf("again: %v", err)
		}
		if err := trees.Remove(t.Context(), filepath.Join(dir, "none/deeper")); err != nil {
			t.Errorf("missing: %v", err)
		}
	})
	if _, err := os.Stat(filepath.Join(outside, "f")); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(filepath.Join(dir, "top")); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}
