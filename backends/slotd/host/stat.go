//go:build linux

package host

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"syscall"

	"hermes/backends"
	"hermes/backends/slotd/wire"
	"hermes/backends/trees"
)

// defaultList is the number of entries that List gives when asked for none.
const defaultList = 10_000

func ownerOf(st fs.FileInfo) (wire.User, bool) {
	sys, ok := st.Sys().(*syscall.Stat_t)
	if !ok {
		return wire.User{}, false
	}
	return wire.User{UID: sys.Uid, GID: sys.Gid}, true
}

// Stat implements backends.Stater. It does not follow a link at the end of the path.
func (h *Host) Stat(ctx context.Context, p string) (backends.FileInfo, error) {
	if err := h.Alive(ctx, "stat "+p); err != nil {
		return backends.FileInfo{}, err
	}
	return within(ctx, "stat", p, wire.CallTime, func(context.Context) (backends.FileInfo, error) {
		st, link, err := h.lstat(p)
		if err != nil {
			return backends.FileInfo{}, PathError("stat", p, err)
		}
		return backends.FileInfo{Path: p, Size: st.Size(), Mode: st.Mode(), MTime: st.ModTime(), Link: link}, nil
	}, nil)
}

func (h *Host) lstat(p string) (st fs.FileInfo, link string, err error) {
	if h.root == nil {
		full := wire.Join(h.dir, p)
		st, err = os.Lstat(full)
		if err == nil && st.Mode()&fs.ModeSymlink != 0 {
			link, err = os.Readlink(full)
		}
		return st, link, err
	}
	rel, err := h.inside(p)
	if err != nil {
		return nil, "", err
	}
	st, err = h.root.Lstat(rel)
	if err == nil && st.Mode()&fs.ModeSymlink != 0 {
		link, err = h.root.Readlink(rel)
	}
	return st, link, err
}

// List implements backends.Stater. A folder of more than maxListed names is refused: which of
// them are the first cannot be said without reading all.
func (h *Host) List(ctx context.Context, p string, max int) ([]backends.FileInfo, error) {
	return within(ctx, "list", p, wire.CallTime, func(ctx context.Context) ([]backends.FileInfo, error) { return h.list(ctx, p, max) }, nil)
}

func (h *Host) list(ctx context.Context, p string, max int) ([]backends.FileInfo, error) {
	if err := h.Alive(ctx, "list "+p); err != nil {
		return nil, err
	}
	if max <= 0 {
		max = defaultList
	}
	now, err := h.turn(ctx, "list "+p)
	if err != nil {
		return nil, err
	}
	f, err := h.openFolder(p)
	if err != nil {
		return nil, PathError("list", p, err)
	}
	defer f.Close()
	names, more, err := trees.Names(f, maxListed)
	if more && err == nil {
		err = boundError(maxListed, "names")
	}
	if err != nil {
		return nil, PathError("list", p, err)
	}
	all := make([]backends.FileInfo, 0, min(len(names), max))
	for _, name := range names {
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("list %s: %w", p, err)
		}
		if len(all) == max {
			break
		}
		if st, link, err := trees.StatIn(f, name); err == nil {
			all = append(all, backends.FileInfo{Path: path.Join(filepath.ToSlash(p), name), Size: st.Size, Mode: st.Mode(), MTime: st.MTime(), Link: link})
		}
	}
	return all, now.still()
}
