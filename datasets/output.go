package datasets

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// output is a file that appears under its name only when it is whole. Names that end
// in .gz or .zst are packed.
type output struct {
	path string
	tmp  *os.File
	w    *bufio.Writer
	pack io.WriteCloser // nil: plain
	done bool
}

// create begins a file; its folder is made where it is missing.
func create(path string, buffer int) (*output, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, fmt.Errorf("make the folder of %s: %w", path, err)
	}
	tmp, err := os.CreateTemp(filepath.Dir(path), ".hermes-*")
	if err != nil {
		return nil, fmt.Errorf("write %s: %w", path, bare(err))
	}
	o := &output{path: path, tmp: tmp}
	var to io.Writer = tmp
	switch {
	case strings.HasSuffix(path, ".gz"):
		o.pack = gzip.NewWriter(tmp)
	case strings.HasSuffix(path, ".zst"):
		o.pack, err = zstd.NewWriter(tmp, zstd.WithEncoderConcurrency(1), zstd.WithLowerEncoderMem(true))
		if err != nil {
			return nil, errors.Join(err, o.abort())
		}
	}
	if o.pack != nil {
		to = o.pack
	}
	o.w = bufio.NewWriterSize(to, buffer)
	return o, nil
}

func (o *output) Write(p []byte) (int, error) { return o.w.Write(p) }

// line writes one row; line breaks between its tokens become blanks.
func (o *output) line(row []byte) error {
	for {
		i := indexBreak(row)
		if i < 0 {
			break
		}
		if _, err := o.w.Write(row[:i]); err != nil {
			return err
		}
		if err := o.w.WriteByte(' '); err != nil {
			return err
		}
		row = row[i+1:]
	}
	if _, err := o.w.Write(row); err != nil {
		return err
	}
	return o.w.WriteByte('\n')
}

// commit flushes, syncs and renames.
func (o *output) commit() error {
	err := o.w.Flush()
	if o.pack != nil {
		err = errors.Join(err, o.pack.Close())
	}
	err = errors.Join(err, o.tmp.Chmod(0o644), o.tmp.Sync(), o.tmp.Close())
	if err != nil {
		return err
	}
	o.done = true
	return os.Rename(o.tmp.Name(), o.path)
}

// abort removes what was not committed; after commit it does nothing.
func (o *output) abort() error {
	if o.done {
		return nil
	}
	o.done = true
	o.tmp.Close() // its content is thrown away: only the removal matters
	return os.Remove(o.tmp.Name())
}
