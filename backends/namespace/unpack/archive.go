//go:build linux

package unpack

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// blobs are the named parts of an image: files of a layout, or of a tar.
type blobs interface {
	// open opens a part and tells its size. Missing ones satisfy fs.ErrNotExist.
	open(name string) (io.ReadCloser, int64, error)
}

// folder is a layout in a directory.
type folder string

func (d folder) open(name string) (io.ReadCloser, int64, error) {
	if !filepath.IsLocal(name) {
		return nil, 0, fault("the name of a part %q leads out of it", name)
	}
	return openFile(filepath.Join(string(d), name))
}

// archive is a tar that holds an image in parts.
type archive struct {
	file  *os.File // not compressed
	parts map[string]part
}

// part is a file of a tar, or a link to another one.
type part struct {
	offset, size int64
	link         string
}

// Parts that are kept in mind while a tar is read for the first time. A root file system
// has more.
const (
	mostParts    = 100_000
	deepestPart  = 3
	longestPart  = 300
	mostLinks    = 4 // from a part to the part that is meant
	manifestFile = "manifest.json"
	indexFile    = "index.json"
)

func (a *archive) open(name string) (io.ReadCloser, int64, error) {
	name = path.Clean(name)
	for range mostLinks {
		p, ok := a.parts[name]
		if !ok {
			break
		}
		if p.link == "" {
			return io.NopCloser(io.NewSectionReader(a.file, p.offset, p.size)), p.size, nil
		}
		name = path.Join(path.Dir(name), p.link)
	}
	return nil, 0, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
}

// scan is the first reading of a tar.
type scan struct {
	digest string // of the file as it is
	size   int64
	packed bool // compressed: parts cannot be read where they are
	parts  map[string]part
}

// scanTar reads a whole tar.
func scanTar(ctx context.Context, f *os.File, size int64, o Options) (s scan, err error) {
	whole := verify(f, f.Name(), "", size)
	in, packed, err := plain(whole)
	if err != nil {
		return s, blame(ctx, "read "+f.Name(), err)
	}
	defer in.Close()
	left := o.Bytes + size // what is not compressed is no bomb
	st := &stream{ctx: ctx, r: in, left: &left, of: o.Bytes}
	s.packed, s.parts = packed, map[string]part{}
	entries := 0
	for r := tar.NewReader(st); ; entries++ {
		h, err := r.Next()
		if err == io.EOF {
			break
		}
		if errors.Is(err, tar.ErrHeader) && entries == 0 {
			return s, fault("%s is no tar", f.Name())
		}
		if err != nil {
			return s, blame(ctx, fmt.Sprintf("read %s, entry %d", f.Name(), entries+1), err)
		}
		if entries >= o.Entries {
			return s, tooMany(o.Entries)
		}
		name := path.Clean(h.Name)
		if len(name) > longestPart || strings.Count(name, "/") >= deepestPart || len(s.parts) >= mostParts {
			continue
		}
		switch h.Typeflag {
		case tar.TypeReg:
			s.parts[name] = part{offset: st.n, size: h.Size}
		case tar.TypeSymlink:
			s.parts[name] = part{link: h.Linkname}
		}
	}
	if entries == 0 {
		return s, fault("%s is empty: neither a root file system nor an image", f.Name())
	}
	if err := errors.Join(drain(st), drain(whole)); err != nil {
		return s, blame(ctx, "read "+f.Name(), err)
	}
	s.digest, s.size = whole.digest(), whole.n
	return s, nil
}

func tooMany(entries int) error {
	return fault("it has more than %d entries, which is the bound: if that is meant, unpack it by other means and give the directory", entries)
}

// has reports whether a tar has a file.
func (s scan) has(name string) bool { p, ok := s.parts[name]; return ok && p.link == "" }

// expand returns the tar without its compression: a file without a name in the store.
func (s *Store) expand(ctx context.Context, f *os.File, sc scan) (*os.File, error) {
	temp, err := os.CreateTemp(s.dir, "expanded")
	if err != nil {
		return nil, fmt.Errorf("make a file in the store: %w", err)
	}
	if err := os.Remove(temp.Name()); err != nil {
		return nil, errors.Join(err, temp.Close())
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return nil, errors.Join(err, temp.Close())
	}
	whole := verify(f, f.Name(), sc.digest, sc.size)
	in, _, err := plain(whole)
	if err != nil {
		return nil, errors.Join(blame(ctx, "read "+f.Name(), err), temp.Close())
	}
	defer in.Close()
	left := s.opt.Bytes
	buf := make([]byte, bufferSize)
	if err := errors.Join(copyAll(ctx, temp, &stream{ctx: ctx, r: in, left: &left, of: s.opt.Bytes}, buf), drain(whole)); err != nil {
		return nil, errors.Join(blame(ctx, "decompress "+f.Name(), err), temp.Close())
	}
	return temp, nil
}
