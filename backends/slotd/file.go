package slotd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"hermes/backends"
)

// errEscapes says that a path leads out of the place it is confined to.
var errEscapes = errors.New("path leads out of the box's directory")

// inside is a path as seen from Home. Confine only.
func (h *Host) inside(p string) (string, error) {
	rel, err := filepath.Rel(h.opt.Home, filepath.Clean(at(h.dir, p)))
	if err != nil || !filepath.IsLocal(rel) {
		return "", &fs.PathError{Op: "open", Path: p, Err: errEscapes}
	}
	return rel, nil
}

// openFile opens a file, never blocking on a fifo.
func (h *Host) openFile(p string, flag int) (*os.File, error) {
	flag |= unix.O_NONBLOCK
	if h.root == nil {
		return os.OpenFile(at(h.dir, p), flag, 0)
	}
	rel, err := h.inside(p)
	if err != nil {
		return nil, err
	}
	return h.root.OpenFile(rel, flag, 0)
}

// folder opens a directory as a root for operations on its entries.
func (h *Host) folder(p string, create bool) (*os.Root, error) {
	if h.root == nil {
		full := at(h.dir, p)
		if create {
			if err := h.makeFolders(full, os.Stat, os.MkdirAll, os.Lchown); err != nil {
				return nil, err
			}
		}
		return os.OpenRoot(full)
	}
	rel, err := h.inside(p)
	if err != nil {
		return nil, err
	}
	if create {
		if err := h.makeFolders(rel, h.root.Stat, h.root.MkdirAll, h.root.Lchown); err != nil {
			return nil, err
		}
	}
	return h.root.OpenRoot(rel)
}

// makeFolders makes a folder and those above it, and gives the new ones to the user of
// commands.
func (h *Host) makeFolders(p string, stat func(string) (fs.FileInfo, error), mkdir func(string, fs.FileMode) error, chown func(string, int, int) error) error {
	var fresh []string
	if h.opt.User != nil {
		for q := path.Clean(p); q != "." && q != "/"; q = path.Dir(q) {
			if _, err := stat(q); err == nil {
				break
			}
			fresh = append(fresh, q)
		}
	}
	if err := mkdir(p, 0o755); err != nil {
		return err
	}
	for _, q := range fresh {
		if err := chown(q, int(h.opt.User.UID), int(h.opt.User.GID)); err != nil {
			return err
		}
	}
	return nil
}

// ReadFile implements backends.Sandbox.
func (h *Host) ReadFile(ctx context.Context, p string, limit int64) ([]byte, error) {
	f, size, limit, err := h.openRegular(ctx, p, limit)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readMost(f, p, size, limit)
}

// openRegular opens a file that is not longer than limit (0: the default, which is returned).
func (h *Host) openRegular(ctx context.Context, p string, limit int64) (*os.File, int64, int64, error) {
	if err := h.alive(ctx, "read "+p); err != nil {
		return nil, 0, 0, err
	}
	now, err := h.turn(ctx, "read "+p)
	if err != nil {
		return nil, 0, 0, err
	}
	var f *os.File
	err = now.do(func() (err error) { f, err = h.openFile(p, os.O_RDONLY); return err })
	if err != nil {
		return nil, 0, 0, pathError("read", p, err)
	}
	if limit <= 0 {
		limit = defaultRead
	}
	st, err := f.Stat()
	switch {
	case err != nil:
	case st.IsDir():
		err = unix.EISDIR
	case !st.Mode().IsRegular():
		err = fmt.Errorf("not a regular file: %w", fs.ErrInvalid)
	case st.Size() > limit:
		err = backends.ErrTooLarge
	default:
		return f, st.Size(), limit, nil
	}
	f.Close()
	return nil, 0, 0, pathError("read", p, err)
}

// readMost reads a file that may grow while it is read.
func readMost(f *os.File, p string, size, limit int64) ([]byte, error) {
	data := make([]byte, 0, min(size, limit)+1)
	for {
		if len(data) == cap(data) {
			data = append(data, 0)[:len(data)]
		}
		n, err := f.Read(data[len(data):cap(data)])
		data = data[:len(data)+n]
		if int64(len(data)) > limit {
			return nil, &fs.PathError{Op: "read", Path: p, Err: backends.ErrTooLarge}
		}
		if err == io.EOF {
			return data, nil
		}
		if err != nil {
			return nil, pathError("read", p, err)
		}
	}
}

// WriteFile implements backends.Sandbox: a new file beside the old one takes its name.
func (h *Host) WriteFile(ctx context.Context, p string, data []byte, perm fs.FileMode) error {
	return h.writeFrom(ctx, p, bytes.NewReader(data), perm)
}

// writeFrom is WriteFile from a stream; an error of the stream leaves the file as it was.
func (h *Host) writeFrom(ctx context.Context, p string, data io.Reader, perm fs.FileMode) error {
	if err := h.alive(ctx, "write "+p); err != nil {
		return err
	}
	now, err := h.turn(ctx, "write "+p)
	if err != nil {
		return err
	}
	var dir *os.Root
	var base string
	if err := now.do(func() (err error) { dir, base, err = h.target(p); return err }); err != nil {
		return pathError("write", p, err)
	}
	defer dir.Close()
	mode := fs.FileMode(0o644)
	var owner *User
	if st, err := dir.Lstat(base); err == nil {
		if st.IsDir() {
			return &fs.PathError{Op: "write", Path: p, Err: unix.EISDIR}
		}
		if !st.Mode().IsRegular() {
			return &fs.PathError{Op: "write", Path: p, Err: fmt.Errorf("not a regular file: %w", fs.ErrInvalid)}
		}
		mode = st.Mode()
		if u, ok := ownerOf(st); ok && os.Geteuid() == 0 {
			owner = &u
		}
	} else if u := h.opt.User; u != nil {
		owner = u
	}
	if perm != 0 {
		mode = perm
	}
	return pathError("write", p, replace(now, dir, base, data, mode, owner))
}

// replace writes a temporary file in dir and renames it.
func replace(now turn, dir *os.Root, base string, data io.Reader, mode fs.FileMode, owner *User) error {
	temp := ".hermes-" + NewID()
	var f *os.File
	err := now.do(func() (err error) {
		f, err = dir.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		return err
	})
	if err != nil {
		return err
	}
	_, err = io.Copy(f, data)
	if err == nil && owner != nil {
		err = f.Chown(int(owner.UID), int(owner.GID))
	}
	if err == nil {
		err = f.Chmod(mode)
	}
	err = errors.Join(err, f.Close())
	if err == nil {
		err = now.do(func() error { return dir.Rename(temp, base) })
	}
	if err != nil {
		dir.Remove(temp)
	}
	return err
}

// target finds the folder and the name that a write to p means, through symbolic
// links, and makes missing folders.
func (h *Host) target(p string) (*os.Root, string, error) {
	p = at(h.dir, p)
	for range 40 {
		parent, base := path.Split(p)
		if base == "" || base == "." || base == ".." {
			return nil, "", unix.EISDIR
		}
		dir, err := h.folder(parent, true)
		if err != nil {
			return nil, "", err
		}
		link, err := dir.Readlink(base)
		if err != nil { // not a link, or nothing there
			return dir, base, nil
		}
		dir.Close()
		p = at(strings.TrimSuffix(parent, "/"), link)
	}
	return nil, "", unix.ELOOP
}

// pathError gives an error the path that the caller used.
func pathError(op, p string, err error) error {
	if err == nil {
		return nil
	}
	var pe *fs.PathError
	if errors.As(err, &pe) {
		err = pe.Err
	}
	var le *os.LinkError
	if errors.As(err, &le) {
		err = le.Err
	}
	return &fs.PathError{Op: op, Path: p, Err: err}
}
