package tokenizer

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"hermes/internal/lines"
	"hermes/trajectory"
)

type lineIn struct {
	ID      json.RawMessage     `json:"id"`
	Text    *string             `json:"text"`
	IDs     *[]trajectory.Token `json:"ids"`
	Special *bool               `json:"special"`
	Add     bool                `json:"add"`
}

type lineOut struct {
	ID   json.RawMessage    `json:"id"`
	IDs  []trajectory.Token `json:"ids,omitzero"`
	Text *string            `json:"text,omitempty"`
}

// ServeLines answers one JSON object a line with one JSON object a line, in order: text
// with ids, ids with text. special (default false: the spelling of a special token is
// text) and add (default false) are those of [Options]; for ids, special false leaves
// special tokens out of the text. A bad line is answered with an error and the next goes
// on. The error is the reader's or writer's.
func ServeLines(t Tokenizer, in io.Reader, out io.Writer) error {
	return lines.Answer(in, out, lines.Most, func(line []byte) any { return answerLine(t, line) })
}

func answerLine(t Tokenizer, line []byte) any {
	var in lineIn
	fail := func(err error) any { return lines.Refuse(line, err) }
	if err := json.Unmarshal(line, &in); err != nil {
		return fail(fmt.Errorf("read line: %w", err))
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
