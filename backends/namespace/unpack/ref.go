//go:build linux

package unpack

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// Ref names an image on this machine.
type Ref struct {
	Kind Kind
	Path string
	Tag  string // of the image meant, where there are several; empty: there is one
	text string
}

// String is the text of which the Ref was made.
func (r Ref) String() string { return r.text }

// layoutFile tells an image layout from other directories.
const layoutFile = "oci-layout"

// Find reads the text of a Ref and looks at what is there.
func Find(text string) (Ref, error) {
	kind, path := cutKind(text)
	if !filepath.IsAbs(path) {
		return Ref{}, fault("want %s", Forms)
	}
	r := Ref{Kind: kind, text: text}
	s, err := os.Stat(path)
	if err != nil && (kind == Tar || kind == Layout) {
		path, r.Tag = cutTag(path)
		if r.Tag != "" {
			s, err = os.Stat(path)
		}
	}
	if err != nil {
		return Ref{}, fault("%w", err)
	}
	r.Path = filepath.Clean(path)
	if r.Kind == 0 {
		r.Kind = Tar
		if s.IsDir() {
			r.Kind = Dir
			if _, err := os.Stat(filepath.Join(r.Path, layoutFile)); err == nil {
				r.Kind = Layout
			}
		}
	}
	switch {
	case r.Kind == Tar && !s.Mode().IsRegular():
		return Ref{}, fault("%s is not a file, which a tar is", r.Path)
	case r.Kind != Tar && !s.IsDir():
		return Ref{}, fault("%s is not a directory", r.Path)
	}
	return r, nil
}

// cutTag cuts a path that is not there before the first of its colons, from the right,
// before which there is something: paths and tags may have colons.
func cutTag(path string) (there, tag string) {
	for end := strings.LastIndexByte(path, ':'); end > 0; end = strings.LastIndexByte(path[:end], ':') {
		if _, err := os.Stat(path[:end]); err == nil {
			return path[:end], path[end+1:]
		}
	}
	return path, ""
}

// state names the content of a Ref without reading it: by the file's identity, its size and
// the time of its last change.
func (r Ref) state() (string, error) {
	file := r.Path
	if r.Kind == Layout {
		file = filepath.Join(r.Path, indexFile)
	}
	var s unix.Stat_t
	if err := unix.Stat(file, &s); err != nil {
		return "", fmt.Errorf("image %q: %w", r, fault("%w", &fs.PathError{Op: "stat", Path: file, Err: err}))
	}
	return fmt.Sprintf("%d %s %q %d:%d %d %d.%09d %d.%09d", r.Kind, r.Path, r.Tag, s.Dev, s.Ino, s.Size, s.Mtim.Sec, s.Mtim.Nsec, s.Ctim.Sec, s.Ctim.Nsec), nil
}

// source names a Ref whatever its content.
func (r Ref) source() string { return fmt.Sprintf("%d %s %q", r.Kind, r.Path, r.Tag) }

// openFile opens a regular file for reading. It does not block on a FIFO.
func openFile(path string) (*os.File, int64, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, 0, err
	}
	s, err := f.Stat()
	if err == nil && !s.Mode().IsRegular() {
		err = fmt.Errorf("%s is not a regular file", path)
	}
	if err != nil {
		return nil, 0, errors.Join(err, f.Close())
	}
	return f, s.Size(), nil
}

func isDir(path string) bool {
	s, err := os.Stat(path)
	return err == nil && s.IsDir()
}
