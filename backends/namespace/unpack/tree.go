//go:build linux

package unpack

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// What names and links may be. The kernel takes no longer ones.
const (
	longestPath = 4095
	longestName = 255
	deepest     = 255 // folders in each other
	mostHops    = 40  // of links in a path, as the kernel counts
	mostNames   = 512 << 20
	bufferSize  = 256 << 10
)

// Whiteouts, by which a layer hides what is below it.
const (
	whiteout = ".wh."
	opaque   = ".wh..wh..opq"
	metadata = ".wh..wh." // of a file system that docker once used
)

// apply unpacks layers into an empty directory.
func apply(ctx context.Context, dir string, layers []layer, o Options) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return fmt.Errorf("open the folder to fill: %w", err)
	}
	defer root.Close()
	t := &tree{ctx: ctx, root: root, opt: o, bytes: o.Bytes, stream: o.Bytes, entries: o.Entries, seed: maphash.MakeSeed(),
		times: map[string]time.Time{}, buf: make([]byte, bufferSize)}
	defer t.leave()
	for i, l := range layers {
		t.mine = nil
		if i > 0 {
			t.mine = map[uint64]bool{}
		}
		if err := t.layer(l); err != nil {
			return blame(ctx, l.name, err)
		}
	}
	t.leave()
	for name, at := range t.times { // last, because what is put into a folder changes its time
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		root.Chtimes(name, at, at) // a folder that went with a later layer has none
	}
	return nil
}

// tree is a root file system being filled. Names of an archive are resolved as in the box
// that will have it as its root: links begin at the tree's root and end in it. What is then
// done is done through [os.Root], which lets nothing out whatever the resolving says.
type tree struct {
	ctx     context.Context
	root    *os.Root
	opt     Options
	bytes   int64 // that files may still have
	stream  int64 // that may still be read
	entries int   // that may still come
	names   int   // bytes kept in mind
	seed    maphash.Seed
	mine    map[uint64]bool      // hashes of the paths that the present layer made; nil in the first
	times   map[string]time.Time // of folders
	at      *place               // the last folder that was entered
	buf     []byte
}

// place is a folder of the tree.
type place struct {
	asked string // by the archive
	path  string // without links
	root  *os.Root
	self  *os.File
	stale bool // the same path has to be resolved again
}

// storeError is one of our own file system, which is not the archive's fault.
type storeError struct{ err error }

func (e *storeError) Error() string { return "write to the store: " + e.err.Error() }
func (e *storeError) Unwrap() error { return e.err }

// stored says that an error is the store's, unless the names of the archive caused it: one that
// is too long, also behind a link, a circle of links, or bytes that the file system refuses.
func stored(err error) error {
	for _, named := range []error{unix.ENAMETOOLONG, unix.ELOOP, unix.EILSEQ} {
		if errors.Is(err, named) {
			return err
		}
	}
	if err == nil {
		return nil
	}
	return &storeError{err}
}

// layer unpacks one layer and verifies it to its last byte.
func (t *tree) layer(l layer) error {
	f, size, err := l.open()
	if err != nil {
		return missing(l.name, err)
	}
	defer f.Close()
	if l.size >= 0 {
		size = l.size
	}
	whole := verify(f, l.name, l.digest, size)
	in, _, err := plain(whole)
	if err != nil {
		return err
	}
	defer in.Close()
	diff := verify(in, l.name+", unpacked,", l.diff, -1)
	st := &stream{ctx: t.ctx, r: diff, left: &t.stream, of: t.opt.Bytes}
	for r := tar.NewReader(st); ; {
		h, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
		t.entries--
		if t.entries < 0 {
			return tooMany(t.opt.Entries)
		}
		if err := t.add(h, r, l.hides); err != nil {
			return fmt.Errorf("entry %.200q: %w", h.Name, err)
		}
	}
	if err := drain(st); err != nil {
		return err
	}
	return drain(whole)
}

// add unpacks one entry.
func (t *tree) add(h *tar.Header, r io.Reader, hides bool) error {
	if h.Typeflag == tar.TypeXGlobalHeader {
		return nil
	}
	name, err := local(h.Name)
	if err != nil {
		return err
	}
	if name == "." {
		if h.Typeflag != tar.TypeDir {
			return fault("the root of the image is no folder")
		}
		h.Mode |= 0o755 // whoever packed his own folder did not mean to keep boxes out
		return t.folder(t.root, ".", ".", h)
	}
	dir, base := path.Split(name)
	p, err := t.enter(path.Clean(dir))
	if err != nil {
		return err
	}
	if hides && strings.HasPrefix(base, whiteout) {
		return t.hidden(p, base)
	}
	full := path.Join(p.path, base)
	if h.Typeflag == tar.TypeLink { // first, as it may name what it would replace
		return t.hardLink(p, base, full, h.Linkname)
	}
	old, err := p.root.Lstat(base)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return stored(err)
	case h.Typeflag == tar.TypeDir && old.IsDir():
	default:
		if err := p.remove(base, old); err != nil {
			return err
		}
	}
	t.made(full)
	switch h.Typeflag {
	case tar.TypeReg, tar.TypeCont, tar.TypeGNUSparse:
		return t.file(p, base, h, r)
	case tar.TypeDir:
		return t.folder(p.root, base, full, h)
	case tar.TypeSymlink:
		if h.Linkname == "" || len(h.Linkname) > longestPath || strings.Contains(h.Linkname, "\x00") {
			return fault("a link to %.60q", h.Linkname)
		}
		if err := p.root.Symlink(h.Linkname, base); err != nil {
			return stored(err)
		}
		return p.stamp(base, h.ModTime)
	case tar.TypeChar, tar.TypeBlock, tar.TypeFifo:
		return nil // a box has its own devices
	}
	return fault("it is of type %q, which is neither a file, a folder nor a link: make the archive again with another program", h.Typeflag)
}

// local is a name of an archive as a path below the root. The slash before it, which some
// programs write, means that root too.
func local(name string) (string, error) {
	if len(name) > longestPath || strings.Contains(name, "\x00") {
		return "", fault("a name of %d bytes: it can have %d, and no NUL", len(name), longestPath)
	}
	parts := strings.Split(name, "/")
	if slices.Contains(parts, "..") {
		return "", fault("the name leads out of its folder (..): the archive is damaged or hostile, make it again")
	}
	if len(parts) > deepest {
		return "", fault("the name has more than %d folders in each other", deepest)
	}
	for _, p := range parts {
		if len(p) > longestName {
			return "", fault("a name of %d bytes: it can have %d", len(p), longestName)
		}
	}
	return path.Clean(strings.TrimLeft(name, "/")), nil
}

// enter returns the folder that a path means, which it makes where it is missing.
func (t *tree) enter(dir string) (*place, error) {
	if t.at != nil && !t.at.stale && t.at.asked == dir {
		return t.at, nil
	}
	t.leave()
	real, err := t.resolve(dir, true)
	if err != nil {
		return nil, err
	}
	root, err := t.root.OpenRoot(real)
	if err != nil {
		return nil, stored(err)
	}
	self, err := root.Open(".")
	if err != nil {
		return nil, errors.Join(stored(err), root.Close())
	}
	t.at = &place{asked: dir, path: real, root: root, self: self}
	for at := real; at != "."; at = path.Dir(at) {
		t.made(at)
	}
	return t.at, nil
}

// leave forgets the last folder, which may have become another one.
func (t *tree) leave() {
	if t.at != nil {
		t.at.self.Close()
		t.at.root.Close()
		t.at = nil
	}
}

// resolve follows the links of a path, in the tree.
func (t *tree) resolve(dir string, making bool) (string, error) {
	todo := strings.Split(dir, "/")
	slices.Reverse(todo) // a stack
	var done []string
	for hops := 0; len(todo) > 0; {
		c := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		switch c {
		case "", ".":
			continue
		case "..": // of a link; above the root is the root
			done = done[:max(len(done)-1, 0)]
			continue
		}
		if len(done) >= deepest {
			return "", fault("it lies in more than %d folders", deepest)
		}
		at := strings.Join(append(done, c), "/")
		s, err := t.root.Lstat(at)
		switch {
		case errors.Is(err, fs.ErrNotExist) && making:
			if err := t.root.Mkdir(at, 0o755); err != nil {
				return "", stored(err)
			}
			if err := t.root.Chmod(at, 0o755); err != nil {
				return "", stored(err)
			}
		case errors.Is(err, fs.ErrNotExist):
			return "", err
		case err != nil:
			return "", stored(err)
		case s.IsDir():
		case s.Mode()&fs.ModeSymlink != 0:
			hops++
			if hops > mostHops {
				return "", fault("its folder is a link to a link, more than %d times", mostHops)
			}
			to, err := t.root.Readlink(at)
			if err != nil {
				return "", stored(err)
			}
			if strings.HasPrefix(to, "/") {
				done = nil
			}
			parts := strings.Split(to, "/")
			slices.Reverse(parts)
			todo = append(todo, parts...)
			continue
		case making && t.mine != nil && !t.mine[t.hash(at)]: // a file of a lower layer
			if err := errors.Join(t.root.Remove(at), t.root.Mkdir(at, 0o755)); err != nil {
				return "", stored(err)
			}
		default:
			return "", fault("its folder %.200q is a file", at)
		}
		done = append(done, c)
	}
	if len(done) == 0 {
		return ".", nil
	}
	return strings.Join(done, "/"), nil
}

// remove removes what an entry takes the place of, or hides. Paths that led to this folder
// by it may lead elsewhere now.
func (p *place) remove(base string, old fs.FileInfo) error {
	p.stale = p.stale || !old.Mode().IsRegular()
	return stored(p.root.RemoveAll(base))
}

func (t *tree) hash(name string) uint64 { return maphash.String(t.seed, name) }

// made notes what the present layer has made, which its whiteouts do not hide.
func (t *tree) made(full string) {
	if t.mine != nil {
		t.mine[t.hash(full)] = true
	}
}

// hidden does what a whiteout says.
func (t *tree) hidden(p *place, base string) error {
	if t.mine == nil {
		return nil // nothing is below
	}
	p.stale = true
	if base == opaque {
		return t.hideIn(p.root, p.path)
	}
	if strings.HasPrefix(base, metadata) {
		return nil
	}
	name := strings.TrimPrefix(base, whiteout)
	if name == "" || name == "." || name == ".." {
		return fault("it hides %q", name)
	}
	return t.hide(p.root, name, path.Join(p.path, name))
}

// hide removes what lower layers have at a path.
func (t *tree) hide(in *os.Root, base, full string) error {
	if !t.mine[t.hash(full)] {
		return stored(in.RemoveAll(base))
	}
	s, err := in.Lstat(base)
	if err != nil || !s.IsDir() {
		return nil
	}
	sub, err := in.OpenRoot(base)
	if err != nil {
		return stored(err)
	}
	defer sub.Close()
	return t.hideIn(sub, full)
}

// hideIn removes what lower layers have in a folder.
func (t *tree) hideIn(dir *os.Root, full string) error {
	f, err := dir.Open(".")
	if err != nil {
		return stored(err)
	}
	names, err := f.Readdirnames(-1)
	if err := errors.Join(err, f.Close()); err != nil {
		return stored(err)
	}
	for _, n := range names {
		if t.ctx.Err() != nil {
			return context.Cause(t.ctx)
		}
		if err := t.hide(dir, n, path.Join(full, n)); err != nil {
			return err
		}
	}
	return nil
}

// hardLink links to a file that was unpacked before.
func (t *tree) hardLink(p *place, base, full, to string) error {
	target, err := local(to)
	if err != nil {
		return fmt.Errorf("a hard link to %.200q: %w", to, err)
	}
	dir, last := path.Split(target)
	real, err := t.resolve(path.Clean(dir), false)
	if err != nil {
		return fault("a hard link to %.200q, which is not there", to)
	}
	from := path.Join(real, last)
	s, err := t.root.Lstat(from)
	if err != nil || s.IsDir() {
		return fault("a hard link to %.200q, which is no file that came before it", to)
	}
	if from == full {
		return nil
	}
	if old, err := p.root.Lstat(base); err == nil {
		if strings.HasPrefix(from, full+"/") {
			return fault("a hard link to %.200q, which lies in what it replaces", to)
		}
		if err := p.remove(base, old); err != nil {
			return err
		}
	}
	t.made(full)
	return stored(t.root.Link(from, path.Join(p.path, base)))
}

// file writes a file.
func (t *tree) file(p *place, base string, h *tar.Header, r io.Reader) error {
	if h.Size > t.bytes {
		return tooLarge(t.opt.Bytes)
	}
	t.bytes -= h.Size
	f, err := p.root.OpenFile(base, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return stored(err)
	}
	defer f.Close()
	if err := copyAll(t.ctx, f, r, t.buf); err != nil {
		return err
	}
	if err := f.Chmod(h.FileInfo().Mode().Perm() | 0o400); err != nil {
		return stored(err)
	}
	if err := f.Close(); err != nil {
		return stored(err)
	}
	return p.stamp(base, h.ModTime)
}

// copyAll copies, and tells what the reader did wrong from what the writer did.
func copyAll(ctx context.Context, w io.Writer, r io.Reader, buf []byte) error {
	for {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		n, err := r.Read(buf)
		if n > 0 {
			if _, err := w.Write(buf[:n]); err != nil {
				return stored(err)
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// folder makes a folder, or gives one its mode and time.
func (t *tree) folder(in *os.Root, base, full string, h *tar.Header) error {
	if err := in.Mkdir(base, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return stored(err)
	}
	mode := h.FileInfo().Mode()
	if err := in.Chmod(base, mode.Perm()|0o700|mode&fs.ModeSticky); err != nil {
		return stored(err)
	}
	if _, again := t.times[full]; !again {
		t.names += len(full)
		if t.names > mostNames {
			return fault("the names of its folders are longer than %d bytes together", mostNames)
		}
	}
	t.times[full] = sane(h.ModTime)
	return nil
}

// stamp gives a file or link its time.
func (p *place) stamp(base string, at time.Time) error {
	ts, err := unix.TimeToTimespec(sane(at))
	if err != nil {
		return err
	}
	if err := unix.UtimesNanoAt(int(p.self.Fd()), base, []unix.Timespec{ts, ts}, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return stored(&fs.PathError{Op: "set the time of", Path: base, Err: err})
	}
	return nil
}

// sane is a time that file systems can have.
func sane(at time.Time) time.Time {
	if first, last := time.Unix(0, 0), time.Unix(1<<33, 0); at.Before(first) {
		return first
	} else if at.After(last) {
		return last
	}
	return at
}
