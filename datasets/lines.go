package datasets

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"

	"hermes/datasets/scan"
)

// raw is one row before it is decoded. data is valid until the next one is read.
type raw struct {
	data  []byte // the JSON text of the row, without its line break
	file  string
	line  int64 // from 1; 0: the format has no lines
	index int64 // place in the dataset, from 0
	off   int64 // where data starts in the unpacked file
	err   error // the row cannot even be cut out
}

func (r raw) fault(err error) error {
	return &RowError{File: r.file, Line: r.line, Row: r.index, Err: err}
}

// readBuffer is what one reader of lines holds at least, in bytes.
const readBuffer = 1 << 18

// errStop ends a scan early without being an error of it.
var errStop = errors.New("stop")

// lineReader cuts a stream into lines without copying them. A line may be as long as
// max; of a longer one only its length is learnt.
type lineReader struct {
	r          io.Reader
	buf        []byte
	start, end int // buf[start:end] is read and not yet given
	off        int64
	max        int
	eof        error
}

func newLineReader(r io.Reader, max int) *lineReader {
	return &lineReader{r: r, buf: make([]byte, readBuffer), max: max}
}

// next returns a line without its break, and where it starts. long tells that the
// line exceeds max and was skipped. The error is io.EOF at the end.
func (l *lineReader) next() (line []byte, off int64, long bool, err error) {
	searched, skipped := 0, int64(0)
	off = l.off
	for {
		if i := bytes.IndexByte(l.buf[l.start+searched:l.end], '\n'); i >= 0 {
			line = l.buf[l.start : l.start+searched+i]
			l.start += searched + i + 1
			l.off += int64(len(line)) + 1
			if skipped > 0 || len(line) > l.max {
				return nil, off, true, nil
			}
			return trimCR(line), off, false, nil
		}
		searched = l.end - l.start
		if l.eof != nil {
			return l.tail(off, skipped)
		}
		if searched > l.max+1 { // too long: forget it, keep counting
			skipped += int64(searched)
			l.off += int64(searched)
			l.start = 0
			l.end = 0
			searched = 0
		}
		l.fill()
	}
}

// tail gives what follows the last line break.
func (l *lineReader) tail(off, skipped int64) ([]byte, int64, bool, error) {
	if l.eof != io.EOF {
		return nil, off, false, l.eof
	}
	line := l.buf[l.start:l.end]
	l.start, l.off = l.end, l.off+int64(len(line))
	switch {
	case skipped > 0 || len(line) > l.max:
		return nil, off, true, nil
	case len(line) == 0:
		return nil, off, false, io.EOF
	}
	return trimCR(line), off, false, nil
}

func (l *lineReader) fill() {
	if l.start > 0 {
		copy(l.buf, l.buf[l.start:l.end])
		l.start, l.end = 0, l.end-l.start
	}
	if l.end == len(l.buf) {
		l.buf = append(l.buf, make([]byte, min(len(l.buf), max(l.max+2-len(l.buf), readBuffer)))...)
	}
	for range 100 {
		n, err := l.r.Read(l.buf[l.end:])
		l.end += n
		if err != nil {
			l.eof = err
		}
		if n > 0 || err != nil {
			return
		}
	}
	l.eof = io.ErrNoProgress
}

func trimCR(line []byte) []byte {
	if n := len(line); n > 0 && line[n-1] == '\r' {
		return line[:n-1]
	}
	return line
}

// jsonLines yields the lines of a JSONL stream; blank ones are no rows.
func jsonLines(r io.Reader, limit int, yield func(raw) error) error {
	l := newLineReader(r, limit)
	for n := int64(1); ; n++ {
		line, off, long, err := l.next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return fmt.Errorf("line %d: %w", n, err)
		}
		if long {
			if err := yield(raw{line: n, off: off, err: tooLong(limit)}); err != nil {
				return err
			}
			continue
		}
		if scan.Space(line, 0) == len(line) {
			continue
		}
		if err := yield(raw{data: line, line: n, off: off}); err != nil {
			return err
		}
	}
}

func tooLong(limit int) error {
	return fmt.Errorf("longer than %d bytes (%d MiB)", limit, limit>>20)
}

// jsonValues yields the elements of one JSON array, or of values written one behind
// the other over any number of lines. Text that is no JSON ends the stream, since
// nothing says where the next row would begin.
func jsonValues(r io.Reader, limit int, yield func(raw) error) error {
	v := &valueReader{r: bufio.NewReaderSize(r, readBuffer), limit: limit, line: 1}
	c, err := v.space()
	if err == io.EOF {
		return nil
	}
	if err != nil {
		return err
	}
	list := c == '['
	if list {
		v.skip()
	}
	for n := 0; ; n++ {
		c, err := v.space()
		switch {
		case err == io.EOF && !list:
			return nil
		case err == io.EOF:
			return yield(raw{line: v.line, off: v.off, err: errors.New("the list is not closed: the file ends early")})
		case err != nil:
			return err
		case list && c == ']' && (n == 0 || !v.comma):
			v.skip()
			return v.rest(yield)
		}
		line, off := v.line, v.off
		data, err := v.value()
		if err != nil {
			if e := yield(raw{line: line, off: off, err: err}); e != nil {
				return e
			}
			return nil
		}
		if err := yield(raw{data: data, line: line, off: off}); err != nil {
			return err
		}
		if list {
			if err := v.separator(); err != nil {
				return yield(raw{line: v.line, off: v.off, err: err})
			}
		}
	}
}

// valueReader cuts JSON values out of a stream.
type valueReader struct {
	r     *bufio.Reader
	limit int
	buf   []byte
	line  int64
	off   int64
	comma bool // the last separator was a comma
}

// space skips white space and returns the byte behind it, unread.
func (v *valueReader) space() (byte, error) {
	for {
		c, err := v.r.ReadByte()
		if err != nil {
			return 0, err
		}
		if c != ' ' && c != '\t' && c != '\r' && c != '\n' {
			return c, v.r.UnreadByte()
		}
		v.off++
		if c == '\n' {
			v.line++
		}
	}
}

func (v *valueReader) skip() {
	if _, err := v.r.Discard(1); err == nil {
		v.off++
	}
}

// separator reads the comma behind an element, or sees the closing bracket.
func (v *valueReader) separator() error {
	c, err := v.space()
	switch {
	case err == io.EOF:
		v.comma = false
		return nil // the caller meets the end and says so
	case err != nil:
		return err
	case c == ',':
		v.skip()
		v.comma = true
	case c == ']':
		v.comma = false
	default:
		return fmt.Errorf("byte %d of the file: %q where a comma should stand", v.off, c)
	}
	return nil
}

// rest refuses text behind the closed list.
func (v *valueReader) rest(yield func(raw) error) error {
	c, err := v.space()
	if err == io.EOF {
		return nil
	}
	if err != nil {
		return err
	}
	return yield(raw{line: v.line, off: v.off, err: fmt.Errorf("%q behind the end of the list", c)})
}

// value reads one value: brackets are counted outside strings, the grammar is checked
// by the decoder.
func (v *valueReader) value() ([]byte, error) {
	v.buf = v.buf[:0]
	depth := 0
	inString := false
	escaped := false
	for {
		c, err := v.r.ReadByte()
		if err == io.EOF && len(v.buf) > 0 && depth == 0 && !inString {
			return v.buf, nil
		}
		if err != nil {
			if err == io.EOF {
				return nil, scan.ErrCut
			}
			return nil, err
		}
		if depth == 0 && !inString && len(v.buf) > 0 && (c == ',' || c == ']' || c <= ' ') {
			return v.buf, v.r.UnreadByte()
		}
		if len(v.buf) >= v.limit {
			return nil, tooLong(v.limit)
		}
		v.buf = append(v.buf, c)
		v.off++
		if c == '\n' {
			v.line++
		}
		switch {
		case inString && escaped:
			escaped = false
		case inString && c == '\\':
			escaped = true
		case c == '"':
			inString = !inString
			if !inString && depth == 0 {
				return v.buf, nil
			}
		case inString:
		case c == '{' || c == '[':
			depth++
		case c == '}' || c == ']':
			depth--
			if depth <= 0 {
				return v.buf, nil
			}
		}
	}
}

// indexBreak returns the first carriage return or line feed of b, or -1.
func indexBreak(b []byte) int {
	i := bytes.IndexByte(b, '\n')
	if j := bytes.IndexByte(b, '\r'); j >= 0 && (i < 0 || j < i) {
		return j
	}
	return i
}
