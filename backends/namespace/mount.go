package namespace

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// tree is a detached copy of a mount, waiting to be attached.
type tree struct {
	fd   int
	from string
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
	return t, nil
}

// attach puts the tree at a path, which it makes where it is missing.
func (t tree) attach(at string) error {
	defer unix.Close(t.fd)
	err := unix.MoveMount(t.fd, "", unix.AT_FDCWD, at, unix.MOVE_MOUNT_F_EMPTY_PATH)
	if err == unix.ENOENT {
		if err := t.place(at); err != nil {
			return err
		}
		err = unix.MoveMount(t.fd, "", unix.AT_FDCWD, at, unix.MOVE_MOUNT_F_EMPTY_PATH)
	}
	if err != nil {
		return fmt.Errorf("mount %s in the box: %w", t.from, err)
	}
	return nil
}

// place makes the file or directory over which the tree is mounted.
func (t tree) place(at string) error {
	var s unix.Stat_t
	if err := unix.Fstat(t.fd, &s); err != nil {
		return fmt.Errorf("look at %s: %w", t.from, err)
	}
	if s.Mode&unix.S_IFMT == unix.S_IFDIR {
		return makeDirs(at)
	}
	if err := makeDirs(filepath.Dir(at)); err != nil {
		return err
	}
	return writeFile(at, nil)
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

// What follows does what its neighbours in package os do with the system calls alone: os asks of
// every file whether it can be waited for, seven calls instead of three, and a box has fifty of them.

// makeDirs makes a directory and what is missing above it.
func makeDirs(path string) error {
	err := unix.Mkdir(path, 0o755)
	if err == unix.ENOENT {
		if err := makeDirs(filepath.Dir(path)); err != nil {
			return err
		}
		err = unix.Mkdir(path, 0o755)
	}
	if err != nil && err != unix.EEXIST {
		return &fs.PathError{Op: "mkdir", Path: path, Err: err}
	}
	return nil
}

// writeFile writes a file of the box, or a setting of the kernel, whole.
func writeFile(path string, data []byte) error {
	fd, err := unix.Open(path, unix.O_WRONLY|unix.O_CREAT|unix.O_TRUNC|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o644)
	if err != nil {
		return &fs.PathError{Op: "open", Path: path, Err: err}
	}
	if len(data) > 0 {
		if n, werr := unix.Write(fd, data); werr != nil || n < len(data) {
			err = &fs.PathError{Op: "write", Path: path, Err: cmp.Or(werr, error(unix.EIO))}
		}
	}
	return errors.Join(err, unix.Close(fd))
}

// mountFS mounts a new file system of a type.
func mountFS(kind, at string, flags uintptr, options string) error {
	if err := unix.Mount(kind, at, kind, flags, options); err != nil {
		return fmt.Errorf("mount %s (%s) in the box: %w", kind, options, err)
	}
	return nil
}
