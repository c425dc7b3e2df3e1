package chattemplate

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"hermes/internal/jinja"
	"hermes/internal/lines"
)

// LineOptions are what [RenderLines] needs from outside. All fields are optional.
type LineOptions struct {
	ReadFile func(path string) ([]byte, error) // for template_file; nil refuses it
	Now      func() time.Time                  // for lines without "now"; nil makes strftime_now fail
	MaxLine  int                               // bytes of one line; 0 means 64 MiB
}

// request is one line of the protocol.
type request struct {
	ID         json.RawMessage `json:"id"`
	Template   *string         `json:"template"`
	File       string          `json:"template_file"`
	Messages   json.RawMessage `json:"messages"`
	Tools      json.RawMessage `json:"tools"`
	Generation bool            `json:"add_generation_prompt"`
	BOS        *string         `json:"bos_token"`
	EOS        *string         `json:"eos_token"`
	Now        *time.Time      `json:"now"`
	Variables  json.RawMessage `json:"variables"`
}

type answer struct {
	ID    json.RawMessage `json:"id"`
	Text  *string         `json:"text,omitempty"`
	Spans [][2]int        `json:"spans,omitempty"`
	Error string          `json:"error,omitempty"`
	Class jinja.Class     `json:"class,omitempty"`
}

// maxCached bounds the templates that stay parsed.
const maxCached = 64

// liner renders lines; it remembers parsed templates by their source.
type liner struct {
	LineOptions
	cache map[string]*jinja.Template
}

// RenderLines reads one JSON object a line and answers each with one line, in
// order, the id copied. A line that cannot be rendered is answered with an error
// and the next one goes on. The error returned is one of reading or writing.
func RenderLines(in io.Reader, out io.Writer, o LineOptions) error {
	o.MaxLine = cmp.Or(o.MaxLine, lines.Most)
	l := &liner{o, map[string]*jinja.Template{}}
	return lines.Answer(in, out, o.MaxLine, func(line []byte) any { return l.answer(line) })
}

func (l *liner) answer(line []byte) any {
	var req request
	if err := json.Unmarshal(line, &req); err != nil {
		return lines.Refuse(line, fmt.Errorf("read the line: %w", err))
	}
	text, err := l.render(req)
	if err == nil {
		return answer{ID: req.ID, Text: &text.Text, Spans: text.Spans}
	}
	a := answer{ID: req.ID, Error: err.Error()}
	var e *jinja.Error
	if errors.As(err, &e) {
		a.Class = e.Class
	}
	return a
}

func (l *liner) render(req request) (jinja.Output, error) {
	tmpl, err := l.template(req)
	if err != nil {
		return jinja.Output{}, err
	}
	vars, err := req.vars()
	if err != nil {
		return jinja.Output{}, err
	}
	var o jinja.RenderOptions
	switch {
	case req.Now != nil:
		o.Now = *req.Now
	case l.Now != nil:
		o.Now = l.Now()
	}
	return tmpl.Render(vars, o)
}

func (l *liner) template(req request) (*jinja.Template, error) {
	source, err := l.source(req)
	if err != nil {
		return nil, err
	}
	if t := l.cache[source]; t != nil {
		return t, nil
	}
	t, err := jinja.Parse(source, jinja.Options{})
	if err != nil {
		return nil, err
	}
	if len(l.cache) >= maxCached {
		clear(l.cache)
	}
	l.cache[source] = t
	return t, nil
}

func (l *liner) source(req request) (string, error) {
	switch {
	case req.Template != nil && req.File != "":
		return "", errors.New("template and template_file are both given")
	case req.Template != nil:
		return *req.Template, nil
	case req.File == "":
		return "", errors.New("neither template nor template_file is given")
	case l.ReadFile == nil:
		return "", errors.New("template_file is not allowed here")
	}
	raw, err := l.ReadFile(req.File)
	if err != nil {
		return "", fmt.Errorf("template_file: %w", err)
	}
	return string(raw), nil
}

// vars are the template variables: tools and documents are there even when
// absent (None), tokens only when given, and variables win over all.
func (r request) vars() (*jinja.Dict, error) {
	vars := jinja.NewDict()
	messages, err := decode("messages", r.Messages)
	if err != nil {
		return nil, err
	}
	if messages == nil {
		return nil, errors.New("messages are missing")
	}
	tools, err := decode("tools", r.Tools)
	if err != nil {
		return nil, err
	}
	vars.Set("messages", messages).Set("tools", tools).Set("documents", nil).Set("add_generation_prompt", r.Generation)
	if r.BOS != nil {
		vars.Set("bos_token", *r.BOS)
	}
	if r.EOS != nil {
		vars.Set("eos_token", *r.EOS)
	}
	more, err := decode("variables", r.Variables)
	if err != nil {
		return nil, err
	}
	switch more := more.(type) {
	case nil:
	case *jinja.Dict:
		more.Each(func(k, v any) bool {
			vars.Set(k.(string), v)
			return true
		})
	default:
		return nil, errors.New("variables: not an object")
	}
	return vars, nil
}

func decode(what string, raw json.RawMessage) (any, error) {
	if len(raw) == 0 {
		return nil, nil
	}
	v, err := jinja.Decode(raw)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	return v, nil
}
