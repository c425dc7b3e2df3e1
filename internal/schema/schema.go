// Package schema checks JSON against JSON Schema, and finds the objects in a text that fit.
//
// A schema refers to itself alone: a $ref to a file or an address is refused. The values
// hold no state and are safe for concurrent use.
package schema

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Schema is a compiled JSON Schema.
type Schema struct{ s *jsonschema.Schema }

// nowhere refuses to load: a schema refers to itself alone, never to files or the network.
type nowhere struct{}

func (nowhere) Load(url string) (any, error) {
	return nil, fmt.Errorf("$ref %s: a schema may refer only to itself", url)
}

// Compile reads a schema.
func Compile(raw []byte) (*Schema, error) {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return nil, fmt.Errorf("schema: %w", err)
	}
	c := jsonschema.NewCompiler()
	c.UseLoader(nowhere{})
	if err := c.AddResource("schema.json", doc); err != nil {
		return nil, fmt.Errorf("schema: %w", err)
	}
	s, err := c.Compile("schema.json")
	if err != nil {
		return nil, fmt.Errorf("schema: %w", err)
	}
	return &Schema{s}, nil
}

// Check says in one line why a value does not fit; nil: it does. Numbers in v are
// json.Number or float64.
func (s *Schema) Check(v any) error {
	err := s.s.Validate(v)
	var why *jsonschema.ValidationError
	if !errors.As(err, &why) {
		return err
	}
	for len(why.Causes) > 0 { // the place itself, not that something below it is wrong
		why = why.Causes[0]
	}
	lines := strings.Split(strings.TrimSpace(why.Error()), "\n")
	return errors.New(strings.TrimPrefix(strings.TrimSpace(lines[len(lines)-1]), "- "))
}

// ErrTwice says that an object has a member twice, so that readers disagree about it.
var ErrTwice = errors.New("a member stands there twice")

// Read decodes one JSON value that is all of raw. Members that differ in case alone count
// as the same: the decoders of Go and of others disagree about them.
func Read(raw []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	v, err := value(d)
	if err != nil {
		return nil, err
	}
	if d.More() || len(bytes.TrimSpace(raw[d.InputOffset():])) > 0 {
		return nil, errors.New("something stands behind the JSON")
	}
	return v, nil
}

func value(d *json.Decoder) (any, error) {
	t, err := d.Token()
	if err != nil {
		return nil, err
	}
	switch t {
	case json.Delim('['):
		list := []any{}
		for d.More() {
			v, err := value(d)
			if err != nil {
				return nil, err
			}
			list = append(list, v)
		}
		_, err = d.Token()
		return list, err
	case json.Delim('{'):
		o, seen := map[string]any{}, map[string]bool{}
		for d.More() {
			k, err := d.Token()
			if err != nil {
				return nil, err
			}
			name := k.(string) // the decoder takes nothing else there
			if fold := strings.ToLower(name); seen[fold] {
				return nil, fmt.Errorf("%q: %w", name, ErrTwice)
			} else {
				seen[fold] = true
			}
			if o[name], err = value(d); err != nil {
				return nil, err
			}
		}
		_, err = d.Token()
		return o, err
	}
	return t, nil
}

// maxScan bounds how many bytes Objects looks at: text made of openings alone is read
// again from each of them.
const maxScan = 32 << 20

// Objects are the JSON objects in a text, outermost ones alone, in their order: in code
// fences, behind words, between others.
func Objects(text string) (list []json.RawMessage) {
	for at, seen := 0, 0; seen < maxScan; {
		i := strings.IndexByte(text[at:], '{')
		if i < 0 {
			break
		}
		at += i
		var raw json.RawMessage
		err := json.NewDecoder(strings.NewReader(text[at:])).Decode(&raw)
		var bad *json.SyntaxError
		switch {
		case err == nil:
			list = append(list, raw)
			seen, at = seen+len(raw), at+len(raw)
		case errors.As(err, &bad):
			seen, at = seen+int(bad.Offset), at+1
		default: // it does not end
			seen, at = seen+len(text)-at, at+1
		}
	}
	return list
}
