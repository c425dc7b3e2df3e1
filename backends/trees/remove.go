//go:build linux

package trees

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// batch is how many names of a folder are removed before it is read again.
const batch = 4_096

// Remove removes what lies at a path, of any depth, although folders may have lost their
// permissions and files may be immutable. Nothing at the path is no error. It ends with ctx.
func Remove(ctx context.Context, path string) error {
	parent, base := filepath.Split(filepath.Clean(path))
	if base == "" || base == "." || base == ".." {
		return &fs.PathError{Op: "remove", Path: path, Err: unix.EINVAL}
	}
	if parent == "" {
		parent = "."
	}
	dir, _, err := open(unix.AT_FDCWD, parent, aFolder, unix.O_RDONLY)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err == nil {
		defer unix.Close(dir)
		r := &removal{ctx: ctx}
		err = r.run(dir, base)
	}
	if err != nil {
		return &fs.PathError{Op: "remove", Path: path, Err: err}
	}
	return nil
}

// removeTime bounds RemoveAll.
const removeTime = 2 * time.Minute

// RemoveAll is Remove with its own bound of time: a box is removed after its caller has left, too.
func RemoveAll(path string) error {
	ctx, cancel := context.WithTimeout(context.Background(), removeTime)
	defer cancel()
	return Remove(ctx, path)
}

// removal goes down to the deepest folder, and up again as folders become empty.
type removal struct {
	ctx    context.Context
	levels []doomed
	buf    []byte // of names
	first  error  // why something stays
}

// doomed is a folder on the way.
type doomed struct {
	level
	name    string
	stays   map[string]bool // what could not be removed
	partial bool            // there were more names than a batch
}

// run removes base, an entry of dir.
func (r *removal) run(dir int, base string) error {
	if err := r.one(dir, base); err != nil {
		return err
	}
	for len(r.levels) > 0 {
		if err := r.ctx.Err(); err != nil {
			r.close()
			return err
		}
		l := &r.levels[len(r.levels)-1]
		switch {
		case len(l.rest) > 0:
			n := l.rest[0].text
			l.rest = l.rest[1:]
			if err := r.one(l.fd, n); err != nil {
				r.fail(n, err)
				r.levels[len(r.levels)-1].stays[n] = true
			}
		case l.partial:
			if err := l.reread(&r.buf); err != nil {
				r.fail(l.name, err)
			}
		default:
			r.up(dir)
		}
	}
	return r.first
}

func (r *removal) close() {
	for _, l := range r.levels {
		if l.fd >= 0 {
			unix.Close(l.fd)
		}
	}
}

func (r *removal) fail(name string, err error) {
	if r.first == nil {
		r.first = fmt.Errorf("%q: %w", name, err)
	}
}

// one removes an entry that is no folder, and enters a folder that is not empty.
func (r *removal) one(dir int, name string) error {
	err := unix.Unlinkat(dir, name, 0)
	if err != nil && err != unix.EISDIR && err != unix.ENOENT {
		loosen(dir, ".")
		loosen(dir, name)
		err = unix.Unlinkat(dir, name, 0)
	}
	if err == unix.EISDIR {
		if err = unix.Unlinkat(dir, name, unix.AT_REMOVEDIR); err != nil && err != unix.ENOENT {
			err = r.enter(dir, name)
		}
	}
	if err == unix.ENOENT { // somebody else was faster
		return nil
	}
	return err
}

func (r *removal) enter(dir int, name string) error {
	fd, st, err := open(dir, name, aFolder, unix.O_RDONLY|unix.O_NOFOLLOW)
	if err != nil || st.Stat_t.Mode&0o700 != 0o700 || immutable(fd) {
		if err == nil {
			unix.Close(fd)
		}
		loosen(dir, name)
		fd, st, err = open(dir, name, aFolder, unix.O_RDONLY|unix.O_NOFOLLOW)
		if err != nil {
			return err
		}
	}
	l := doomed{level: level{fd: fd, dev: uint64(st.Dev), ino: st.Ino}, name: name, stays: map[string]bool{}}
	if err := l.reread(&r.buf); err != nil {
		unix.Close(fd)
		return err
	}
	if i := len(r.levels) - window; i >= 0 && r.levels[i].fd >= 0 {
		unix.Close(r.levels[i].fd)
		r.levels[i].fd = -1
	}
	r.levels = append(r.levels, l)
	return nil
}

// reread reads the next names of a folder, but for those that stay.
func (l *doomed) reread(buf *[]byte) error {
	l.partial = false
	if _, err := unix.Seek(l.fd, 0, 0); err != nil {
		return err
	}
	all, more, err := names(l.fd, batch+len(l.stays), buf)
	if err != nil {
		return err
	}
	for _, n := range all {
		if !l.stays[n.text] {
			l.rest = append(l.rest, n)
		}
	}
	l.partial = more && len(l.rest) > 0
	return nil
}

// up removes the deepest folder, which is empty, from the one above it, or from top.
func (r *removal) up(top int) {
	last := r.levels[len(r.levels)-1]
	r.levels = r.levels[:len(r.levels)-1]
	above := top
	if n := len(r.levels); n > 0 {
		l := &r.levels[n-1]
		if l.fd < 0 {
			fd, st, err := open(last.fd, "..", aFolder, unix.O_RDONLY|unix.O_NOFOLLOW)
			if err == nil && (uint64(st.Dev) != l.dev || st.Ino != l.ino) {
				unix.Close(fd)
				err = errMoved
			}
			if err != nil { // what is above it cannot be reached from here
				r.fail(last.name, err)
				unix.Close(last.fd)
				r.close()
				r.levels = nil
				return
			}
			l.fd = fd
		}
		above = l.fd
	}
	unix.Close(last.fd)
	err := unix.Unlinkat(above, last.name, unix.AT_REMOVEDIR)
	if err != nil && err != unix.ENOENT {
		loosen(above, ".")
		err = unix.Unlinkat(above, last.name, unix.AT_REMOVEDIR)
	}
	if err != nil && err != unix.ENOENT {
		r.fail(last.name, err)
		if n := len(r.levels); n > 0 {
			r.levels[n-1].stays[last.name] = true
		}
	}
}

// keeping are the flags that keep a file from being removed.
const keeping = unix.STATX_ATTR_IMMUTABLE | unix.STATX_ATTR_APPEND

func immutable(fd int) bool {
	flags, err := unix.IoctlGetUint32(fd, unix.FS_IOC_GETFLAGS)
	return err == nil && flags&keeping != 0
}

// loosen clears the flags and permissions that keep an entry, if it is a file or a folder.
func loosen(dir int, name string) {
	var st Info
	if unix.Fstatat(dir, name, &st.Stat_t, unix.AT_SYMLINK_NOFOLLOW) != nil {
		return
	}
	if !st.Mode().IsDir() && !st.Mode().IsRegular() {
		return
	}
	path, err := unix.Openat(dir, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return
	}
	defer unix.Close(path)
	fd, err := unix.Openat(dir, name, unix.O_RDONLY|unix.O_NOFOLLOW|quick, 0)
	if err == nil {
		if flags, err := unix.IoctlGetUint32(fd, unix.FS_IOC_GETFLAGS); err == nil && flags&keeping != 0 {
			unix.IoctlSetPointerInt(fd, unix.FS_IOC_SETFLAGS, int(flags&^uint32(keeping)))
		}
		unix.Close(fd)
	}
	if st.Mode().IsDir() && st.Stat_t.Mode&0o700 != 0o700 {
		unix.Chmod(fmt.Sprintf("/proc/self/fd/%d", path), st.Stat_t.Mode&0o7777|0o700)
	}
}

// Loosen clears the flags and permissions that keep a file or folder, which it does not follow
// a link to.
func Loosen(path string) { loosen(unix.AT_FDCWD, path) }
