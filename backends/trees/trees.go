//go:build linux

package trees

import (
	"fmt"
	"io/fs"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// quick are the flags of every open: it never blocks, and no terminal becomes this process's.
const quick = unix.O_NONBLOCK | unix.O_NOCTTY | unix.O_CLOEXEC

// SpecialError says that a name leads to what is neither a file nor a folder.
type SpecialError struct{ Mode fs.FileMode }

func (e *SpecialError) Error() string {
	return fmt.Sprintf("%s: not a regular file: %v", Kind(e.Mode), fs.ErrInvalid)
}

// Unwrap makes it an fs.ErrInvalid.
func (e *SpecialError) Unwrap() error { return fs.ErrInvalid }

// Kind names the kind of file of a mode, in a word.
func Kind(m fs.FileMode) string {
	switch {
	case m.IsRegular():
		return "file"
	case m.IsDir():
		return "folder"
	case m&fs.ModeSymlink != 0:
		return "link"
	case m&fs.ModeNamedPipe != 0:
		return "FIFO"
	case m&fs.ModeSocket != 0:
		return "socket"
	case m&fs.ModeDevice != 0:
		return "device"
	}
	return "special file"
}

// Info is what the kernel knows of an entry.
type Info struct{ unix.Stat_t }

// Mode translates the kernel's mode.
func (i *Info) Mode() fs.FileMode {
	m := fs.FileMode(i.Stat_t.Mode & 0o777)
	switch i.Stat_t.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		m |= fs.ModeDir
	case unix.S_IFLNK:
		m |= fs.ModeSymlink
	case unix.S_IFIFO:
		m |= fs.ModeNamedPipe
	case unix.S_IFSOCK:
		m |= fs.ModeSocket
	case unix.S_IFCHR:
		m |= fs.ModeDevice | fs.ModeCharDevice
	case unix.S_IFBLK:
		m |= fs.ModeDevice
	case unix.S_IFREG:
	default:
		m |= fs.ModeIrregular
	}
	if i.Stat_t.Mode&unix.S_ISUID != 0 {
		m |= fs.ModeSetuid
	}
	if i.Stat_t.Mode&unix.S_ISGID != 0 {
		m |= fs.ModeSetgid
	}
	if i.Stat_t.Mode&unix.S_ISVTX != 0 {
		m |= fs.ModeSticky
	}
	return m
}

// MTime is the time of the last change of the content.
func (i *Info) MTime() time.Time { return time.Unix(i.Mtim.Sec, i.Mtim.Nsec) }

// want is what an open is for.
type want uint32

const (
	aFile   want = unix.S_IFREG
	aFolder want = unix.S_IFDIR
)

// fits objects to what is not wanted.
func (w want) fits(i *Info) error {
	kind := i.Stat_t.Mode & unix.S_IFMT
	switch {
	case kind == uint32(w):
		return nil
	case w == aFolder:
		return unix.ENOTDIR
	case kind == unix.S_IFDIR:
		return unix.EISDIR
	case kind == unix.S_IFLNK:
		return unix.ELOOP
	}
	return &SpecialError{i.Mode()}
}

// open looks, opens and looks again: the first look keeps devices from being opened at all,
// and what took the place of a file meanwhile is found by the second.
func open(dir int, name string, w want, flags int) (int, *Info, error) {
	var st Info
	look := 0
	if flags&unix.O_NOFOLLOW != 0 {
		look = unix.AT_SYMLINK_NOFOLLOW
	}
	err := again(func() error { return unix.Fstatat(dir, name, &st.Stat_t, look) })
	if err == nil {
		err = w.fits(&st)
	}
	if err != nil {
		return -1, nil, err
	}
	if w == aFolder {
		flags |= unix.O_DIRECTORY
	}
	fd := -1
	err = again(func() (err error) { fd, err = unix.Openat(dir, name, flags|quick, 0); return err })
	if err != nil {
		return -1, nil, err
	}
	if err = unix.Fstat(fd, &st.Stat_t); err == nil {
		err = w.fits(&st)
	}
	if err != nil {
		unix.Close(fd)
		return -1, nil, err
	}
	return fd, &st, nil
}

// again repeats a call that a signal has interrupted.
func again(call func() error) error {
	for {
		if err := call(); err != unix.EINTR {
			return err
		}
	}
}

func opened(dir int, name string, w want, flags int) (*os.File, *Info, error) {
	fd, st, err := open(dir, name, w, flags)
	if err != nil {
		return nil, nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	return os.NewFile(uintptr(fd), name), st, nil
}

// File opens a plain file for reading, through links.
func File(path string) (*os.File, *Info, error) {
	return opened(unix.AT_FDCWD, path, aFile, unix.O_RDONLY)
}

// Folder opens a folder for reading, through links.
func Folder(path string) (*os.File, *Info, error) {
	return opened(unix.AT_FDCWD, path, aFolder, unix.O_RDONLY)
}

// FileIn is File below a root, which links do not leave.
func FileIn(root *os.Root, path string) (*os.File, *Info, error) { return openIn(root, path, aFile) }

// FolderIn is Folder below a root.
func FolderIn(root *os.Root, path string) (*os.File, *Info, error) {
	return openIn(root, path, aFolder)
}

func openIn(root *os.Root, path string, w want) (*os.File, *Info, error) {
	st, err := root.Stat(path) // a device is not opened at all
	switch {
	case err != nil:
		return nil, nil, err
	case w == aFile && st.IsDir():
		return nil, nil, &fs.PathError{Op: "open", Path: path, Err: unix.EISDIR}
	case w == aFile && !st.Mode().IsRegular():
		return nil, nil, &fs.PathError{Op: "open", Path: path, Err: &SpecialError{st.Mode()}}
	case w == aFolder && !st.IsDir():
		return nil, nil, &fs.PathError{Op: "open", Path: path, Err: unix.ENOTDIR}
	}
	flags := quick
	if w == aFolder {
		flags |= unix.O_DIRECTORY
	}
	f, err := root.OpenFile(path, flags, 0)
	if err != nil {
		return nil, nil, err
	}
	var i Info
	if err = stat(f, &i); err == nil {
		err = w.fits(&i)
	}
	if err != nil {
		f.Close()
		return nil, nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	return f, &i, nil
}

// stat looks at an open file without making its reads wait, as os.File.Fd does.
func stat(f *os.File, i *Info) error {
	return control(f, func(fd int) error { return unix.Fstat(fd, &i.Stat_t) })
}

// control does something with the descriptor of an open file.
func control(f *os.File, do func(fd int) error) error {
	c, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var derr error
	err = c.Control(func(fd uintptr) { derr = do(int(fd)) })
	if err == nil {
		err = derr
	}
	return err
}

// Root makes a root of an open folder.
func Root(f *os.File) (root *os.Root, err error) {
	err = control(f, func(fd int) (err error) {
		root, err = os.OpenRoot(fmt.Sprintf("/proc/self/fd/%d/.", fd))
		return err
	})
	return root, err
}

// FolderRoot opens a folder as a root. The path's end means that the kernel takes nothing but
// a folder there.
func FolderRoot(path string) (*os.Root, error) { return os.OpenRoot(path + "/.") }
