package datasets

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"hermes/datasets/scan"
)

// csvRows yields the records behind the header, each as a JSON object of texts. An
// empty cell is null. A wrong number of cells spoils one row, a broken quote all that
// follow, since nothing says where the next record begins.
func csvRows(r io.Reader, comma rune, limit int, yield func(raw) error) error {
	bound := &boundedReader{r: r, limit: limit}
	c := csv.NewReader(bound)
	c.Comma = comma
	c.FieldsPerRecord = -1
	c.ReuseRecord = true
	header, err := c.Read()
	if err == io.EOF {
		return nil
	}
	if err != nil {
		return yield(raw{line: 1, err: csvError(err)})
	}
	keys, err := csvKeys(header)
	if err != nil {
		return yield(raw{line: 1, err: err})
	}
	var buf []byte
	for {
		bound.used = 0
		cells, err := c.Read()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			line := int64(0)
			var pe *csv.ParseError
			if errors.As(err, &pe) {
				line = int64(pe.StartLine)
			}
			return yield(raw{line: line, err: csvError(err)})
		}
		line, _ := c.FieldPos(0)
		row := raw{line: int64(line), off: c.InputOffset()}
		switch size := cellBytes(cells); {
		case len(cells) != len(keys):
			row.err = fmt.Errorf("%d cells, the header has %d", len(cells), len(keys))
		case size > limit:
			row.err = tooLong(limit)
		default:
			buf, row.err = csvObject(buf[:0], keys, cells)
			row.data = buf
		}
		if err := yield(row); err != nil {
			return err
		}
	}
}

func cellBytes(cells []string) int {
	n := 0
	for _, cell := range cells {
		n += len(cell)
	}
	return n
}

func csvError(err error) error {
	var pe *csv.ParseError
	if errors.As(err, &pe) {
		return fmt.Errorf("line %d, column %d: %w", pe.Line, pe.Column, pe.Err)
	}
	return err
}

// csvKeys quotes the names of the header.
func csvKeys(header []string) ([]string, error) {
	keys := make([]string, len(header))
	seen := map[string]bool{}
	for i, name := range header {
		name = strings.TrimSpace(name)
		switch {
		case !utf8.ValidString(name):
			return nil, fmt.Errorf("header: column %d is not valid UTF-8", i+1)
		case name == "":
			return nil, fmt.Errorf("header: column %d has no name", i+1)
		case seen[name]:
			return nil, fmt.Errorf("header: column %q is given twice", name)
		}
		seen[name] = true
		keys[i] = string(scan.Quote(nil, name))
	}
	return keys, nil
}

func csvObject(to []byte, keys, cells []string) ([]byte, error) {
	to = append(to, '{')
	for i, cell := range cells {
		if !utf8.ValidString(cell) {
			return to, fmt.Errorf("column %s: not valid UTF-8", keys[i])
		}
		if i > 0 {
			to = append(to, ',')
		}
		to = append(append(to, keys[i]...), ':')
		if cell == "" {
			to = append(to, "null"...)
		} else {
			to = scan.Quote(to, cell)
		}
	}
	return append(to, '}'), nil
}

// boundedReader refuses to read on when one record has used up its bytes: a quote that
// never closes must not swallow a whole file into memory.
type boundedReader struct {
	r     io.Reader
	used  int
	limit int
}

func (b *boundedReader) Read(p []byte) (int, error) {
	if b.used > b.limit+1<<16 {
		return 0, fmt.Errorf("record %w (a quote that is never closed?)", tooLong(b.limit))
	}
	n, err := b.r.Read(p)
	b.used += n
	return n, err
}
