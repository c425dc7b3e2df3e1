package schema

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// ErrTwice says that an object has a member twice, so that readers disagree about it.
var ErrTwice = errors.New("a member is given twice")

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
		return nil, errors.New("something follows the JSON")
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
			o[name], err = value(d)
			if err != nil {
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
