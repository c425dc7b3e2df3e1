//go:build linux

package namespace_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"

	"hermes/backends"
	"hermes/backends/namespace"
)

// served brings slotd into a box.
func served(t *testing.T, x backends.Sandbox) {
	t.Helper()
	files, ok := backends.As[backends.Stater](x)
	if !ok {
		t.Fatal("boxes of namespace look at no files")
	}
	if _, err := files.List(t.Context(), "/", 1); err != nil {
		t.Fatal(err)
	}
}

// fileCase is a call about a file of a box that a command has prepared.
type fileCase struct {
	name  string
	setup string
	path  string
	limit int64
	write bool
	stat  bool
	data  []byte
	perm  fs.FileMode
	plain bool // slotd is not needed
}

func fileCases() []fileCase {
	return []fileCase{
		{name: "read", setup: "printf hello >f", path: "f", plain: true},
		{name: "read by an absolute path", setup: "printf hello >/tmp/f", path: "/tmp/f", plain: true},
		{name: "read an empty file", setup: ": >f", path: "f", plain: true},
		{name: "read what only its owner may not", setup: "printf hello >f; chmod 0 f", path: "f", plain: true},
		{name: "read nothing", setup: "true", path: "f", plain: true},
		{name: "read nothing in a missing folder", setup: "true", path: "d/e/f", plain: true},
		{name: "read exactly the limit", setup: "printf hello >f", path: "f", limit: 5, plain: true},
		{name: "read beyond the limit", setup: "printf hello >f", path: "f", limit: 4},
		{name: "read a long file", setup: "head -c 1048577 /dev/zero >f", path: "f"},
		{name: "read the longest plain file", setup: "head -c 1048576 /dev/zero >f", path: "f", plain: true},
		{name: "read a folder", setup: "mkdir f", path: "f"},
		{name: "read through a link", setup: "printf hello >g; ln -s g f", path: "f"},
		{name: "read through a link of a folder", setup: "mkdir d; printf hello >d/f; ln -s d e", path: "e/f"},
		{name: "read through a link to nothing", setup: "ln -s g f", path: "f"},
		{name: "read a FIFO", setup: "mkfifo f", path: "f"},
		{name: "read a file of the kernel", setup: "true", path: "/proc/self/comm"},
		{name: "read a device", setup: "true", path: "/dev/zero", limit: 10},
		{name: "read below a file", setup: "printf hello >f", path: "f/g"},
		{name: "read a path with dots", setup: "mkdir d; printf hello >f", path: "d/../f"},

		{name: "look at a file", setup: "printf hello >f; chmod 640 f; touch -d @1000000000.5 f", path: "f", stat: true, plain: true},
		{name: "look at a program with rights", setup: "printf hello >f; chmod 6755 f; touch -d @1 f", path: "f", stat: true, plain: true},
		{name: "look at a folder", setup: "mkdir f; touch -d @1 f", path: "f", stat: true, plain: true},
		{name: "look at the working folder", setup: "touch -d @1 .", path: ".", stat: true, plain: true},
		{name: "look at the folder of scratch files", setup: "touch -d @1 /tmp", path: "/tmp", stat: true, plain: true},
		{name: "look at nothing", setup: "true", path: "d/f", stat: true, plain: true},
		{name: "look below a file", setup: ": >f", path: "f/g", stat: true},
		{name: "look at a link", setup: "ln -s g f; touch -h -d @1 f", path: "f", stat: true},
		{name: "look through a link", setup: "mkdir d; : >d/f; touch -d @1 d/f; ln -s d e", path: "e/f", stat: true},
		{name: "look at a FIFO", setup: "mkfifo f; touch -d @1 f", path: "f", stat: true},

		{name: "write", setup: "true", path: "f", write: true, data: []byte("hello"), plain: true},
		{name: "write with a mode", setup: "true", path: "f", write: true, data: []byte("hello"), perm: 0o750, plain: true},
		{name: "write under a mask", setup: "umask 077", path: "/tmp/f", write: true, data: []byte("hello"), perm: 0o666, plain: true},
		{name: "write nothing", setup: "true", path: "f", write: true, plain: true},
		{name: "write into new folders", setup: "mkdir d", path: "d/e/g/f", write: true, data: []byte("hello"), plain: true},
		{name: "write over a file", setup: "printf old >f; chmod 700 f", path: "f", write: true, data: []byte("hello"), plain: true},
		{name: "write over a file with a mode", setup: "printf old >f; chmod 400 f; ln f g", path: "f", write: true, data: []byte("hello"), perm: 0o640, plain: true},
		{name: "write nothing over a file", setup: "printf old >f", path: "f", write: true, plain: true},
		{name: "write over a file of others", setup: "printf old >f; chmod 4755 f", path: "f", write: true, data: []byte("hello")},
		{name: "write over a file through a link of a folder", setup: "mkdir d; printf old >d/f; ln -s d e", path: "e/f", write: true, data: []byte("hello")},
		{name: "write through a link", setup: "ln -s g f", path: "f", write: true, data: []byte("hello")},
		{name: "write through a link of a folder", setup: "mkdir d; ln -s d e", path: "e/f", write: true, data: []byte("hello")},
		{name: "write to a folder", setup: "mkdir f", path: "f", write: true, data: []byte("hello")},
		{name: "write to a FIFO", setup: "mkfifo f", path: "f", write: true, data: []byte("hello")},
		{name: "write below a file", setup: ": >f", path: "f/g", write: true, data: []byte("hello")},
		{name: "write where it cannot be", setup: "true", path: "/usr/f", write: true, data: []byte("hello")},
		{name: "write a long file", setup: "true", path: "f", write: true, data: make([]byte, 1<<20+1)},
		{name: "write to the kernel", setup: "true", path: "/proc/self/f", write: true, data: []byte("hello")},
	}
}

// TestPlainFiles: what pid 1 does of the calls about files has the same outcome as when slotd
// does it, and what it does not do is slotd's.
func TestPlainFiles(t *testing.T) {
	for _, tt := range fileCases() {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b := open(t, namespace.Config{}) // one whose boxes have needed slotd brings it in ahead
			first, firstAsked := fileOutcome(t, b, tt, false)
			second, _ := fileOutcome(t, b, tt, true)
			if first != second {
				t.Errorf("without slotd:\n%s\nby slotd:\n%s", first, second)
			}
			if firstAsked == tt.plain {
				t.Errorf("slotd was brought in: %v", firstAsked)
			}
		})
	}
}

// fileOutcome is what becomes of a call, in words, and whether slotd was asked.
func fileOutcome(t *testing.T, b *namespace.Backend, tt fileCase, byServer bool) (outcome string, asked bool) {
	t.Helper()
	x, err := b.Open(t.Context(), backends.Spec{})
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close(context.WithoutCancel(t.Context()))
	switch {
	case byServer:
		served(t, x)
	case b.Woken(x.ID()):
		t.Fatal("slotd is there before the first call")
	}
	if code, out := sh(t, x, tt.setup); code != 0 {
		t.Fatal(code, out)
	}
	var data []byte
	if tt.stat {
		files, _ := backends.As[backends.Stater](x)
		var f backends.FileInfo
		f, err = files.Stat(t.Context(), tt.path)
		data = fmt.Appendf(nil, "%s %d %v %v %s", f.Path, f.Size, f.Mode, f.MTime.UnixNano(), f.Link)
	} else if tt.write {
		err = x.WriteFile(t.Context(), tt.path, tt.data, tt.perm)
	} else {
		data, err = x.ReadFile(t.Context(), tt.path, tt.limit)
	}
	asked = b.Woken(x.ID())
	kinds := ""
	for _, kind := range []error{fs.ErrNotExist, fs.ErrExist, fs.ErrPermission, backends.ErrTooLarge, backends.ErrLost, backends.ErrBroken} {
		if errors.Is(err, kind) {
			kinds += fmt.Sprintf(" [%v]", kind)
		}
	}
	_, left := sh(t, x, `cd; find . /tmp ! -name '.hermes*' -printf '%p %y %m %U %s %l\n' | sort; for f in f d/e/g/f /tmp/f; do test -f "$f" && md5sum "$f"; done; true`)
	left = strings.ReplaceAll(left, x.ID(), "BOX")
	return fmt.Sprintf("%d bytes %.80q, error %v%s\n%s", len(data), data, err, kinds, left), asked
}
