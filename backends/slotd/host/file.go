//go:build linux

package host

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"hermes/backends"
	"hermes/backends/slotd/wire"
	"hermes/backends/trees"
)

// ReadFile implements backends.Sandbox.
func (h *Host) ReadFile(ctx context.Context, p string, limit int64) ([]byte, error) {
	return within(ctx, "read", p, moveTime, func(ctx context.Context) ([]byte, error) {
		f, size, limit, err := h.openRegular(ctx, p, limit)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		return readMost(f, p, size, limit)
	}, nil)
}

// openRegular opens a file that is not longer than limit (0: the default, which is returned).
func (h *Host) openRegular(ctx context.Context, p string, limit int64) (*os.File, int64, int64, error) {
	if err := h.Alive(ctx, "read "+p); err != nil {
		return nil, 0, 0, err
	}
	now, err := h.turn(ctx, "read "+p)
	if err != nil {
		return nil, 0, 0, err
	}
	var f *os.File
	var st *trees.Info
	err = now.do(func() (err error) { f, st, err = h.openFile(p); return err })
	if err != nil {
		return nil, 0, 0, PathError("read", p, err)
	}
	if limit <= 0 {
		limit = wire.DefaultRead
	}
	if st.Size > limit {
		f.Close()
		return nil, 0, 0, PathError("read", p, backends.ErrTooLarge)
	}
	f.SetReadDeadline(time.Now().Add(wire.CallTime)) // what the kernel calls a file may wait too: /proc/kmsg
	return f, st.Size, limit, nil
}

// Content opens a file that is not longer than limit (0: the default). What is read of it ends one
// byte beyond the limit, which shows that the file has grown.
func (h *Host) Content(ctx context.Context, p string, limit int64) (io.ReadCloser, error) {
	type content struct {
		io.Reader
		io.Closer
	}
	return within(ctx, "read", p, wire.CallTime, func(ctx context.Context) (io.ReadCloser, error) {
		f, size, limit, err := h.openRegular(ctx, p, limit)
		if err != nil {
			return nil, err
		}
		return content{sized(f, size, limit+1), f}, nil
	}, func(f io.ReadCloser) { f.Close() })
}

// sized bounds a file to the size that it had when it was opened, however it grows while it is
// read. Files of the kernel say that they are empty, and are not.
func sized(f io.Reader, size, limit int64) io.Reader {
	if size > 0 {
		limit = size
	}
	return io.LimitReader(f, limit)
}

// readMost reads a file of a size; one without a size is read to its limit.
func readMost(f *os.File, p string, size, limit int64) ([]byte, error) {
	data := make([]byte, 0, min(size, limit)+1)
	for r := sized(f, size, limit+1); ; {
		if len(data) == cap(data) {
			data = append(data, 0)[:len(data)]
		}
		n, err := r.Read(data[len(data):cap(data)])
		data = data[:len(data)+n]
		if int64(len(data)) > limit {
			return nil, &fs.PathError{Op: "read", Path: p, Err: backends.ErrTooLarge}
		}
		if err == io.EOF {
			return data, nil
		}
		if err != nil {
			return nil, PathError("read", p, err)
		}
	}
}

// WriteFile implements backends.Sandbox: a new file beside the old one takes its name.
func (h *Host) WriteFile(ctx context.Context, p string, data []byte, perm fs.FileMode) error {
	_, err := within(ctx, "write", p, moveTime, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, h.write(ctx, p, bytes.NewReader(data), perm)
	}, nil)
	return err
}

// WriteFrom is WriteFile from a stream; an error of the stream leaves the file as it was.
func (h *Host) WriteFrom(ctx context.Context, p string, data io.Reader, perm fs.FileMode) error {
	ctx, pace, stop := paced(ctx)
	defer stop()
	_, err := within(ctx, "write", p, moveTime, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, h.write(ctx, p, pace.from(data, maxWritten), perm)
	}, nil)
	return err
}

func (h *Host) write(ctx context.Context, p string, data io.Reader, perm fs.FileMode) error {
	if err := h.Alive(ctx, "write "+p); err != nil {
		return err
	}
	now, err := h.turn(ctx, "write "+p)
	if err != nil {
		return err
	}
	var dir *os.Root
	var base string
	if err := now.do(func() (err error) { dir, base, err = h.target(p); return err }); err != nil {
		return PathError("write", p, err)
	}
	defer dir.Close()
	mode := fs.FileMode(0o644)
	var owner *wire.User
	if st, err := dir.Lstat(base); err == nil {
		if st.IsDir() {
			return &fs.PathError{Op: "write", Path: p, Err: unix.EISDIR}
		}
		if !st.Mode().IsRegular() {
			return &fs.PathError{Op: "write", Path: p, Err: &trees.SpecialError{Mode: st.Mode()}}
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
	return PathError("write", p, replace(now, dir, base, data, mode, owner))
}

// replace writes a temporary file in dir and renames it.
func replace(now turn, dir *os.Root, base string, data io.Reader, mode fs.FileMode, owner *wire.User) error {
	temp := ".hermes-" + wire.NewID()
	var f *os.File
	err := now.do(func() (err error) {
		f, err = create(dir, temp)
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
	p = wire.Join(h.dir, p)
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
		p = wire.Join(strings.TrimSuffix(parent, "/"), link)
	}
	return nil, "", unix.ELOOP
}

// PathError gives an error the path that the caller used.
func PathError(op, p string, err error) error {
	if err == nil {
		return nil
	}
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		err = pe.Err
	}
	if le, ok := errors.AsType[*os.LinkError](err); ok {
		err = le.Err
	}
	return &fs.PathError{Op: op, Path: p, Err: err}
}
