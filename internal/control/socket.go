package control

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
)

// maxPath is what the kernels that we know take as the path of a socket: 108 bytes on
// Linux and 104 elsewhere, with the zero at their end.
const maxPath = 103

// tempPrefix begins the names of the folders of sockets that do not fit into their run
// directory.
const tempPrefix = "hermes-control-"

// bind makes the socket of a run directory, open to its owner alone from the first moment
// on: it is made in a new folder (mode 0700) and renamed. Where the path is too
// long, or the file system has no sockets, the socket stays in a folder of the system's
// temporary directory and the run directory holds a link to it. remove undoes it.
//
// The caller owns the run directory, so that a socket which is there is a dead one's.
func bind(dir string) (l *net.UnixListener, remove func() error, err error) {
	name := filepath.Join(dir, socketName)
	if err := clear(name); err != nil {
		return nil, nil, err
	}
	if l, err := bindBeside(dir, name); err == nil {
		return l, func() error { return gone(os.Remove(name)) }, nil
	}
	tmp, err := os.MkdirTemp("", tempPrefix)
	if err != nil {
		return nil, nil, fmt.Errorf("socket of the run: %w", err)
	}
	far := filepath.Join(tmp, "s")
	remove = func() error { return errors.Join(gone(os.Remove(name)), os.RemoveAll(tmp)) }
	l, err = listen(far)
	if err == nil {
		if err = os.Symlink(far, name); err != nil {
			err = errors.Join(err, l.Close())
		}
	}
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("socket of the run: %w", err), remove())
	}
	return l, remove, nil
}

func bindBeside(dir, name string) (*net.UnixListener, error) {
	own, err := os.MkdirTemp(dir, ".control-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(own)
	l, err := listen(filepath.Join(own, "s"))
	if err != nil {
		return nil, err
	}
	if err := os.Rename(filepath.Join(own, "s"), name); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

func listen(path string) (*net.UnixListener, error) {
	if len(path) > maxPath {
		return nil, fmt.Errorf("%s: longer than the %d bytes of a socket's path", path, maxPath)
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, err
	}
	l.SetUnlinkOnClose(false) // it may have another name by then
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// clear removes what a process that died has left.
func clear(name string) error {
	if far, err := os.Readlink(name); err == nil && ours(far) {
		os.RemoveAll(filepath.Dir(far)) // best effort: what is left does no harm
	}
	if err := gone(os.Remove(name)); err != nil {
		return fmt.Errorf("socket of an earlier start: %w", err)
	}
	return nil
}

// ours reports whether a path is one that bind makes beside the run directory.
func ours(path string) bool {
	return filepath.Dir(filepath.Dir(path)) == filepath.Clean(os.TempDir()) && strings.HasPrefix(filepath.Base(filepath.Dir(path)), tempPrefix)
}

func gone(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// target is a path short enough by which the socket of a run directory is reached. done
// removes what was made for it.
func target(dir string) (path string, done func(), err error) {
	done = func() {}
	name := filepath.Join(dir, socketName)
	if far, err := os.Readlink(name); err == nil {
		return far, done, nil
	}
	if len(name) <= maxPath {
		return name, done, nil
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "", done, err
	}
	tmp, err := os.MkdirTemp("", tempPrefix) // a folder of a short name that leads there
	if err != nil {
		return "", done, err
	}
	done = func() { os.RemoveAll(tmp) }
	return filepath.Join(tmp, "d", socketName), done, os.Symlink(abs, filepath.Join(tmp, "d"))
}
