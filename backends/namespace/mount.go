package namespace

import (
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// tree is a detached copy of a mount, waiting to be attached.
type tree struct {
	fd   int
	from string
	dir  bool
}

// cloneTree detaches a copy of what is mounted at a path, with the attributes set on all
// of it.
func cloneTree(path string, attrs uint64) (tree, error) {
	fd, err := unix.OpenTree(unix.AT_FDCWD, path, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE)
	if err != nil {
		return tree{}, fmt.Errorf("clone the mount of %s: %w", path, err)
	}
	t := tree{fd: fd, from: path}
	if attrs != 0 {
		if err := unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, &unix.MountAttr{Attr_set: attrs}); err != nil {
			unix.Close(fd)
			return tree{}, fmt.Errorf("set the mount attributes of %s: %w", path, err)
		}
	}
	var s unix.Stat_t
	if err := unix.Fstat(fd, &s); err != nil {
		unix.Close(fd)
		return tree{}, fmt.Errorf("look at %s: %w", path, err)
	}
	t.dir = s.Mode&unix.S_IFMT == unix.S_IFDIR
	return t, nil
}

// attach puts the tree at a path, which it makes.
func (t tree) attach(at string) error {
	defer unix.Close(t.fd)
	if err := t.place(at); err != nil {
		return err
	}
	if err := unix.MoveMount(t.fd, "", unix.AT_FDCWD, at, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return fmt.Errorf("mount %s in the box: %w", t.from, err)
	}
	return nil
}

// place makes the file or directory over which the tree is mounted.
func (t tree) place(at string) error {
	if _, err := os.Lstat(at); err == nil {
		return nil
	}
	if t.dir {
		return os.MkdirAll(at, 0o755)
	}
	if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
		return err
	}
	return os.WriteFile(at, nil, 0o644)
}

// again mounts a path onto itself with attributes added.
func again(path string, attrs uint64) error {
	t, err := cloneTree(path, attrs)
	if err != nil {
		return err
	}
	return t.attach(path)
}

const (
	noSetuid = unix.MOUNT_ATTR_NOSUID
	shown    = unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV // files of the host
	device   = unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NOEXEC
)

// mountFS mounts a new file system of a type.
func mountFS(kind, at string, flags uintptr, options string) error {
	if err := unix.Mount(kind, at, kind, flags, options); err != nil {
		return fmt.Errorf("mount %s (%s) in the box: %w", kind, options, err)
	}
	return nil
}
