//go:build linux

package namespace

import (
	"cmp"
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

	"hermes/backends"
	"hermes/backends/namespace/pid1"
	"hermes/backends/slotd/pipes"
	"hermes/backends/slotd/wire"
)

// Most rollouts read and write a few small files, and slotd costs more than their commands. So
// while it is not there a child of pid 1 does the plain cases: it reads and writes regular
// files, through no symbolic link, within a size. What it meets otherwise makes it stop before
// anything has changed but folders that were missing, and slotd does the call: both do the same
// in a plain case, and slotd alone knows the others.

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
	if err == nil || errors.Is(err, fs.ErrNotExist) || callerLeft(ctx, err) {
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
	err = s.box.writePlain(ctx, path, data, perm)
	if err == nil || callerLeft(ctx, err) {
		return err
	}
	return s.Client.WriteFile(ctx, path, data, perm)
}

// lookingSandbox is a box whose server looks at files.
type lookingSandbox struct {
	*sandbox
	files backends.Stater
}

// handOut is what the caller of Open gets.
func (x *box) handOut() backends.Sandbox {
	s := &sandbox{x.client, x}
	if files, ok := backends.As[backends.Stater](x.client); ok {
		return &lookingSandbox{s, files}
	}
	return s
}

// Stat implements [backends.Stater].
func (s *lookingSandbox) Stat(ctx context.Context, path string) (backends.FileInfo, error) {
	leave, err := s.box.back.starts.Wait(ctx, "stat "+path)
	if err != nil {
		return backends.FileInfo{}, err
	}
	defer leave()
	f, err := s.box.statPlain(ctx, path)
	if err == nil || errors.Is(err, fs.ErrNotExist) || callerLeft(ctx, err) {
		return f, err
	}
	return s.files.Stat(ctx, path)
}

// List implements [backends.Stater].
func (s *lookingSandbox) List(ctx context.Context, path string, max int) ([]backends.FileInfo, error) {
	return s.files.List(ctx, path, max)
}

// callerLeft says whether a call was given up because its context ended.
func callerLeft(ctx context.Context, err error) bool {
	return ctx.Err() != nil && errors.Is(err, context.Cause(ctx))
}

// errNotPlain says that slotd has to do a call.
var errNotPlain = errors.New("no plain file")

// plainPath is the path of a file in the box, if it leads to no files of the kernel.
func (x *box) plainPath(path string) (string, bool) {
	p := wire.Join(strings.TrimSuffix(x.plan.Dir, "/"), path)
	if path == "." {
		p = x.plan.Dir
	}
	if path == "" || p != filepath.Clean(p) || !filepath.IsAbs(p) || p == "/" || len(p) >= unix.PathMax || strings.ContainsRune(p, 0) {
		return "", false
	}
	top, _, _ := strings.Cut(p[1:], "/")
	return p, top != "proc" && top != "sys" && top != "dev"
}

// how is the argument of openat2. Where the kernel has no such call slotd does the work.
func how(l *pid1.List, flags int) (at pid1.Data, size int) {
	return l.Words(uint64(flags|unix.O_CLOEXEC), 0, unix.RESOLVE_NO_SYMLINKS), unix.SizeofOpenHow
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
	st, data, err := x.look(ctx, p, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY, most)
	switch {
	case errors.Is(err, unix.ENOENT):
		return nil, &fs.PathError{Op: "read", Path: path, Err: unix.ENOENT}
	case err != nil:
		return nil, err
	case st.Mode&unix.S_IFMT != unix.S_IFREG || st.Size > uint64(most) || uint64(len(data)) != st.Size:
		return nil, errNotPlain
	}
	return data, nil
}

// look opens a path and returns what lies there, and at most one byte more than most of its
// content; with most 0 nothing of it.
func (x *box) look(ctx context.Context, p string, flags int, most int64) (st unix.Statx_t, data []byte, err error) {
	to, err := pipes.NewKept([]byte{})
	if err != nil {
		return st, nil, err
	}
	defer to.Close()
	size := int(unsafe.Sizeof(st))
	l := pid1.NewList(1)
	how, length := how(l, flags)
	file := l.Call("open the file", unix.SYS_OPENAT2, here, p, how, length).Keep()
	seen := l.Bytes(make([]byte, size))
	l.Call("look at the file", unix.SYS_STATX, file, "", unix.AT_EMPTY_PATH, unix.STATX_TYPE|unix.STATX_MODE|unix.STATX_SIZE|unix.STATX_MTIME, seen)
	l.Call("say what it is", unix.SYS_WRITE, pid1.Slot(0), seen, size)
	if most > 0 {
		l.Call("copy the file", unix.SYS_SENDFILE, pid1.Slot(0), file, 0, most+1)
	}
	l.Call("end", unix.SYS_EXIT_GROUP, 0)
	if err := x.playChild(ctx, "read "+p, l, to); err != nil {
		return st, nil, err
	}
	raw := pipes.ReadKept(to)
	if copy(unsafe.Slice((*byte)(unsafe.Pointer(&st)), size), raw) < size {
		return st, nil, errNotPlain
	}
	return st, raw[size:], nil
}

// statPlain looks at a regular file or a folder of the box.
func (x *box) statPlain(ctx context.Context, path string) (f backends.FileInfo, err error) {
	p, ok := x.plainPath(path)
	if !ok {
		return f, errNotPlain
	}
	st, _, err := x.look(ctx, p, unix.O_PATH|unix.O_NOFOLLOW, 0)
	switch {
	case errors.Is(err, unix.ENOENT):
		return backends.FileInfo{Path: path}, &fs.PathError{Op: "stat", Path: path, Err: unix.ENOENT}
	case err != nil:
		return f, err
	}
	mode := fs.FileMode(st.Mode & 0o777)
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
	case unix.S_IFDIR:
		mode |= fs.ModeDir
	default:
		return f, errNotPlain
	}
	for bit, means := range map[uint16]fs.FileMode{unix.S_ISUID: fs.ModeSetuid, unix.S_ISGID: fs.ModeSetgid, unix.S_ISVTX: fs.ModeSticky} {
		if st.Mode&bit != 0 {
			mode |= means
		}
	}
	return backends.FileInfo{Path: path, Size: int64(st.Size), Mode: mode, MTime: time.Unix(st.Mtime.Sec, int64(st.Mtime.Nsec))}, nil
}

// writePlain writes a file, which appears whole, or not at all. One that is there is replaced,
// if it is a regular one, and keeps its mode where perm is 0.
func (x *box) writePlain(ctx context.Context, path string, data []byte, perm fs.FileMode) error {
	p, ok := x.plainPath(path)
	if !ok || len(data) > maxPlainFile || perm&^fs.ModePerm != 0 {
		return errNotPlain
	}
	if data == nil {
		data = []byte{}
	}
	from, err := pipes.NewKept(data)
	if err != nil {
		return err
	}
	defer from.Close()
	err = x.playChild(ctx, "write "+path, writeList(p, len(data), cmp.Or(perm, 0o644), false), from)
	if !errors.Is(err, unix.EEXIST) {
		return err
	}
	st, _, err := x.look(ctx, p, unix.O_PATH, 0)
	if err != nil {
		return err
	}
	mode := fs.FileMode(st.Mode &^ unix.S_IFMT)
	if st.Mode&unix.S_IFMT != unix.S_IFREG || mode&^fs.ModePerm != 0 {
		return errNotPlain
	}
	return x.playChild(ctx, "write "+path, writeList(p, len(data), cmp.Or(perm, mode), true), from)
}

// linked is the descriptor under which a new file gets its name.
const linked = 60

// writeList makes a file of what lies in slot 0. Where there is something at the path it fails
// with EEXIST, or replaces it.
func writeList(p string, size int, perm fs.FileMode, replace bool) *pid1.List {
	parent, base := filepath.Split(p)
	l := pid1.NewList(1)
	for i, c := range parent {
		if c == '/' && i > 0 {
			l.Call("make a folder", unix.SYS_MKDIRAT, here, parent[:i], 0o755).Or(unix.EEXIST, unix.EROFS)
		}
	}
	how, length := how(l, unix.O_PATH|unix.O_DIRECTORY)
	dir := l.Call("open the folder", unix.SYS_OPENAT2, here, parent, how, length).Keep()
	file := l.Call("make a file without a name", unix.SYS_OPENAT, dir, ".", unix.O_TMPFILE|unix.O_WRONLY|unix.O_CLOEXEC, 0o600).Keep()
	if size > 0 {
		l.Call("make room", unix.SYS_FALLOCATE, file, 0, 0, size)
		at := l.Words(0) // the first place in slot 0 that is to be read
		l.Call("fill the file", unix.SYS_SENDFILE, file, pid1.Slot(0), at, size)
		l.Call("fill the rest of it", unix.SYS_SENDFILE, file, pid1.Slot(0), at, size) // there is none, unless the first one was cut short
	}
	l.Call("set its mode", unix.SYS_FCHMOD, file, int(perm))
	l.Call("lift it", unix.SYS_DUP3, file, linked, unix.O_CLOEXEC)
	name := base
	if replace {
		name = ".hermes-" + wire.NewID()
	}
	l.Call("name it", unix.SYS_LINKAT, here, fmt.Sprint("/proc/self/fd/", linked), dir, name, unix.AT_SYMLINK_FOLLOW)
	if replace {
		l.Call("replace the other", unix.SYS_RENAMEAT2, dir, name, dir, base, 0).Or(unix.EISDIR, unix.EPERM, unix.EACCES, unix.EBUSY)
		l.Call("remove what could not", unix.SYS_UNLINKAT, dir, name, 0).Or(unix.ENOENT).Skip(1)
		l.Call("fail, as nothing was replaced", unix.SYS_CLOSE, -1)
	}
	l.Call("end", unix.SYS_EXIT_GROUP, 0)
	return l
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
