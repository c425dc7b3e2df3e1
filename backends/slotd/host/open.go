//go:build linux

package host

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"

	"golang.org/x/sys/unix"

	"hermes/backends/slotd/wire"
	"hermes/backends/trees"
)

// Every file that this package opens is opened here, or by package trees: commands of the box put
// FIFOs, sockets and devices where files are looked for, and no open may wait for them. A house
// rule holds the rest of the package to it.

// inside is a path as seen from Home. Confine only.
func (h *Host) inside(p string) (string, error) {
	rel, err := filepath.Rel(h.opt.Home, filepath.Clean(wire.Join(h.dir, p)))
	switch {
	case err != nil || !filepath.IsLocal(rel):
		return "", &fs.PathError{Op: "open", Path: p, Err: wire.ErrEscapes}
	case len(rel) >= maxPath: // the kernel would not object to a path that is walked in steps
		return "", &fs.PathError{Op: "open", Path: p, Err: fmt.Errorf("%w: %w", unix.ENAMETOOLONG, &trees.BoundError{Most: maxPath, What: "bytes of a path"})}
	}
	return rel, nil
}

// openFile opens a plain file for reading.
func (h *Host) openFile(p string) (*os.File, *trees.Info, error) {
	if h.root == nil {
		return trees.File(wire.Join(h.dir, p))
	}
	rel, err := h.inside(p)
	if err != nil {
		return nil, nil, err
	}
	return trees.FileIn(h.root, rel)
}

// openFolder opens a folder whose names are to be read.
func (h *Host) openFolder(p string) (*os.File, error) {
	if h.root == nil {
		f, _, err := trees.Folder(wire.Join(h.dir, p))
		return f, err
	}
	rel, err := h.inside(p)
	if err != nil {
		return nil, err
	}
	f, _, err := trees.FolderIn(h.root, rel)
	return f, err
}

// folder opens a folder as a root for operations on its entries, and makes it before where
// create says so.
func (h *Host) folder(p string, create bool) (*os.Root, error) {
	if h.root == nil {
		full := wire.Join(h.dir, p)
		if create {
			if err := h.makeFolders(full, os.Stat, os.MkdirAll, os.Lchown); err != nil {
				return nil, err
			}
		}
		return trees.FolderRoot(full)
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
	f, _, err := trees.FolderIn(h.root, rel)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return trees.Root(f)
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

// create makes a new file in a folder: where there is something, be it a FIFO, it fails.
func create(dir *os.Root, name string) (*os.File, error) {
	return dir.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
}

// listKernel lists a folder of /proc or /dev.
func listKernel(path string) ([]fs.DirEntry, error) { return os.ReadDir(path) }

// namesOf lists the names of a folder, sorted.
func namesOf(path string, most int) (names []string, more bool, err error) {
	f, _, err := trees.Folder(path)
	if err != nil {
		return nil, false, err
	}
	defer f.Close()
	return trees.Names(f, most)
}
