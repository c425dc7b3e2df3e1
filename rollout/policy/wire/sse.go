package wire

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"slices"
	"strings"
	"time"
)

// mark may be in front of a line: at the beginning of a stream by the standard, and
// where a proxy joined streams.
const mark = "\ufeff"

// done is the data of the event that ends a stream.
const done = "[DONE]"

// Events yields the data of each server-sent event of r: several data lines of one event
// are joined by line feeds; comments, other fields and events without data are left out;
// "[DONE]" ends it. Lines end with LF, CR or both. A slice is valid until the next one.
//
// It goes beyond the standard where an answer would be lost otherwise. The case of "data"
// does not count. Data that is a JSON object, with another behind it, is an event though no
// empty line ends it. So is a JSON object on a line by itself, as some servers write errors.
// What a server says to keep the line open is left out. An event of the type "error" is one,
// unless it holds a piece of an answer. A line that ends with the stream is
// one where it is complete by itself. Any other line that is no field is an error, because
// its content would be lost; so are an answer in a field that is not data, and an end
// in the middle of a line.
func Events(r io.Reader, limit int) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		l := lines{r: bufio.NewReaderSize(r, 4<<10)}
		var e event
		give := func() bool { // false: nothing more is wanted, or comes
			ok := true
			switch {
			case len(e.data) == 0 || e.idle():
			case e.failed && !bytes.Contains(e.data, []byte(`"choices"`)) && !isDone(e.data):
				ok = false
				yield(nil, Classify(http.StatusOK, nil, e.data, time.Time{}))
			default:
				ok = !isDone(e.data) && yield(e.data, nil)
			}
			e = event{data: e.data[:0]}
			return ok
		}
		for {
			text, err := l.next(limit - len(e.data))
			if err == io.ErrUnexpectedEOF && e.last(text, l.ended) {
				err = nil
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
			if len(text) == 0 {
				if !give() {
					return
				}
				continue
			}
			name, value, colon := bytes.Cut(text, []byte(":"))
			value = bytes.TrimPrefix(value, []byte(" "))
			switch {
			case isData(name):
				if e.ends(value) && !give() {
					return
				}
				e.add(value)
			case text[0] == '{':
				if !give() || !yield(text, nil) {
					return
				}
			case !fieldName(name):
				yield(nil, &Error{Kind: Malformed, Err: fmt.Errorf("the stream holds a line that is no field of an event: %.200q", text)})
				return
			case colon && len(name) > 0 && answers(value):
				yield(nil, &Error{Kind: Malformed, Err: fmt.Errorf("the stream holds a piece of an answer in a field that is not data: %.200q", text)})
				return
			case string(name) == "event":
				e.silent, e.failed = keepsOpen(value), string(bytes.TrimSpace(value)) == "error"
			}
		}
	}
}

// event is one whose lines are still coming.
type event struct {
	data   []byte
	have   bool // a data line came
	silent bool // its type says that it keeps the line open
	failed bool // its type says that it is an error
}

func (e *event) add(value []byte) {
	if e.have {
		e.data = append(e.data, '\n')
	}
	e.data, e.have = append(e.data, value...), true
}

// ends reports whether the data is a whole event before the data line value, for
// which no JSON text has a place behind it.
func (e *event) ends(value []byte) bool {
	if len(e.data) == 0 || len(value) == 0 || value[0] != '{' && !isDone(value) {
		return false
	}
	return e.idle() || object(e.data)
}

// idle reports whether the event only keeps the line open.
func (e *event) idle() bool {
	return len(e.data) > 0 && (e.silent || keepsOpen(e.data)) && bytes.IndexByte(e.data, '{') < 0 && !isDone(e.data) && !json.Valid(e.data)
}

// last reports whether the line with which the stream ends, without its own end, is
// complete: the end mark, an object, the rest of one, or nothing that says anything. ended:
// the stream was not broken off.
func (e *event) last(text []byte, ended bool) bool {
	name, value, colon := bytes.Cut(text, []byte(":"))
	value = bytes.TrimPrefix(value, []byte(" "))
	switch {
	case isData(name) && colon && isDone(value):
		return true
	case !ended:
		return false
	case isData(name):
		return len(value) == 0 || keepsOpen(value) || object(value) || e.have && object(slices.Concat(e.data, []byte{'\n'}, value))
	case text[0] == '{':
		return object(text)
	}
	return colon && (len(name) == 0 || string(name) == "event" || string(name) == "id" || string(name) == "retry")
}

// object reports whether text is a JSON object.
func object(text []byte) bool {
	text = bytes.TrimSpace(text)
	return len(text) > 1 && text[0] == '{' && text[len(text)-1] == '}' && json.Valid(text)
}

// answers reports whether the value of a field is a piece of an answer.
func answers(value []byte) bool {
	value = bytes.TrimSpace(value)
	return len(value) > 0 && value[0] == '{' && bytes.Contains(value, []byte(`"choices"`))
}

// keepsOpen reports whether a word says that nothing is sent but that the line stays open.
func keepsOpen(word []byte) bool {
	word = bytes.TrimSpace(word)
	if len(word) > 16 {
		return false
	}
	switch strings.ToLower(string(word)) {
	case "ping", "keep-alive", "keepalive", "keep_alive", "heartbeat":
		return true
	}
	return false
}

// isDone reports whether data is the end mark, which some servers quote or set apart.
func isDone(data []byte) bool {
	if len(data) > 16 {
		return false
	}
	return string(bytes.Trim(data, " \t\"")) == done
}

func isData(name []byte) bool { return string(name) == "data" || bytes.EqualFold(name, []byte("data")) }

// fieldName reports whether a line with such a beginning is a field, or a comment.
func fieldName(name []byte) bool {
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
	ended bool // the stream came to its end, in the middle of a line
	cr    bool // the last line ended with CR: a LF that follows belongs to it
}

// next is the next line without its end. The text of a line that has none comes with
// io.ErrUnexpectedEOF. It is valid until the next one.
func (l *lines) next(limit int) ([]byte, error) {
	l.line = l.line[:0]
	for {
		if _, err := l.r.Peek(1); err != nil { // waits for what comes, but for no more
			text := bytes.TrimPrefix(l.line, []byte(mark))
			if len(text) > 0 && err == io.EOF {
				l.ended, err = true, io.ErrUnexpectedEOF
			}
			return text, err
		}
		piece, _ := l.r.Peek(l.r.Buffered()) // no more than there is
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
		return bytes.TrimPrefix(l.line, []byte(mark)), nil
	}
}
