package datasets

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
)

// Rows yields the rows in order. A row that cannot be used is a *[RowError], and the
// next one follows; any other error is the last thing yielded.
func (d *Dataset) Rows(ctx context.Context) iter.Seq2[Row, error] {
	return func(yield func(Row, error) bool) {
		stopped := false
		dec := newDecoder(d.o)
		err := d.each(ctx, func(r raw) error {
			row, err := dec.row(r)
			if err == nil && !d.o.Shard.holds(row.ID) {
				return nil
			}
			if !yield(row, err) {
				stopped = true
				return errStop
			}
			return nil
		})
		if err != nil && !stopped {
			yield(Row{}, err)
		}
	}
}

// each yields the raw rows of all files in the dataset's order, shuffled and limited.
// A yield that returns errStop ends it without an error.
func (d *Dataset) each(ctx context.Context, yield func(raw) error) error {
	source := d.inOrder
	if d.o.Shuffle {
		source = d.shuffled
	}
	left := d.o.Limit
	err := source(ctx, func(r raw) error {
		if d.o.Limit > 0 {
			if left == 0 {
				return errStop
			}
			left--
		}
		return yield(r)
	})
	if errors.Is(err, errStop) {
		return nil
	}
	return err
}

// inOrder yields the raw rows of all files, index counting through.
func (d *Dataset) inOrder(ctx context.Context, yield func(raw) error) error {
	n, stopped := int64(0), false
	for i := range d.files {
		f := &d.files[i]
		err := f.scan(ctx, d.o.MaxLine, func(r raw) error {
			r.index = n
			n++
			err := yield(r)
			stopped = errors.Is(err, errStop)
			return err
		})
		if stopped {
			return errStop
		}
		if err != nil {
			var bad *RowError
			if ctx.Err() != nil || errors.As(err, &bad) {
				return err // it says where already
			}
			return fmt.Errorf("%s: %w", f.name, err)
		}
	}
	return nil
}

// holds tells whether the row with this id belongs to the shard.
func (s Shard) holds(id string) bool {
	return s.N <= 1 || s.of(id) == s.I
}

// of returns the part of s.N to which an id belongs: by its SHA-256, so that the same
// row lands in the same part everywhere.
func (s Shard) of(id string) int {
	sum := sha256.Sum256([]byte(id))
	return int(binary.BigEndian.Uint64(sum[:8]) % uint64(s.N))
}

// Fingerprint is the SHA-256 of what the files hold, as stored; of several files, that
// of their sums. Slices of hub datasets count, names and options do not.
func (d *Dataset) Fingerprint(ctx context.Context) (string, error) {
	all := sha256.New()
	var last []byte
	for i := range d.files {
		f := &d.files[i]
		sum, err := f.sum(ctx)
		if err != nil {
			return "", fmt.Errorf("%s: %w", f.name, err)
		}
		last = sum
		all.Write(sum)
		if f.from > 0 || f.to >= 0 {
			fmt.Fprintf(all, "[%d:%d]", f.from, f.to)
			last = nil
		}
	}
	if len(d.files) == 1 && last != nil {
		return hex.EncodeToString(last), nil
	}
	return hex.EncodeToString(all.Sum(nil)), nil
}

func (f *file) sum(ctx context.Context) ([]byte, error) {
	h := sha256.New()
	if f.path == "" {
		h.Write(f.inline)
		return h.Sum(nil), nil
	}
	in, err := os.Open(f.path)
	if err != nil {
		return nil, bare(err)
	}
	defer in.Close()
	_, err = io.CopyBuffer(struct{ io.Writer }{h}, stoppable{ctx, in}, make([]byte, 1<<18))
	return h.Sum(nil), err
}

// stoppable reads until its context ends.
type stoppable struct {
	ctx context.Context
	r   io.Reader
}

func (s stoppable) Read(p []byte) (int, error) {
	if s.ctx.Err() != nil {
		return 0, context.Cause(s.ctx)
	}
	return s.r.Read(p)
}
