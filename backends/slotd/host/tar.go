//go:build linux

package host

import (
	"archive/tar"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"time"

	"golang.org/x/sys/unix"

	"hermes/backends/slotd/wire"
	"hermes/backends/trees"
)

// CopyIn implements backends.Copier. An entry that would leave p, by its name or
// through a link, ends the copy with an error; devices and fifos are refused.
func (h *Host) CopyIn(ctx context.Context, p string, stream io.Reader) error {
	ctx, pace, stop := paced(ctx)
	defer stop()
	_, err := within(ctx, "copy into", p, moveTime, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, h.copyIn(ctx, p, pace.from(stream, maxTree))
	}, nil)
	return err
}

func (h *Host) copyIn(ctx context.Context, p string, stream io.Reader) error {
	if err := h.Alive(ctx, "copy into "+p); err != nil {
		return err
	}
	now, err := h.turn(ctx, "copy into "+p)
	if err != nil {
		return err
	}
	var root *os.Root
	if err := now.do(func() (err error) { root, err = h.folder(p, true); return err }); err != nil {
		return PathError("copy into", p, err)
	}
	defer root.Close()
	type dated struct {
		name string
		mode fs.FileMode
		time time.Time
	}
	var folders []dated // their times and modes come last
	entries := 0
	for r := tar.NewReader(stream); ; {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("copy into %s: %w", p, err)
		}
		hdr, err := r.Next()
		if err == io.EOF {
			break
		}
		entries++
		if err == nil && entries > maxCopied {
			err = boundError(maxCopied, "entries")
		}
		if err == nil {
			err = h.extract(now, root, hdr, r)
		}
		if err != nil {
			name := ""
			if hdr != nil {
				name = hdr.Name
			}
			return fmt.Errorf("copy into %s: entry %q: %w", p, name, err)
		}
		if hdr.Typeflag == tar.TypeDir {
			folders = append(folders, dated{path.Clean(hdr.Name), hdr.FileInfo().Mode(), hdr.ModTime})
		}
	}
	for i := len(folders) - 1; i >= 0; i-- {
		f := folders[i]
		err := now.do(func() error { return errors.Join(root.Chmod(f.name, f.mode), root.Chtimes(f.name, f.time, f.time)) })
		if err != nil && f.name != "." {
			return fmt.Errorf("copy into %s: entry %q: %w", p, f.name, err)
		}
	}
	return nil
}

// extract makes one entry. os.Root refuses whatever leads outside.
func (h *Host) extract(now turn, root *os.Root, hdr *tar.Header, r io.Reader) error {
	if hdr.Typeflag == tar.TypeReg {
		return h.extractFile(now, root, hdr, r)
	}
	return now.do(func() error { return h.extractEntry(root, hdr) })
}

// place makes the folders above an entry and returns its clean name.
func place(root *os.Root, hdr *tar.Header) (string, error) {
	name := path.Clean(hdr.Name)
	if path.IsAbs(hdr.Name) || name == ".." {
		return "", wire.ErrEscapes
	}
	if len(name) > maxPath {
		return "", boundError(maxPath, "bytes of a path")
	}
	if parent := path.Dir(name); parent != "." {
		return name, root.MkdirAll(parent, 0o755)
	}
	return name, nil
}

// extractEntry makes what has no content.
func (h *Host) extractEntry(root *os.Root, hdr *tar.Header) error {
	name, err := place(root, hdr)
	if err != nil {
		return err
	}
	switch hdr.Typeflag {
	case tar.TypeDir:
		if name == "." {
			return nil
		}
		return errors.Join(root.MkdirAll(name, 0o700|hdr.FileInfo().Mode().Perm()), h.own(root, name))
	case tar.TypeSymlink:
		if err := clearPlace(root, name); err != nil {
			return err
		}
		return errors.Join(root.Symlink(hdr.Linkname, name), h.own(root, name))
	case tar.TypeLink:
		if err := clearPlace(root, name); err != nil {
			return err
		}
		return root.Link(path.Clean(hdr.Linkname), name)
	case tar.TypeXGlobalHeader:
		return nil
	}
	return fmt.Errorf("entry of type %q: %w", hdr.Typeflag, errors.ErrUnsupported)
}

func (h *Host) extractFile(now turn, root *os.Root, hdr *tar.Header, r io.Reader) error {
	var name string
	var f *os.File
	err := now.do(func() (err error) {
		name, err = place(root, hdr)
		if err != nil {
			return err
		}
		if err = clearPlace(root, name); err != nil {
			return err
		}
		f, err = create(root, name)
		return err
	})
	if err != nil {
		return err
	}
	_, err = io.Copy(f, r)
	if u := h.opt.User; err == nil && u != nil {
		err = f.Chown(int(u.UID), int(u.GID))
	}
	if err == nil {
		err = f.Chmod(hdr.FileInfo().Mode())
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return now.do(func() error { return root.Chtimes(name, hdr.ModTime, hdr.ModTime) })
}

// own gives an entry to the user of commands.
func (h *Host) own(root *os.Root, name string) error {
	if u := h.opt.User; u != nil {
		return root.Lchown(name, int(u.UID), int(u.GID))
	}
	return nil
}

// clearPlace removes what is where a file or link shall go, but no directory.
func clearPlace(root *os.Root, name string) error {
	st, err := root.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if st.IsDir() {
		return fmt.Errorf("a directory is in its place: %w", fs.ErrExist)
	}
	return root.Remove(name)
}

// CopyOut implements backends.Copier. A directory gives its entries, a file itself.
// Sockets, devices and fifos are left out.
func (h *Host) CopyOut(ctx context.Context, p string, to io.Writer) error {
	ctx, pace, stop := paced(ctx)
	defer stop()
	out := pace.to(to)
	defer out.close()
	_, err := within(ctx, "copy from", p, moveTime, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, h.copyOut(ctx, p, out)
	}, nil)
	return err
}

func (h *Host) copyOut(ctx context.Context, p string, to io.Writer) error {
	if err := h.Alive(ctx, "copy from "+p); err != nil {
		return err
	}
	now, err := h.turn(ctx, "copy from "+p)
	if err != nil {
		return err
	}
	c := &packer{now: now, w: tar.NewWriter(to)}
	folder, err := h.openFolder(p)
	if errors.Is(err, unix.ENOTDIR) { // a file
		err = c.single(h, p)
	} else if err == nil {
		defer folder.Close()
		if err = c.tree(ctx, folder); err != nil {
			return fmt.Errorf("copy from %s: %w", p, err)
		}
	}
	if err == nil {
		err = c.w.Close()
	}
	return PathError("copy from", p, err)
}

// packer is one copy out of the box.
type packer struct {
	now   turn
	w     *tar.Writer
	bytes int64
}

// tree packs everything below a folder, or comes to an error: a part of a tree is no copy of it.
func (c *packer) tree(ctx context.Context, folder *os.File) error {
	var left error
	err := trees.Walk(ctx, folder, trees.Bounds{Depth: maxDepth, Path: maxPath, Entries: maxCopied}, trees.Visitor{
		Visit: func(e *trees.Entry) error {
			if left != nil {
				return left
			}
			if err := c.pack(e); !errors.Is(err, fs.ErrNotExist) { // one that went meanwhile
				return err
			}
			return nil
		},
		Left: func(name string, why error) {
			if bound, ok := errors.AsType[*trees.BoundError](why); ok {
				why = boundError(int64(bound.Most), bound.What)
			}
			if left == nil && !errors.Is(why, fs.ErrNotExist) {
				left = fmt.Errorf("%.200s: %w", name, why)
			}
		},
	})
	return cmp.Or(err, left)
}

// single packs one file.
func (c *packer) single(h *Host, p string) error {
	parent, base := path.Split(wire.Join(h.dir, p))
	folder, err := h.openFolder(cmp.Or(parent, "."))
	if err != nil {
		return err
	}
	defer folder.Close()
	return trees.One(folder, base, func(e *trees.Entry) error {
		if t := e.Type; !t.IsRegular() && t&fs.ModeSymlink == 0 {
			return &trees.SpecialError{Mode: t}
		}
		return c.pack(e)
	})
}

// pack writes one entry.
func (c *packer) pack(e *trees.Entry) error {
	if err := c.now.still(); err != nil {
		return err
	}
	hdr := &tar.Header{Name: e.Path, Format: tar.FormatPAX}
	switch {
	case e.Type.IsRegular():
		return c.file(e, hdr)
	case e.Type.IsDir():
		hdr.Typeflag, hdr.Name = tar.TypeDir, hdr.Name+"/"
	case e.Type&fs.ModeSymlink != 0:
		hdr.Typeflag = tar.TypeSymlink
		var err error
		hdr.Linkname, err = e.Link()
		if err != nil {
			return err
		}
	default:
		return nil
	}
	st, err := e.Stat()
	if err != nil {
		return err
	}
	describe(hdr, st)
	return c.w.WriteHeader(hdr)
}

func describe(hdr *tar.Header, st *trees.Info) {
	hdr.Mode, hdr.ModTime, hdr.Uid, hdr.Gid = int64(st.Stat_t.Mode&0o7777), st.MTime(), int(st.Uid), int(st.Gid)
}

// file packs as many bytes of a file as it had when it was opened. One that is shorter by the
// time it is read is filled up with zeros: the header is on its way.
func (c *packer) file(e *trees.Entry, hdr *tar.Header) error {
	var f *os.File
	var st *trees.Info
	err := c.now.do(func() (err error) { f, st, err = e.Open(); return err })
	if errors.Is(err, fs.ErrInvalid) { // it became a fifo
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	c.bytes += st.Size
	if c.bytes > maxTree {
		return boundError(maxTree, "bytes")
	}
	describe(hdr, st)
	hdr.Typeflag, hdr.Size = tar.TypeReg, st.Size
	if err := c.w.WriteHeader(hdr); err != nil {
		return err
	}
	n, err := io.CopyN(c.w, f, st.Size)
	if err == io.EOF {
		_, err = io.CopyN(c.w, zeros{}, st.Size-n)
	}
	return err
}

// zeros is an endless file of them.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}
