package datasets

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/parquet-go/parquet-go"

	"hermes/trajectory/columns"
)

// parquetBatch is how many rows are held at once.
const parquetBatch = 64

// parquetRows yields the rows of a Parquet file as JSON objects, page by page.
func (f *file) parquetRows(limit int, yield func(raw) error) error {
	h, err := os.Open(f.path)
	if err != nil {
		return bare(err)
	}
	defer h.Close()
	info, err := h.Stat()
	if err != nil {
		return bare(err)
	}
	pf, err := openParquet(h, info.Size())
	if err != nil {
		return fmt.Errorf("parquet: %w", err)
	}
	w, err := newAssembler(pf)
	if err != nil {
		return err
	}
	w.limit = limit
	pages, err := columns.OpenPages(h, info.Size())
	if err != nil {
		return err
	}
	for i, group := range pf.RowGroups() {
		if group.NumRows() == 0 {
			continue // its pages have no place in the file: some writers leave such groups
		}
		if err := pages.Check(i); err != nil {
			return fmt.Errorf("row group %d: %w", i, err)
		}
		if err := parquetGroup(group, w, limit, yield); err != nil {
			if errors.Is(err, errStop) {
				return err
			}
			return fmt.Errorf("row group %d: %w", i, err)
		}
	}
	return nil
}

// openParquet keeps a damaged footer from being more than an error.
func openParquet(r io.ReaderAt, size int64) (pf *parquet.File, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("damaged file: %v", p)
		}
	}()
	return parquet.OpenFile(r, size, parquet.SkipPageIndex(true), parquet.SkipBloomFilters(true))
}

func parquetGroup(group parquet.RowGroup, w *assembler, limit int, yield func(raw) error) error {
	rows := group.Rows()
	defer rows.Close()
	batch := make([]parquet.Row, parquetBatch)
	var buf []byte
	for {
		n, readErr := readParquet(rows, batch)
		for _, row := range batch[:n] {
			r := raw{}
			buf, r.err = w.object(buf[:0], row)
			r.data = buf
			if err := yield(r); err != nil {
				return err
			}
		}
		switch {
		case readErr == io.EOF:
			return nil
		case readErr != nil:
			return readErr
		case n == 0:
			return io.ErrNoProgress
		}
	}
}

func readParquet(rows parquet.Rows, batch []parquet.Row) (n int, err error) {
	defer func() {
		if p := recover(); p != nil {
			n, err = 0, fmt.Errorf("damaged page: %v", p)
		}
	}()
	return rows.ReadRows(batch)
}
