package parsers

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"hermes/trajectory"
)

// maxLine bounds one request of [Lines], in bytes.
const maxLine = 64 << 20

// request is one line of the protocol.
type request struct {
	ID      json.RawMessage `json:"id"`
	Family  string          `json:"family"`
	Text    *string         `json:"text"`
	Chunks  []string        `json:"chunks"`
	Tools   []lineTool      `json:"tools"`
	Inside  bool            `json:"starts_in_reasoning"`
	Cut     bool            `json:"cut"`
	Options lineOptions     `json:"options"`
}

// lineTool is a tool with or without OpenAI's wrapper.
type lineTool struct {
	trajectory.ToolSpec
	Function *trajectory.ToolSpec `json:"function"`
}

type lineOptions struct {
	Inside    *bool                      `json:"starts_in_reasoning"`
	Thinking  *bool                      `json:"thinking_enabled"`
	Choice    json.RawMessage            `json:"tool_choice"`
	Template  map[string]json.RawMessage `json:"chat_template_kwargs"`
	MistralV1 *bool                      `json:"mistral_pre_v11"`
	Encoding  string                     `json:"mistral_reasoning_encoding"`
	Prompt    string                     `json:"prompt"`
	Tail      string                     `json:"prompt_tail"`
	Fill      bool                       `json:"force_nonempty_content"`
	Response  json.RawMessage            `json:"response_template"`
}

type answer struct {
	ID        json.RawMessage `json:"id"`
	Family    string          `json:"family,omitempty"` // that auto found
	Content   *string         `json:"content"`
	Reasoning *string         `json:"reasoning"`
	Calls     []Call          `json:"calls"`
	Faults    []Fault         `json:"faults"`
}

type lineError struct {
	ID    json.RawMessage `json:"id"`
	Error string          `json:"error"`
}

// Lines reads one request a line from in and writes one answer a line to out, in
// order. A line that cannot be read is answered with an error and the next goes on;
// only an error of in or out ends it. d is the dialect of all requests.
func Lines(in io.Reader, out io.Writer, set *Set, d Dialect) error {
	r := bufio.NewReaderSize(in, 1<<16)
	w := bufio.NewWriter(out)
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	for n := 1; ; n++ {
		line, err := readLine(r)
		if text := bytes.TrimSpace(line); len(text) > 0 {
			if err := enc.Encode(reply(text, set, d)); err != nil {
				return fmt.Errorf("write answer %d: %w", n, err)
			}
		}
		if err != nil || r.Buffered() == 0 {
			if ferr := w.Flush(); ferr != nil {
				return fmt.Errorf("write answer %d: %w", n, ferr)
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

func readLine(r *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		part, err := r.ReadSlice('\n')
		line = append(line, part...)
		if len(line) > maxLine {
			return nil, fmt.Errorf("line of more than %d bytes", maxLine)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, err
		}
	}
}

func reply(line []byte, set *Set, d Dialect) any {
	var q request
	if err := json.Unmarshal(line, &q); err != nil {
		var only struct {
			ID json.RawMessage `json:"id"`
		}
		_ = json.Unmarshal(line, &only) // the id is copied if it can be read at all
		return lineError{orNull(only.ID), "request: " + err.Error()}
	}
	q.ID = orNull(q.ID)
	if q.Text == nil && q.Chunks == nil {
		return lineError{q.ID, "request: text or chunks is missing"}
	}
	chunks := q.Chunks
	if chunks == nil {
		chunks = []string{*q.Text}
	}
	name, p := "", Parsed{}
	if q.Family == "auto" {
		name, p, _, _ = set.Look(q.Family, strings.Join(chunks, ""), q.options(d)) // no name can be unknown
	} else {
		f, err := q.family(set)
		if err != nil {
			return lineError{q.ID, err.Error()}
		}
		s := f.New(q.options(d))
		for _, c := range chunks {
			s.Feed(c, nil)
		}
		p = s.Finish(q.Cut)
	}
	a := answer{ID: q.ID, Family: name, Content: orNil(p.Content), Reasoning: orNil(p.Reasoning), Calls: p.Calls, Faults: p.Faults}
	if a.Calls == nil {
		a.Calls = []Call{}
	}
	if a.Faults == nil {
		a.Faults = []Fault{}
	}
	return a
}

// family is the family of that name, or that of the response template which the options hold.
func (q request) family(set *Set) (Family, error) {
	if len(q.Options.Response) > 0 && slices.Contains([]string{"", "response_template", "hf"}, q.Family) {
		return FromResponseTemplate(q.Options.Response)
	}
	if q.Family == "" {
		return Family{}, errors.New("request: family is missing: one of hermes model parse --list, or auto")
	}
	return set.Get(q.Family)
}

func orNull(id json.RawMessage) json.RawMessage {
	if len(id) == 0 {
		return json.RawMessage("null")
	}
	return id
}

func orNil(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// options turns the request's switches into parse options.
func (q request) options(d Dialect) ParseOptions {
	o := ParseOptions{Dialect: d, InReasoning: q.Inside}
	for _, t := range q.Tools {
		if t.Function != nil {
			o.Tools = append(o.Tools, *t.Function)
		} else {
			o.Tools = append(o.Tools, t.ToolSpec)
		}
	}
	x := q.Options
	if x.Inside != nil {
		o.InReasoning = *x.Inside
	}
	if prompt := x.Prompt + x.Tail; x.Inside == nil && !q.Inside {
		o.InReasoning = strings.LastIndex(prompt, plainThink.open) > strings.LastIndex(prompt, plainThink.close)
	}
	v := &o.Variant
	v.Thinking = x.Thinking
	for _, key := range []string{"thinking", "enable_thinking"} {
		var on bool
		if raw, ok := x.Template[key]; ok && json.Unmarshal(raw, &on) == nil {
			v.Thinking = &on
		}
	}
	if raw, ok := x.Template["force_nonempty_content"]; ok {
		v.FillContent = string(raw) == "true"
	}
	v.FillContent = v.FillContent || x.Fill
	var choice string
	if json.Unmarshal(x.Choice, &choice) == nil && !strings.HasPrefix(choice, "<") {
		v.ToolChoice = choice
	}
	if x.MistralV1 != nil {
		v.MistralNew = !*x.MistralV1
	}
	v.PlainThink = x.Encoding == "text"
	return o
}
