package wire

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"
)

// Events yields the data of each server-sent event of r: several data lines of one event
// are joined by line feeds, comments and other fields are left out, "[DONE]" ends it.
// A slice is valid until the next one. An end in the middle of a line is an error.
func Events(r io.Reader, limit int) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		br := bufio.NewReaderSize(r, 16<<10)
		var data, line []byte
		have := false
		for {
			piece, err := br.ReadSlice('\n')
			line = append(line, piece...)
			if len(line)+len(data) > limit {
				yield(nil, fmt.Errorf("an event of the stream is longer than %d bytes", limit))
				return
			}
			if errors.Is(err, bufio.ErrBufferFull) {
				continue
			}
			if err != nil {
				if len(line) > 0 && err == io.EOF {
					err = io.ErrUnexpectedEOF
				}
				if have && !yield(data, nil) {
					return
				}
				if err != io.EOF {
					yield(nil, err)
				}
				return
			}
			text := bytes.TrimRight(line, "\r\n")
			switch {
			case len(text) == 0:
				if have && (bytes.Equal(data, []byte("[DONE]")) || !yield(data, nil)) {
					return
				}
				data, have = data[:0], false
			case bytes.HasPrefix(text, []byte("data:")):
				if have {
					data = append(data, '\n')
				}
				data, have = append(data, bytes.TrimPrefix(text[5:], []byte(" "))...), true
			}
			line = line[:0]
		}
	}
}
