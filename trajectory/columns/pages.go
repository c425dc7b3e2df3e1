package columns

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
)

// A page says itself how large it becomes, and a few bytes can say two gigabytes, or a
// thousand million equal values. Beyond these bounds a page must hold bytes for what it says.
const (
	plainBytes  = 256 << 20 // of a page, unpacked
	plainValues = 16 << 20  // of a page; of a column of lists in a row group, since one row may have them all
	packed      = 200       // times the bytes in the file: texts that repeat become about 50
	perByte     = 8         // values for each byte in the file
	maxHeader   = 16 << 20  // statistics of a page hold its least and greatest value
)

// ErrBomb says that a Parquet file becomes far more than it holds.
var ErrBomb = errors.New("more than a page of this size can hold: the file is damaged or made to fill the memory")

// Pages looks at the pages of a Parquet file before they are unpacked.
type Pages struct {
	f     *parquet.File
	lists []bool // by leaf: whether a row may have many values
}

// OpenPages reads the footer of a file of size bytes.
func OpenPages(r io.ReaderAt, size int64) (p *Pages, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("parquet: damaged file: %v", p)
		}
	}()
	f, err := parquet.OpenFile(r, size, parquet.SkipPageIndex(true), parquet.SkipBloomFilters(true))
	if err != nil {
		return nil, fmt.Errorf("parquet: %w", err)
	}
	return pagesOf(f), nil
}

func pagesOf(f *parquet.File) *Pages {
	p := &Pages{f: f}
	var walk func(c *parquet.Column)
	walk = func(c *parquet.Column) {
		if c.Leaf() {
			p.lists = append(p.lists, c.MaxRepetitionLevel() > 0)
		}
		for _, kid := range c.Columns() {
			walk(kid)
		}
	}
	walk(f.Root())
	return p
}

// Check reads the headers of all pages of one row group, a few kilobytes each, and refuses with
// [ErrBomb] what would fill the memory. An encrypted column is an error, and so is one that is
// compressed with LZ4.
func (p *Pages) Check(group int) error {
	for i := range p.f.Metadata().RowGroups[group].Columns {
		c := &p.f.Metadata().RowGroups[group].Columns[i]
		if err := p.chunk(&c.MetaData, i < len(p.lists) && p.lists[i]); err != nil {
			return fmt.Errorf("column %s: %w", strings.Join(c.MetaData.PathInSchema, "."), err)
		}
	}
	return nil
}

func (p *Pages) chunk(m *format.ColumnMetaData, list bool) error {
	if m.Codec == format.Lz4Raw {
		// parquet-go reads what was in the buffer before where a page is not three times as
		// large as its bytes, and doubles the buffer without end where a page is damaged.
		return errors.New("its compression is LZ4, which is not read: write the file with zstd")
	}
	at := m.DataPageOffset
	if m.DictionaryPageOffset != 0 {
		at = m.DictionaryPageOffset
	}
	end := at + m.TotalCompressedSize
	if at < 0 || end < at || end > p.f.Size() {
		return fmt.Errorf("damaged file: its pages are at %d to %d of %d bytes", at, end, p.f.Size())
	}
	values := int64(0)
	for at < end && values < m.NumValues {
		h, n, err := p.header(at, end)
		if err != nil {
			return fmt.Errorf("the header of the page at byte %d: %w", at, err)
		}
		var of int64
		switch {
		case h.DataPageHeader.Valid:
			of = int64(h.DataPageHeader.V.NumValues)
			values += of
		case h.DataPageHeaderV2.Valid:
			of = int64(h.DataPageHeaderV2.V.NumValues)
			values += of
		case h.DictionaryPageHeader.Valid:
			of = int64(h.DictionaryPageHeader.V.NumValues)
		}
		size := int64(h.CompressedPageSize)
		if size < 0 || of < 0 || at+n+size > end {
			return fmt.Errorf("damaged file: the page at byte %d says %d bytes and %d values", at, size, of)
		}
		if b := int64(h.UncompressedPageSize); b > plainBytes && b > packed*size {
			return fmt.Errorf("the page at byte %d says that its %d bytes become %d: %w", at, size, b, ErrBomb)
		}
		if of > plainValues && of > perByte*size {
			return fmt.Errorf("the page at byte %d says that its %d bytes hold %d values: %w", at, size, of, ErrBomb)
		}
		at += n + size
	}
	if list && values > plainValues && values > perByte*m.TotalCompressedSize {
		return fmt.Errorf("%d bytes hold %d values of lists: %w", m.TotalCompressedSize, values, ErrBomb)
	}
	return nil
}

// header reads the header of a page and says how many bytes it takes.
func (p *Pages) header(at, end int64) (*format.PageHeader, int64, error) {
	for size := int64(1 << 10); ; size <<= 4 {
		size = min(size, end-at)
		buf := make([]byte, size)
		if n, err := p.f.ReadAt(buf, at); int64(n) < size {
			return nil, 0, err
		}
		r, h := bytes.NewReader(buf), new(format.PageHeader)
		err := thrift.NewDecoder(new(thrift.CompactProtocol).NewReader(r)).Decode(h)
		if err == nil {
			return h, size - int64(r.Len()), nil
		}
		if size == end-at || size > maxHeader {
			return nil, 0, err
		}
	}
}
