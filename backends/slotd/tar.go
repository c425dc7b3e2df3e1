package slotd

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"time"
)

// CopyIn implements backends.Copier. An entry that would leave p, by its name or
// through a link, ends the copy with an error; devices and fifos are refused.
func (h *Host) CopyIn(ctx context.Context, p string, stream io.Reader) error {
	if err := h.alive(ctx, "copy into "+p); err != nil {
		return err
	}
	now, err := h.turn(ctx, "copy into "+p)
	if err != nil {
		return err
	}
	var root *os.Root
	if err := now.do(func() (err error) { root, err = h.folder(p, true); return err }); err != nil {
		return pathError("copy into", p, err)
	}
	defer root.Close()
	type dated struct {
		name string
		mode fs.FileMode
		time time.Time
	}
	var folders []dated // their times and modes come last
	for r := tar.NewReader(stream); ; {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("copy into %s: %w", p, err)
		}
		hdr, err := r.Next()
		if err == io.EOF {
			break
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
		return "", errEscapes
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
		if name, err = place(root, hdr); err != nil {
			return err
		}
		if err = clearPlace(root, name); err != nil {
			return err
		}
		f, err = root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
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

// clearPlace removes what stands where a file or link shall go, but no directory.
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
	if err := h.alive(ctx, "copy from "+p); err != nil {
		return err
	}
	now, err := h.turn(ctx, "copy from "+p)
	if err != nil {
		return err
	}
	w := tar.NewWriter(to)
	root, err := h.folder(p, false)
	name := "."
	if err != nil { // a file
		st, _, serr := h.lstat(p)
		if serr != nil || st.IsDir() {
			return pathError("copy from", p, errors.Join(serr, err))
		}
		parent, base := path.Split(at(h.dir, p))
		if root, err = h.folder(parent, false); err != nil {
			return pathError("copy from", p, err)
		}
		name = base
	}
	defer root.Close()
	err = fs.WalkDir(root.FS(), name, func(name string, d fs.DirEntry, err error) error {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil || name == "." {
			return err
		}
		return pack(now, w, root, name)
	})
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		return fmt.Errorf("copy from %s: %w", p, err)
	}
	return nil
}

// pack writes one entry.
func pack(now turn, w *tar.Writer, root *os.Root, name string) error {
	if err := now.still(); err != nil {
		return err
	}
	st, err := root.Lstat(name)
	if err != nil {
		return err
	}
	link := ""
	switch {
	case st.Mode()&fs.ModeSymlink != 0:
		if link, err = root.Readlink(name); err != nil {
			return err
		}
	case !st.IsDir() && !st.Mode().IsRegular():
		return nil
	}
	hdr, err := tar.FileInfoHeader(st, link)
	if err != nil {
		return err
	}
	hdr.Name, hdr.Format = name, tar.FormatPAX
	hdr.Uname, hdr.Gname, hdr.AccessTime, hdr.ChangeTime = "", "", time.Time{}, time.Time{}
	if st.IsDir() {
		hdr.Name += "/"
	}
	if !st.Mode().IsRegular() {
		return w.WriteHeader(hdr)
	}
	var f *os.File
	if err := now.do(func() (err error) { f, err = root.Open(name); return err }); err != nil {
		return err
	}
	defer f.Close()
	if err := w.WriteHeader(hdr); err != nil {
		return err
	}
	_, err = io.CopyN(w, f, st.Size())
	return err
}
