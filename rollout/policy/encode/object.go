// Package encode builds the bodies of model requests: a JSON object whose members are
// merged in order, and a body that is read from several slices without joining them.
//
// Neither is safe for concurrent use. The slices of a body are read only.
package encode

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"hermes/trajectory"
)

// Object is a JSON object in the making: ordered, later values win, objects are merged.
type Object struct {
	Keys   []string
	Values map[string]json.RawMessage
}

// Set sets one member. Where both the old value and the new one are objects, they are merged.
func (o *Object) Set(key string, value any) error {
	raw, ok := value.(json.RawMessage)
	if !ok {
		var err error
		raw, err = trajectory.AppendJSON(nil, value)
		if err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
	}
	if o.Values == nil {
		o.Values = map[string]json.RawMessage{}
	}
	if old, ok := o.Values[key]; ok {
		raw = merged(old, raw)
	} else {
		o.Keys = append(o.Keys, key)
	}
	o.Values[key] = raw
	return nil
}

// Merge sets every member of a JSON object, in the order of their names.
func (o *Object) Merge(raw json.RawMessage) error {
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
		if err := o.Set(k, m[k]); err != nil {
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

// Head writes the object without its closing brace, ready for messages.
func (o *Object) Head() []byte { return o.Open("messages") }

// Open writes the object up to the beginning of a list under one more key.
func (o *Object) Open(key string) []byte {
	return append(trajectory.AppendQuoted(o.Members([]byte{'{'}), key), ":["...)
}

// Members writes the members, a comma after each.
func (o *Object) Members(b []byte) []byte {
	for _, k := range o.Keys {
		b = append(append(trajectory.AppendQuoted(b, k), ':'), o.Values[k]...)
		b = append(b, ',')
	}
	return b
}
