package tokenizer

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"hermes/trajectory"
)

const maxLine = 64 << 20 // bytes of a line

type lineIn struct {
	ID      json.RawMessage     `json:"id"`
	Text    *string             `json:"text"`
	IDs     *[]trajectory.Token `json:"ids"`
	Special *bool               `json:"special"`
	Add     bool                `json:"add"`
}

type lineOut struct {
	ID    json.RawMessage    `json:"id"`
	IDs   []trajectory.Token `json:"ids,omitzero"`
	Text  *string            `json:"text,omitempty"`
	Error string             `json:"error,omitempty"`
}

// ServeLines answers one JSON object a line with one JSON object a line, in order: text
// with ids, ids with text. special (default false: the spelling of a special token is
// text) and add (default false) are those of [Options]; for ids, special false leaves
// special tokens out of the text. A bad line is answered with an error and the next goes
// on. The error is the reader's or writer's.
func ServeLines(t Tokenizer, in io.Reader, out io.Writer) error {
	r := bufio.NewReaderSize(in, 1<<16)
	w := bufio.NewWriter(out)
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	for {
		line, long, err := readLine(r)
		if len(bytes.TrimSpace(line)) > 0 || long {
			answer := lineOut{ID: json.RawMessage("null"), Error: fmt.Sprintf("line longer than %d bytes", maxLine)}
			if !long {
				answer = answerLine(t, line)
			}
			if err := enc.Encode(answer); err != nil {
				return fmt.Errorf("write answer: %w", err)
			}
		}
		if r.Buffered() == 0 || err != nil {
			if err := w.Flush(); err != nil {
				return fmt.Errorf("write answer: %w", err)
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read line: %w", err)
		}
	}
}

// readLine reads to the end of the line; of one that is too long nothing is kept.
func readLine(r *bufio.Reader) (line []byte, long bool, err error) {
	for {
		part, err := r.ReadSlice('\n')
		if !long {
			line = append(line, part...)
		}
		if len(line) > maxLine {
			line, long = nil, true
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, long, err
		}
	}
}

func answerLine(t Tokenizer, line []byte) lineOut {
	var in lineIn
	fail := func(err error) lineOut {
		if !json.Valid(in.ID) {
			in.ID = json.RawMessage("null")
		}
		return lineOut{ID: in.ID, Error: err.Error()}
	}
	if err := json.Unmarshal(line, &in); err != nil {
		return fail(fmt.Errorf("read line: %w", err))
	}
	if in.ID == nil {
		in.ID = json.RawMessage("null")
	}
	switch {
	case (in.Text == nil) == (in.IDs == nil):
		return fail(errors.New("line needs exactly one of text and ids"))
	case in.Text != nil:
		ids, err := t.Encode(*in.Text, Options{Special: in.Special != nil && *in.Special, Add: in.Add})
		if err != nil {
			return fail(err)
		}
		if ids == nil {
			ids = []trajectory.Token{}
		}
		return lineOut{ID: in.ID, IDs: ids}
	}
	text, err := decodeLine(t, *in.IDs, in.Special != nil && !*in.Special)
	if err != nil {
		return fail(err)
	}
	return lineOut{ID: in.ID, Text: &text}
}

func decodeLine(t Tokenizer, ids []trajectory.Token, skip bool) (string, error) {
	if !skip {
		return t.Decode(ids)
	}
	special := map[trajectory.Token]bool{}
	for _, s := range t.Specials() {
		special[s.ID] = s.Special
	}
	kept := make([]trajectory.Token, 0, len(ids))
	for _, id := range ids {
		if !special[id] {
			kept = append(kept, id)
		}
	}
	return t.Decode(kept)
}
