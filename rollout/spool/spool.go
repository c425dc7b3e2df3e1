// Package spool keeps the workspace of a rollout, as streams of tar, between two boxes: the one
// that the model worked in is given back before the one that is judged is opened.
//
// A [Spool] is for one goroutine.
package spool

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"

	"hermes/backends"
)

const (
	maxEntries = 200_000 // of a part
	inMemory   = 4 << 20 // bytes of a part; a longer one is in a file
)

// Spool holds the streams of a workspace while its box is given back and another one is
// opened: short ones in memory, long ones in a file that has no name.
type Spool struct {
	Left  int64 // bytes that may still come
	parts []part
}

type part struct {
	mem  bytes.Buffer
	file *os.File
	none bool
}

// Begin starts the next part.
func (s *Spool) Begin() { s.parts = append(s.parts, part{}) }

// Drop says that there was nothing to copy.
func (s *Spool) Drop() { s.parts[len(s.parts)-1].none = true }

// Write takes a piece of the current stream.
func (s *Spool) Write(b []byte) (int, error) {
	s.Left -= int64(len(b))
	if s.Left < 0 {
		return 0, fmt.Errorf("the workspace is too large to be copied into another box: %w", backends.ErrTooLarge)
	}
	p := &s.parts[len(s.parts)-1]
	if p.file == nil && p.mem.Len()+len(b) <= inMemory {
		return p.mem.Write(b)
	}
	if p.file == nil {
		f, err := os.CreateTemp("", "hermes-workspace-*")
		if err != nil {
			return 0, err
		}
		os.Remove(f.Name())
		p.file = f
		if _, err := p.mem.WriteTo(f); err != nil {
			return 0, err
		}
	}
	return p.file.Write(b)
}

// Stream reads part i from its beginning; nil: there is nothing in it.
func (s *Spool) Stream(i int) (io.Reader, error) {
	p := &s.parts[i]
	if p.none {
		return nil, nil
	}
	if p.file == nil {
		return bytes.NewReader(p.mem.Bytes()), nil
	}
	if _, err := p.file.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	return p.file, nil
}

// Single reports whether part i is the file at the path itself, and bounds its entries.
func (s *Spool) Single(i int, p string) (bool, error) {
	from, err := s.Stream(i)
	if err != nil {
		return false, err
	}
	r := tar.NewReader(from)
	n, single := 0, false
	for {
		hdr, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return false, err
		}
		n++
		if n > maxEntries {
			return false, fmt.Errorf("the workspace has more than %d entries: %w", maxEntries, backends.ErrTooLarge)
		}
		single = n == 1 && hdr.Typeflag != tar.TypeDir && p != "." && hdr.Name == path.Base(p)
	}
	_, err = s.Stream(i)
	return single && n == 1, err
}

// Close removes the files.
func (s *Spool) Close() {
	for i := range s.parts {
		if f := s.parts[i].file; f != nil {
			f.Close()
		}
	}
}

// Sift passes a tar stream on without what could do harm in another box: entries that leave
// it, devices, FIFOs, other users' rights, and what belongs to the new box.
func Sift(from io.Reader, to io.Writer, keep []string) error {
	r, w := tar.NewReader(from), tar.NewWriter(to)
	for {
		hdr, err := r.Next()
		if err == io.EOF {
			return w.Close()
		}
		if err != nil {
			return err
		}
		name := path.Clean(hdr.Name)
		top, _, _ := strings.Cut(name, "/")
		if path.IsAbs(name) || top == ".." || slices.Contains(keep, top) {
			continue
		}
		switch hdr.Typeflag {
		case tar.TypeReg, tar.TypeDir, tar.TypeSymlink:
		default:
			continue
		}
		out := &tar.Header{Name: name, Typeflag: hdr.Typeflag, Linkname: hdr.Linkname, Mode: hdr.Mode & 0o777, ModTime: hdr.ModTime, Format: tar.FormatPAX}
		switch hdr.Typeflag {
		case tar.TypeDir:
			out.Name += "/"
			out.Mode |= 0o700
		case tar.TypeReg:
			out.Size = hdr.Size
			out.Mode |= 0o400
		}
		if err := w.WriteHeader(out); err != nil {
			return err
		}
		if _, err := io.Copy(w, r); err != nil {
			return err
		}
	}
}
