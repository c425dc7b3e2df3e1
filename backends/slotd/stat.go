package slotd

import (
	"context"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"hermes/backends"
)

// defaultList is the number of entries that List gives when asked for none.
const defaultList = 10_000

func ownerOf(st fs.FileInfo) (User, bool) {
	sys, ok := st.Sys().(*syscall.Stat_t)
	if !ok {
		return User{}, false
	}
	return User{sys.Uid, sys.Gid}, true
}

// Stat implements backends.Stater. It does not follow a link at the end of the path.
func (h *Host) Stat(ctx context.Context, p string) (backends.FileInfo, error) {
	if err := h.alive(ctx, "stat "+p); err != nil {
		return backends.FileInfo{}, err
	}
	st, link, err := h.lstat(p)
	if err != nil {
		return backends.FileInfo{}, pathError("stat", p, err)
	}
	return fileInfo(p, st, link), nil
}

func (h *Host) lstat(p string) (st fs.FileInfo, link string, err error) {
	if h.root == nil {
		full := at(h.dir, p)
		if st, err = os.Lstat(full); err == nil && st.Mode()&fs.ModeSymlink != 0 {
			link, err = os.Readlink(full)
		}
		return st, link, err
	}
	rel, err := h.inside(p)
	if err != nil {
		return nil, "", err
	}
	if st, err = h.root.Lstat(rel); err == nil && st.Mode()&fs.ModeSymlink != 0 {
		link, err = h.root.Readlink(rel)
	}
	return st, link, err
}

func fileInfo(p string, st fs.FileInfo, link string) backends.FileInfo {
	return backends.FileInfo{Path: p, Size: st.Size(), Mode: st.Mode(), MTime: st.ModTime(), Link: link}
}

// List implements backends.Stater.
func (h *Host) List(ctx context.Context, p string, max int) ([]backends.FileInfo, error) {
	if err := h.alive(ctx, "list "+p); err != nil {
		return nil, err
	}
	if max <= 0 {
		max = defaultList
	}
	now, err := h.turn(ctx, "list "+p)
	if err != nil {
		return nil, err
	}
	f, err := h.openFile(p, os.O_RDONLY|syscall.O_DIRECTORY)
	if err != nil {
		return nil, pathError("list", p, err)
	}
	defer f.Close()
	names, err := f.Readdirnames(-1)
	if err != nil {
		return nil, pathError("list", p, err)
	}
	slices.Sort(names)
	all := make([]backends.FileInfo, 0, min(len(names), max))
	for _, name := range names {
		if len(all) == max {
			break
		}
		full := path.Join(filepath.ToSlash(p), name)
		if st, link, err := h.lstat(at(strings.TrimSuffix(at(h.dir, p), "/"), name)); err == nil {
			all = append(all, fileInfo(full, st, link))
		}
	}
	return all, now.still()
}
