package parsers

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"hermes/internal/lines"
	"hermes/trajectory"
)

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

// Lines reads one request a line from in and writes one answer a line to out, in
// order. A line that cannot be read is answered with an error and the next goes on;
// only an error of in or out ends it. d is the dialect of all requests.
func Lines(in io.Reader, out io.Writer, set *Set, d Dialect) error {
	return lines.Answer(in, out, lines.Most, func(line []byte) any { return reply(line, set, d) })
}

func reply(line []byte, set *Set, d Dialect) any {
	var q request
	if err := json.Unmarshal(line, &q); err != nil {
		return lines.Refuse(line, fmt.Errorf("request: %w", err))
	}
	if q.Text == nil && q.Chunks == nil {
		return lines.Refusal{ID: q.ID, Error: "request: text or chunks is missing"}
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
			return lines.Refusal{ID: q.ID, Error: err.Error()}
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
