package wire

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"
)

// mark may stand once at the beginning of a stream.
const mark = "\ufeff"

// Events yields the data of each server-sent event of r: several data lines of one event
// are joined by line feeds; comments, other fields and events without data are left out;
// "[DONE]" ends it. Lines end with LF, CR or both. A JSON object on a line by itself, as
// some servers write errors, is an event; any other line that is no field is an error,
// because what stands in it would be lost. So is an end in the middle of a line. A slice
// is valid until the next one.
func Events(r io.Reader, limit int) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		l := lines{r: bufio.NewReaderSize(r, 16<<10)}
		var data []byte
		have := false
		give := func() bool { // false: nothing more is wanted, or comes
			ok := !have || len(data) == 0 || !bytes.Equal(data, []byte("[DONE]")) && yield(data, nil)
			data, have = data[:0], false
			return ok
		}
		for {
			text, err := l.next(limit - len(data))
			if err == io.ErrUnexpectedEOF && bytes.Equal(text, []byte("data: [DONE]")) {
				text, err = nil, nil // the end mark needs no end of its own
				data, have = append(data[:0], "[DONE]"...), true
			}
			if errors.Is(err, errTooLong) {
				err = &Error{Kind: Malformed, Err: fmt.Errorf("an event of the stream is longer than %d bytes", limit)}
			}
			if err != nil {
				if give() && err != io.EOF {
					yield(nil, err)
				}
				return
			}
			value, ok := bytes.CutPrefix(text, []byte("data:"))
			switch {
			case len(text) == 0:
				if !give() {
					return
				}
			case ok || string(text) == "data":
				if have {
					data = append(data, '\n')
				}
				if ok {
					data = append(data, bytes.TrimPrefix(value, []byte(" "))...)
				}
				have = true
			case text[0] == '{':
				if !give() || !yield(text, nil) {
					return
				}
			case !fieldLine(text):
				yield(nil, &Error{Kind: Malformed, Err: fmt.Errorf("the stream holds a line that is no field of an event: %.200q", text)})
				return
			}
		}
	}
}

// fieldLine reports whether a line is a comment or a field: a name, and most often a value.
func fieldLine(line []byte) bool {
	name, _, _ := bytes.Cut(line, []byte(":"))
	for _, c := range name {
		if !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '-' || c == '_') {
			return false
		}
	}
	return len(name) <= 40
}

var errTooLong = errors.New("too long")

// lines cuts a stream into lines.
type lines struct {
	r     *bufio.Reader
	line  []byte
	begun bool
	cr    bool // the last line ended with CR: a LF that follows belongs to it
}

// next is the next line without its end. The text of a line that has none comes with
// io.ErrUnexpectedEOF. It is valid until the next one.
func (l *lines) next(limit int) ([]byte, error) {
	l.line = l.line[:0]
	for {
		piece, err := l.r.Peek(1) // waits for what comes, but for no more
		if err != nil {
			if len(l.line) > 0 && err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
			return l.line, err
		}
		if !l.begun {
			l.begun = true
			if piece[0] == mark[0] {
				if b, err := l.r.Peek(len(mark)); err == nil && string(b) == mark {
					_, _ = l.r.Discard(len(mark)) // it is there
					continue
				}
			}
		}
		piece, _ = l.r.Peek(l.r.Buffered()) // no more than there is
		if l.cr {
			l.cr = false
			if piece[0] == '\n' {
				_, _ = l.r.Discard(1) // likewise
				continue
			}
		}
		end := bytes.IndexAny(piece, "\r\n")
		n := end
		if end < 0 {
			n = len(piece)
		}
		if len(l.line)+n > limit {
			return nil, errTooLong
		}
		l.line = append(l.line, piece[:n]...)
		if end < 0 {
			_, _ = l.r.Discard(n)
			continue
		}
		l.cr = piece[end] == '\r'
		_, _ = l.r.Discard(end + 1)
		return l.line, nil
	}
}
