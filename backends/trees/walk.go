//go:build linux

package trees

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"

	"golang.org/x/sys/unix"
)

// The bounds of a walk that names none.
const (
	Depth   = 2_000     // folders in each other; no path of more can be named: it has 4,096 bytes at most
	Path    = 4_096     // bytes of a path below the top
	Entries = 1_000_000 // names that are read
)

// window is how many folders of the path to the current one a walk keeps open.
const window = 32

// Bounds of a walk. Zero values mean [Depth], [Path] and [Entries].
type Bounds struct{ Depth, Path, Entries int }

// BoundError says which bound keeps a part of a tree out of a walk.
type BoundError struct {
	Most int
	What string
}

func (e *BoundError) Error() string { return fmt.Sprintf("beyond the bound of %d %s", e.Most, e.What) }

// Deep reports whether an error says that something lies too deep.
func Deep(err error) bool {
	b := (*BoundError)(nil)
	return errors.As(err, &b) && b.What != manyNames
}

const (
	tooDeep   = "folders in each other"
	longPath  = "bytes of a path"
	manyNames = "names"
)

// Entry is one name that a walk has come to. It is valid until the visit returns.
type Entry struct {
	Name string
	Path string      // from the top
	Type fs.FileMode // type bits only, as of the reading of its folder
	dir  int
}

// Stat looks at the entry itself, not at what a link leads to.
func (e *Entry) Stat() (*Info, error) {
	var st Info
	err := again(func() error { return unix.Fstatat(e.dir, e.Name, &st.Stat_t, unix.AT_SYMLINK_NOFOLLOW) })
	if err != nil {
		return nil, &fs.PathError{Op: "stat", Path: e.Path, Err: err}
	}
	return &st, nil
}

// Open opens the entry if it is a plain file.
func (e *Entry) Open() (*os.File, *Info, error) { return e.file(e.Name) }

func (e *Entry) file(name string) (*os.File, *Info, error) {
	return opened(e.dir, name, aFile, unix.O_RDONLY|unix.O_NOFOLLOW)
}

// Link is where a symbolic link leads.
func (e *Entry) Link() (string, error) {
	buf := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(e.dir, e.Name, buf)
	if err != nil {
		return "", &fs.PathError{Op: "readlink", Path: e.Path, Err: err}
	}
	return string(buf[:n]), nil
}

// Visitor is what a walk calls. Only Visit must be there.
type Visitor struct {
	// Visit sees every entry, a folder before what lies in it, in the order of names.
	// fs.SkipDir leaves a folder out, fs.SkipAll ends the walk; any other error too.
	Visit func(e *Entry) error
	// Enter is called when a folder is open, the top too, whose path is "". It may open
	// plain files in it.
	Enter func(path string, open func(name string) (*os.File, *Info, error))
	// Leave is called after everything in a folder.
	Leave func(path string)
	// Left hears of a folder that is not, or not wholly, looked at: an error of the system, or
	// a [BoundError].
	Left func(path string, why error)
}

// level is a folder on the way to the current one.
type level struct {
	fd   int // -1: closed, to be opened again from below
	dev  uint64
	ino  uint64
	path string
	rest []name
}

type walk struct {
	Visitor
	b      Bounds
	ctx    context.Context
	levels []level
	read   int    // names so far
	buf    []byte // of names
}

// Walk visits everything below an open folder. It goes on where something cannot be read and
// returns the error of a visit, or ctx's.
func Walk(ctx context.Context, top *os.File, b Bounds, v Visitor) error {
	b = Bounds{cmp.Or(b.Depth, Depth), cmp.Or(b.Path, Path), cmp.Or(b.Entries, Entries)}
	if v.Enter == nil {
		v.Enter = func(string, func(string) (*os.File, *Info, error)) {}
	}
	if v.Leave == nil {
		v.Leave = func(string) {}
	}
	if v.Left == nil {
		v.Left = func(string, error) {}
	}
	w := &walk{Visitor: v, b: b, ctx: ctx}
	defer w.close()
	err := control(top, func(fd int) error { return w.enter(fd, ".", "") })
	if err != nil {
		return &fs.PathError{Op: "open", Path: top.Name(), Err: err}
	}
	for len(w.levels) > 0 {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := w.step(); err == fs.SkipAll {
			return nil
		} else if err != nil {
			return err
		}
	}
	return nil
}

func (w *walk) close() {
	for _, l := range w.levels {
		if l.fd >= 0 {
			unix.Close(l.fd)
		}
	}
}

// step visits the next entry of the deepest folder, or leaves it.
func (w *walk) step() error {
	l := &w.levels[len(w.levels)-1]
	if len(l.rest) == 0 {
		w.Leave(l.path)
		w.up()
		return nil
	}
	n := l.rest[0]
	l.rest = l.rest[1:]
	e := &Entry{Name: n.text, Path: n.text, Type: n.kind, dir: l.fd}
	if l.path != "" {
		e.Path = l.path + "/" + n.text
	}
	if e.Type == fs.ModeIrregular { // the file system does not say
		st, err := e.Stat()
		if err != nil {
			return nil
		}
		e.Type = st.Mode().Type()
	}
	err := w.Visit(e)
	switch {
	case err == fs.SkipDir:
		return nil
	case err != nil || !e.Type.IsDir():
		return err
	case len(w.levels) > w.b.Depth:
		w.Left(e.Path, &BoundError{w.b.Depth, tooDeep})
	case len(e.Path) > w.b.Path:
		w.Left(e.Path, &BoundError{w.b.Path, longPath})
	case w.read >= w.b.Entries:
		w.Left(e.Path, &BoundError{w.b.Entries, manyNames})
	default:
		if err := w.enter(e.dir, e.Name, e.Path); err != nil {
			w.Left(e.Path, err)
		}
	}
	return nil
}

// enter opens a folder and reads its names.
func (w *walk) enter(dir int, name, path string) error {
	fd, st, err := open(dir, name, aFolder, unix.O_RDONLY|unix.O_NOFOLLOW)
	if err != nil {
		return err
	}
	all, more, err := names(fd, w.b.Entries-w.read, &w.buf)
	w.read += len(all)
	if err != nil {
		unix.Close(fd)
		return err
	}
	if more {
		w.Left(path, &BoundError{w.b.Entries, manyNames})
	}
	if i := len(w.levels) - window; i >= 0 && w.levels[i].fd >= 0 {
		unix.Close(w.levels[i].fd)
		w.levels[i].fd = -1
	}
	w.levels = append(w.levels, level{fd: fd, dev: uint64(st.Dev), ino: st.Ino, path: path, rest: all})
	in := &Entry{dir: fd}
	w.Enter(path, in.file)
	return nil
}

// One visits a single entry of an open folder.
func One(folder *os.File, name string, visit func(e *Entry) error) error {
	return control(folder, func(fd int) error {
		e := &Entry{Name: name, Path: name, dir: fd}
		st, err := e.Stat()
		if err != nil {
			return err
		}
		e.Type = st.Mode().Type()
		return visit(e)
	})
}

// up leaves the deepest folder. The one above it may have been closed; what is above now may
// be another one, if somebody has moved the folder, and then the rest of the old one is out of
// reach.
func (w *walk) up() {
	last := w.levels[len(w.levels)-1]
	w.levels = w.levels[:len(w.levels)-1]
	defer unix.Close(last.fd)
	if len(w.levels) == 0 {
		return
	}
	l := &w.levels[len(w.levels)-1]
	if l.fd >= 0 {
		return
	}
	fd, err := unix.Openat(last.fd, "..", unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	var st unix.Stat_t
	if err == nil {
		if err = unix.Fstat(fd, &st); err == nil && (uint64(st.Dev) != l.dev || st.Ino != l.ino) {
			err = errMoved
		}
	}
	if err != nil {
		if fd >= 0 {
			unix.Close(fd)
		}
		w.Left(l.path, err)
		l.rest, fd = nil, -1
	}
	l.fd = fd
}

var errMoved = errors.New("it was moved meanwhile")

// name is one entry of a folder.
type name struct {
	text string
	kind fs.FileMode // ModeIrregular: unknown
}

// names reads at most most names of an open folder, sorted; more says that there are others.
// The memory at buf is used for it, and may be replaced.
func names(fd, most int, buf *[]byte) (all []name, more bool, err error) {
	for {
		if len(*buf) == 0 {
			*buf = make([]byte, 16<<10)
		}
		n := 0
		err := again(func() (err error) { n, err = unix.ReadDirent(fd, *buf); return err })
		if err != nil {
			return nil, false, err
		}
		if n <= 0 {
			break
		}
		for rest := (*buf)[:n]; len(rest) > 19; {
			size := int(binary.NativeEndian.Uint16(rest[16:]))
			if size < 20 || size > len(rest) {
				return nil, false, unix.EIO
			}
			text, _, _ := bytes.Cut(rest[19:size], []byte{0})
			if s := string(text); s != "." && s != ".." {
				if len(all) >= most {
					more = true
					break
				}
				all = append(all, name{s, kindOf(rest[18])})
			}
			rest = rest[size:]
		}
		if more {
			break
		}
		if n > len(*buf)/2 && len(*buf) < 256<<10 {
			*buf = make([]byte, 4*len(*buf))
		}
	}
	slices.SortFunc(all, func(a, b name) int { return cmp.Compare(a.text, b.text) })
	return all, more, nil
}

func kindOf(d byte) fs.FileMode {
	switch d {
	case unix.DT_REG:
		return 0
	case unix.DT_DIR:
		return fs.ModeDir
	case unix.DT_LNK:
		return fs.ModeSymlink
	case unix.DT_FIFO:
		return fs.ModeNamedPipe
	case unix.DT_SOCK:
		return fs.ModeSocket
	case unix.DT_CHR:
		return fs.ModeDevice | fs.ModeCharDevice
	case unix.DT_BLK:
		return fs.ModeDevice
	}
	return fs.ModeIrregular
}

// Names lists at most most names of an open folder, sorted; more says that there are others.
func Names(f *os.File, most int) (list []string, more bool, err error) {
	var all []name
	err = control(f, func(fd int) (err error) { all, more, err = names(fd, most, new([]byte)); return err })
	for _, n := range all {
		list = append(list, n.text)
	}
	return list, more, err
}

// StatIn looks at one name of an open folder; link is where a symbolic link leads.
func StatIn(f *os.File, name string) (st *Info, link string, err error) {
	err = control(f, func(fd int) (err error) {
		e := &Entry{Name: name, Path: name, dir: fd}
		st, err = e.Stat()
		if err == nil && st.Mode()&fs.ModeSymlink != 0 {
			link, err = e.Link()
		}
		return err
	})
	return st, link, err
}
