package datasets

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// pack is the compression around a file.
type pack int

const (
	plain pack = iota
	gzipped
	zstandard
)

// unpack wraps r by its first bytes. Close the reader behind the returned one yourself.
func unpack(r io.Reader) (io.ReadCloser, pack, error) {
	b := bufio.NewReaderSize(r, 1<<16)
	head, err := b.Peek(4)
	if err != nil && err != io.EOF {
		return nil, plain, bare(err)
	}
	switch {
	case bytes.HasPrefix(head, []byte{0x1f, 0x8b}):
		z, err := gzip.NewReader(b)
		if err != nil {
			return nil, gzipped, fmt.Errorf("gzip: %w", err)
		}
		return z, gzipped, nil
	case bytes.HasPrefix(head, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		z, err := zstd.NewReader(b, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(128<<20))
		if err != nil {
			return nil, zstandard, fmt.Errorf("zstd: %w", err)
		}
		return z.IOReadCloser(), zstandard, nil
	}
	return io.NopCloser(b), plain, nil
}

// peek returns the first bytes of the unpacked file.
func peek(path string) ([]byte, pack, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, plain, bare(err)
	}
	defer f.Close()
	r, p, err := unpack(f)
	if err != nil {
		return nil, p, err
	}
	defer r.Close()
	head := make([]byte, 1<<16)
	n, err := io.ReadFull(r, head)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, p, bare(err)
	}
	return head[:n], p, nil
}

// open returns the unpacked content of f behind a byte order mark.
func (f *file) open() (io.Reader, func() error, error) {
	if f.path == "" {
		return skipBOM(bytes.NewReader(f.inline)), func() error { return nil }, nil
	}
	h, err := os.Open(f.path)
	if err != nil {
		return nil, nil, bare(err)
	}
	if f.pack == plain {
		return skipBOM(h), h.Close, nil
	}
	r, _, err := unpack(h)
	if err != nil {
		return nil, nil, errors.Join(err, h.Close())
	}
	return skipBOM(r), func() error { return errors.Join(r.Close(), h.Close()) }, nil
}

// skipBOM drops a UTF-8 byte order mark. Offsets count from behind it.
func skipBOM(r io.Reader) io.Reader {
	var head [3]byte
	n, err := io.ReadFull(r, head[:])
	if n == 3 && head == [3]byte{0xef, 0xbb, 0xbf} {
		return r
	}
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return io.MultiReader(bytes.NewReader(head[:n]), failing{err})
	}
	return io.MultiReader(bytes.NewReader(head[:n]), r)
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// scan yields the raw rows of f in order, index counting from 0 within f. An error of
// yield ends it and is returned; other errors mean that the file cannot be read.
func (f *file) scan(ctx context.Context, limit int, yield func(raw) error) error {
	n := int64(0)
	each := func(r raw) error {
		if n&1023 == 0 && ctx.Err() != nil {
			return context.Cause(ctx)
		}
		r.file, r.index = f.name, n
		n++
		if r.index < f.from {
			return nil
		}
		if f.to >= 0 && r.index >= f.to {
			return errStop
		}
		return yield(r)
	}
	err := f.each(limit, each)
	if errors.Is(err, errStop) {
		return nil
	}
	return err
}

func (f *file) each(limit int, yield func(raw) error) error {
	if f.format == Parquet {
		return f.parquetRows(limit, yield)
	}
	r, done, err := f.open()
	if err != nil {
		return err
	}
	switch f.format {
	case JSON:
		err = jsonValues(r, limit, yield)
	case CSV:
		err = csvRows(r, ',', limit, yield)
	case TSV:
		err = csvRows(r, '\t', limit, yield)
	default:
		err = jsonLines(r, limit, yield)
	}
	return errors.Join(err, done())
}
