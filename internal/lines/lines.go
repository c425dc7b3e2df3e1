// Package lines is the protocol of the commands that answer one JSON object a line with one
// JSON object a line. It holds no state and imports nothing of ours.
package lines

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// Most bounds a line, in bytes, unless a caller wants less.
const Most = 64 << 20

// Refusal answers a line that cannot be served.
type Refusal struct {
	ID    json.RawMessage `json:"id"`
	Error string          `json:"error"`
}

// Refuse answers a line with an error, and with its id if at least that can be read.
func Refuse(line []byte, err error) Refusal {
	var only struct {
		ID json.RawMessage `json:"id"`
	}
	_ = json.Unmarshal(line, &only)
	return Refusal{only.ID, err.Error()}
}

// Answer writes what reply returns for each line of in as one line of JSON to out, in order.
// Blank lines are passed over. A line of more than most bytes is dropped and refused. Answers
// are flushed when no further line waits. The error is one of reading or writing.
func Answer(in io.Reader, out io.Writer, most int, reply func(line []byte) any) error {
	r := bufio.NewReaderSize(in, 1<<16)
	w := bufio.NewWriter(out)
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	for n := 1; ; n++ {
		line, long, err := read(r, most)
		var answer any
		switch text := bytes.TrimSpace(line); {
		case long:
			answer = Refusal{Error: fmt.Sprintf("the line is longer than %d bytes", most)}
		case len(text) > 0:
			answer = reply(text)
		}
		if answer != nil {
			if err := enc.Encode(answer); err != nil {
				return fmt.Errorf("write answer %d: %w", n, err)
			}
		}
		if err != nil || r.Buffered() == 0 {
			if err := w.Flush(); err != nil {
				return fmt.Errorf("write answer %d: %w", n, err)
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read line %d: %w", n, err)
		}
	}
}

// read reads to the end of the line; of one that is too long nothing is kept.
func read(r *bufio.Reader, most int) (line []byte, long bool, err error) {
	for {
		part, err := r.ReadSlice('\n')
		if !long {
			line = append(line, part...)
		}
		if len(line) > most {
			line, long = nil, true
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, long, err
		}
	}
}
