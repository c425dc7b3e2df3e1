package columns

import (
	"errors"
	"fmt"
	"io"
	"iter"

	"github.com/parquet-go/parquet-go"
)

// ErrForeign says that a Parquet file has columns that no [Row] has.
var ErrForeign = errors.New("not a Parquet file of trajectories")

// Reader reads rows as a [Writer] writes them. It belongs to one goroutine.
type Reader struct {
	f *parquet.File
}

// NewReader opens a file of size bytes. A file with other columns than ours is
// [ErrForeign]: its rows could not be written again without loss. Columns of ours that it
// lacks are empty.
func NewReader(r io.ReaderAt, size int64) (rd *Reader, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("parquet: damaged file: %v", p)
		}
	}()
	f, err := parquet.OpenFile(r, size)
	if err != nil {
		return nil, fmt.Errorf("parquet: %w", err)
	}
	ours := parquet.SchemaOf(Row{})
	known := map[string]bool{}
	for _, c := range ours.Fields() {
		known[c.Name()] = true
	}
	messages := false
	for _, c := range f.Schema().Fields() {
		if !known[c.Name()] {
			return nil, fmt.Errorf("%w: column %q", ErrForeign, c.Name())
		}
		messages = messages || c.Name() == "messages"
	}
	if !messages {
		return nil, fmt.Errorf("%w: no column messages", ErrForeign)
	}
	if _, ok := f.Schema().Lookup("messages", "list", "element", "tool_calls", "list", "element", "function", "arguments"); !ok {
		return nil, fmt.Errorf("%w: calls are not under tool_calls[].function; a file of an older hermes is written again by hermes runs export", ErrForeign)
	}
	return &Reader{f}, nil
}

// Len is the number of rows.
func (r *Reader) Len() int64 { return r.f.NumRows() }

// LogProbs is the logProbs that [NewWriter] was called with.
func (r *Reader) LogProbs() string {
	v, _ := r.f.Lookup("hermes.logprobs")
	return v
}

// Rows yields the rows in order, a few in memory at a time. An error is the last thing
// yielded.
func (r *Reader) Rows() iter.Seq2[Row, error] {
	return func(yield func(Row, error) bool) {
		pages := pagesOf(r.f)
		for i, group := range r.f.RowGroups() {
			if group.NumRows() == 0 {
				continue
			}
			if err := pages.Check(i); err != nil {
				yield(Row{}, fmt.Errorf("parquet: row group %d: %w", i, err))
				return
			}
		}
		gr := parquet.NewGenericReader[Row](r.f)
		defer gr.Close()
		for at := 0; ; {
			buf := make([]Row, 16) // fresh: rows keep what they point to
			n, err := gr.Read(buf)
			for _, row := range buf[:n] {
				at++
				if !yield(row, nil) {
					return
				}
			}
			if err == io.EOF {
				return
			}
			if err != nil {
				yield(Row{}, fmt.Errorf("parquet row %d: %w", at, err))
				return
			}
		}
	}
}

// Read returns the rows of a file.
func Read(r io.ReaderAt, size int64) ([]Row, error) {
	f, err := NewReader(r, size)
	if err != nil {
		return nil, err
	}
	rows := make([]Row, 0, f.Len())
	for row, err := range f.Rows() {
		if err != nil {
			return nil, err
		}
		rows = append(rows, row)
	}
	return rows, nil
}
