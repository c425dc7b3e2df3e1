//go:build linux

package namespace

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"hermes/backends/namespace/pid1"
	"hermes/backends/slotd/pipes"
	"hermes/backends/slotd/wire"
)

// Most rollouts read and write a few small files, and slotd costs more than their commands. So
// while it is not there a child of pid 1 does the plain cases: it reads a regular file and
// writes one where there was none, through no symbolic link, within a size. What it meets
// otherwise makes it stop before anything has changed but folders that were missing, and slotd
// does the call: both do the same in a plain case, and slotd alone knows the others.

// maxPlainFile bounds what is read and written without slotd, in bytes.
const maxPlainFile = 1 << 20

// ReadFile implements [backends.Sandbox].
func (s *sandbox) ReadFile(ctx context.Context, path string, limit int64) ([]byte, error) {
	leave, err := s.box.back.starts.Wait(ctx, "read "+path)
	if err != nil {
		return nil, err
	}
	defer leave()
	data, err := s.box.readPlain(ctx, path, limit)
	if err == nil || errors.Is(err, fs.ErrNotExist) || ctx.Err() != nil {
		return data, err
	}
	return s.Client.ReadFile(ctx, path, limit)
}

// WriteFile implements [backends.Sandbox].
func (s *sandbox) WriteFile(ctx context.Context, path string, data []byte, perm fs.FileMode) error {
	leave, err := s.box.back.starts.Wait(ctx, "write "+path)
	if err != nil {
		return err
	}
	defer leave()
	if err := s.box.writePlain(ctx, path, data, perm); err == nil || ctx.Err() != nil {
		return err
	}
	return s.Client.WriteFile(ctx, path, data, perm)
}

// errNotPlain says that slotd has to do a call.
var errNotPlain = errors.New("no plain file")

// plainPath is the path of a file in the box, if it leads to no files of the kernel.
func (x *box) plainPath(path string) (string, bool) {
	p := wire.Join(strings.TrimSuffix(x.plan.Dir, "/"), path)
	if path == "" || p != filepath.Clean(p) || !filepath.IsAbs(p) || p == "/" || len(p) >= unix.PathMax || strings.ContainsRune(p, 0) {
		return "", false
	}
	top, _, _ := strings.Cut(p[1:], "/")
	return p, top != "proc" && top != "sys" && top != "dev"
}

// how is the argument of openat2. A box that has no such call has slotd do it.
func how(l *pid1.List, flags int) (at pid1.Data, size int) {
	return l.Words(uint64(flags), 0, unix.RESOLVE_NO_SYMLINKS), unix.SizeofOpenHow
}

// readPlain reads a regular file of the box. Its error is fs.ErrNotExist where there is none;
// any other means that slotd is to read it.
func (x *box) readPlain(ctx context.Context, path string, limit int64) ([]byte, error) {
	p, ok := x.plainPath(path)
	if !ok {
		return nil, errNotPlain
	}
	most := int64(maxPlainFile)
	if limit > 0 {
		most = min(most, limit)
	}
	to, err := pipes.NewKept([]byte{})
	if err != nil {
		return nil, err
	}
	defer to.Close()
	var st unix.Statx_t
	size := int(unsafe.Sizeof(st))
	l := pid1.NewList(1)
	flags, length := how(l, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC)
	file := l.Call("open the file", unix.SYS_OPENAT2, here, p, flags, length).Keep()
	seen := l.Bytes(make([]byte, size))
	l.Call("look at the file", unix.SYS_STATX, file, "", unix.AT_EMPTY_PATH, unix.STATX_TYPE|unix.STATX_SIZE, seen)
	l.Call("say what it is", unix.SYS_WRITE, pid1.Slot(0), seen, size)
	l.Call("copy the file", unix.SYS_SENDFILE, pid1.Slot(0), file, 0, most+1)
	l.Call("end", unix.SYS_EXIT_GROUP, 0)
	if err := x.playChild(ctx, "read "+path, l, to); err != nil {
		if errors.Is(err, unix.ENOENT) {
			err = &fs.PathError{Op: "read", Path: path, Err: unix.ENOENT}
		}
		return nil, err
	}
	raw := pipes.ReadKept(to)
	if copy(unsafe.Slice((*byte)(unsafe.Pointer(&st)), size), raw) < size {
		return nil, errNotPlain
	}
	data := raw[size:]
	if st.Mode&unix.S_IFMT != unix.S_IFREG || st.Size > uint64(most) || uint64(len(data)) != st.Size {
		return nil, errNotPlain
	}
	return data, nil
}

// linked is the descriptor under which a new file gets its name.
const linked = 60

// writePlain writes a file where there is none. It appears whole, or not at all.
func (x *box) writePlain(ctx context.Context, path string, data []byte, perm fs.FileMode) error {
	p, ok := x.plainPath(path)
	if !ok || len(data) > maxPlainFile || perm&^fs.ModePerm != 0 {
		return errNotPlain
	}
	if perm == 0 {
		perm = 0o644
	}
	if data == nil {
		data = []byte{}
	}
	from, err := pipes.NewKept(data)
	if err != nil {
		return err
	}
	defer from.Close()
	parent, base := filepath.Split(p)
	l := pid1.NewList(1)
	for i, c := range parent {
		if c == '/' && i > 0 {
			l.Call("make a folder", unix.SYS_MKDIRAT, here, parent[:i], 0o755).Or(unix.EEXIST, unix.EROFS)
		}
	}
	flags, length := how(l, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC)
	dir := l.Call("open the folder", unix.SYS_OPENAT2, here, parent, flags, length).Keep()
	file := l.Call("make a file without a name", unix.SYS_OPENAT, dir, ".", unix.O_TMPFILE|unix.O_WRONLY|unix.O_CLOEXEC, 0o600).Keep()
	if len(data) > 0 {
		l.Call("make room", unix.SYS_FALLOCATE, file, 0, 0, len(data))
		l.Call("fill the file", unix.SYS_SENDFILE, file, pid1.Slot(0), 0, len(data))
		l.Call("fill the rest of it", unix.SYS_SENDFILE, file, pid1.Slot(0), 0, len(data)) // there is none, unless the first one was cut short
	}
	l.Call("set its mode", unix.SYS_FCHMOD, file, int(perm))
	l.Call("lift it", unix.SYS_DUP3, file, linked, unix.O_CLOEXEC)
	l.Call("name it", unix.SYS_LINKAT, here, fmt.Sprint("/proc/self/fd/", linked), dir, base, unix.AT_SYMLINK_FOLLOW)
	l.Call("end", unix.SYS_EXIT_GROUP, 0)
	return x.playChild(ctx, "write "+path, l, from)
}

// playChild has a list that ends its process played in a child of pid 1, and waits for it.
// pid 1 does nothing else meanwhile.
func (x *box) playChild(ctx context.Context, what string, l *pid1.List, file *os.File) error {
	child, err := x.startChild(l, file)
	if err != nil {
		return err
	}
	late := time.AfterFunc(stuckAfter, x.continueStopped)
	defer late.Stop()
	select {
	case end, ok := <-child.Ended: // also before slotd takes over, as pid 1 waits for the child
		if !ok {
			return pid1.ErrGone
		}
		status, _, err := child.Exit(end)
		if err == nil && status != 0 {
			err = errNotPlain // somebody ended it
		}
		return err
	case <-ctx.Done():
		return fmt.Errorf("%s: %w", what, context.Cause(ctx))
	}
}

// startChild starts such a child, unless slotd serves the box.
func (x *box) startChild(l *pid1.List, file *os.File) (*pid1.Child, error) {
	x.starting.RLock()
	defer x.starting.RUnlock()
	if x.woken {
		return nil, errAwake
	}
	return x.first.Start(l, int(file.Fd()))
}
