package policy

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"hermes/trajectory"
)

// object is a JSON object in the making: ordered, later values win, objects are merged.
type object struct {
	keys   []string
	values map[string]json.RawMessage
}

func (o *object) set(key string, value any) error {
	raw, ok := value.(json.RawMessage)
	if !ok {
		var buf bytes.Buffer
		enc := json.NewEncoder(&buf)
		enc.SetEscapeHTML(false)
		if err := enc.Encode(value); err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
		raw = bytes.TrimSpace(buf.Bytes())
	}
	if o.values == nil {
		o.values = map[string]json.RawMessage{}
	}
	if old, ok := o.values[key]; ok {
		raw = merged(old, raw)
	} else {
		o.keys = append(o.keys, key)
	}
	o.values[key] = raw
	return nil
}

// merge sets every member of a JSON object, in the order of their names.
func (o *object) merge(raw json.RawMessage) error {
	if len(raw) == 0 {
		return nil
	}
	var m map[string]json.RawMessage
	if err := json.Unmarshal(raw, &m); err != nil {
		return fmt.Errorf("extra body %s: want a JSON object: %w", raw, err)
	}
	for _, k := range slices.Sorted(maps.Keys(m)) {
		if k == "messages" {
			return fmt.Errorf("extra body: %q is the conversation itself", k)
		}
		if err := o.set(k, m[k]); err != nil {
			return err
		}
	}
	return nil
}

func merged(old, raw json.RawMessage) json.RawMessage {
	var a, b map[string]json.RawMessage
	if json.Unmarshal(old, &a) != nil || json.Unmarshal(raw, &b) != nil || a == nil || b == nil {
		return raw
	}
	for k, v := range b {
		if had, ok := a[k]; ok {
			v = merged(had, v)
		}
		a[k] = v
	}
	out, err := json.Marshal(a)
	if err != nil {
		return raw
	}
	return out
}

// head writes the object without its closing brace, ready for messages.
func (o *object) head() []byte { return o.open("messages") }

// open writes the object up to the beginning of a list under one more key.
func (o *object) open(key string) []byte {
	return append(trajectory.AppendQuoted(o.members([]byte{'{'}), key), ":["...)
}

// members writes the members, a comma after each.
func (o *object) members(b []byte) []byte {
	for _, k := range o.keys {
		b = append(append(trajectory.AppendQuoted(b, k), ':'), o.values[k]...)
		b = append(b, ',')
	}
	return b
}
