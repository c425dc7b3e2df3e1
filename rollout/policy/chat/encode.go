package chat

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"

	"hermes/trajectory"
)

// How a server wants the model's earlier reasoning back.
const (
	replayNone = ""        // not at all
	replayTags = "<think>" // in the content; any other value is the name of a field
)

// encoder writes messages as a server of one kind reads them.
type encoder struct {
	reasoning string // a replay… constant or a field
	blob      func(hash string) ([]byte, error)
	mended    bool            // arguments that are no JSON were wrapped
	blind     bool            // images are replaced by a note
	unseen    int             // images that were
	marker    json.RawMessage // cache_control of the first system message; nil: none
}

func (e *encoder) message(b []byte, m *trajectory.Message) ([]byte, error) {
	b = append(append(b, `{"role":"`...), m.Role...)
	b = append(b, `","content":`...)
	b, err := e.content(b, m)
	if err != nil {
		return nil, err
	}
	if m.Role == trajectory.Tool {
		b = trajectory.AppendQuoted(append(b, `,"tool_call_id":`...), m.CallID)
	}
	opaque, err := readOpaque(m.Opaque)
	if err != nil {
		return nil, err
	}
	switch {
	case len(opaque.Details) > 0:
		b = append(append(b, `,"reasoning_details":`...), opaque.Details...)
	case m.Reasoning != "" && e.reasoning != replayNone && e.reasoning != replayTags:
		b = append(append(b, ',', '"'), e.reasoning...)
		b = trajectory.AppendQuoted(append(b, '"', ':'), m.Reasoning)
	}
	if len(m.Calls) > 0 {
		b = e.calls(append(b, `,"tool_calls":[`...), m.Calls, opaque.Calls)
		b = append(b, ']')
	}
	return append(b, '}'), nil
}

func (e *encoder) calls(b []byte, calls []trajectory.Call, extra []json.RawMessage) []byte {
	for i, c := range calls {
		if i > 0 {
			b = append(b, ',')
		}
		b = trajectory.AppendQuoted(append(b, `{"id":`...), c.ID)
		b = trajectory.AppendQuoted(append(b, `,"type":"function","function":{"name":`...), c.Name)
		b = trajectory.AppendQuoted(append(b, `,"arguments":`...), e.arguments(c.Arguments))
		b = append(b, '}')
		if i < len(extra) && len(extra[i]) > 4 { // {"name": …}: its members are beside the function
			b = append(append(b, ','), strings.TrimSpace(string(extra[i][1:len(extra[i])-1]))...)
		}
		b = append(b, '}')
	}
	return b
}

// arguments makes what a model wrote readable for servers that parse it again: they
// answer 400 to a history whose arguments are no JSON object.
func (e *encoder) arguments(s string) string {
	t := strings.TrimSpace(s)
	switch {
	case t == "":
		return "{}"
	case t[0] == '{' && json.Valid([]byte(t)):
		return s
	}
	e.mended = true
	return string(append(trajectory.AppendQuoted([]byte(`{"unreadable_arguments":`), s), '}'))
}

func (e *encoder) content(b []byte, m *trajectory.Message) ([]byte, error) {
	text := true
	for _, p := range m.Parts {
		text = text && p.Kind == trajectory.PartText
	}
	if text && m.Role == trajectory.System && e.marker != nil && m.Content() != "" {
		b = trajectory.AppendQuoted(append(b, `[{"type":"text","text":`...), m.Content())
		b = append(append(b, `,"cache_control":`...), e.marker...)
		e.marker = nil // the first one only: four are the most that servers take
		return append(b, "}]"...), nil
	}
	if text {
		s := m.Content()
		if e.reasoning == replayTags && m.Reasoning != "" && m.Role == trajectory.Assistant && len(m.Opaque) == 0 {
			s = "<think>" + m.Reasoning + "</think>" + s
		}
		return trajectory.AppendQuoted(b, s), nil
	}
	b = append(b, '[')
	for i, p := range m.Parts {
		if i > 0 {
			b = append(b, ',')
		}
		var err error
		b, err = e.part(b, p)
		if err != nil {
			return nil, fmt.Errorf("part %d of a %s message: %w", i, m.Role, err)
		}
	}
	return append(b, ']'), nil
}

// unseenImage is where a model that sees no images would get one: most servers would
// refuse the whole request.
const unseenImage = "[An image stood here. This model cannot see images.]"

func (e *encoder) part(b []byte, p trajectory.Part) ([]byte, error) {
	if p.Kind == trajectory.PartText {
		return append(trajectory.AppendQuoted(append(b, `{"type":"text","text":`...), p.Text), '}'), nil
	}
	if p.Kind == trajectory.PartImage && e.blind {
		e.unseen++
		return append(trajectory.AppendQuoted(append(b, `{"type":"text","text":`...), unseenImage), '}'), nil
	}
	url := p.URL
	if url == "" {
		if e.blob == nil {
			return nil, fmt.Errorf("%s %s: blobs cannot be read here", p.Kind, p.Blob)
		}
		raw, err := e.blob(p.Blob)
		if err != nil {
			return nil, fmt.Errorf("%s %s: %w", p.Kind, p.Blob, err)
		}
		url = "data:" + p.MediaType + ";base64," + base64.StdEncoding.EncodeToString(raw)
	}
	switch p.Kind {
	case trajectory.PartImage:
		b = trajectory.AppendQuoted(append(b, `{"type":"image_url","image_url":{"url":`...), url)
	case trajectory.PartAudio:
		_, data, ok := strings.Cut(url, ";base64,")
		if !ok {
			return nil, fmt.Errorf("audio %q: want a data URL or a blob", url)
		}
		_, format, _ := strings.Cut(p.MediaType, "/")
		b = trajectory.AppendQuoted(append(b, `{"type":"input_audio","input_audio":{"data":`...), data)
		b = trajectory.AppendQuoted(append(b, `,"format":`...), format)
	default:
		return nil, fmt.Errorf("a part of kind %q", p.Kind)
	}
	return append(b, '}', '}'), nil
}

// opaque is what Message.Opaque holds: state that the provider wants back unchanged.
type opaque struct {
	Details json.RawMessage   `json:"reasoning_details,omitempty"`
	Calls   []json.RawMessage `json:"calls,omitempty"` // members beside the function of each call
}

// readOpaque reads it; a bare list, as in foreign transcripts, is reasoning_details.
func readOpaque(raw json.RawMessage) (o opaque, err error) {
	switch {
	case len(raw) == 0:
	case raw[0] == '[':
		o.Details = raw
	default:
		if err = json.Unmarshal(raw, &o); err != nil {
			err = fmt.Errorf("provider state of a message: %w", err)
		}
	}
	return o, err
}
