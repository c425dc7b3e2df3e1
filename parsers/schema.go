package parsers

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"hermes/trajectory"
)

// tools is what the declared tools say about names and types.
type tools struct {
	specs  []trajectory.ToolSpec
	parsed map[string]schema
}

// schema is a decoded JSON schema; nil knows nothing.
type schema map[string]any

func newTools(specs []trajectory.ToolSpec) *tools { return &tools{specs: specs} }

func (t *tools) known() bool { return len(t.specs) > 0 }

func (t *tools) has(name string) bool {
	return slices.ContainsFunc(t.specs, func(s trajectory.ToolSpec) bool { return s.Name == name })
}

// params is the schema of a tool's arguments.
func (t *tools) params(name string) schema {
	if s, ok := t.parsed[name]; ok {
		return s
	}
	var s schema
	for _, spec := range t.specs {
		if spec.Name == name {
			d := json.NewDecoder(bytes.NewReader(spec.Parameters))
			d.UseNumber()
			if d.Decode(&s) != nil {
				s = nil
			}
			break
		}
	}
	if t.parsed == nil {
		t.parsed = map[string]schema{}
	}
	t.parsed[name] = s
	return s
}

func (s schema) sub(key string) schema {
	m, _ := s[key].(map[string]any)
	return schema(m)
}

// prop is the schema of one property, references into $defs followed.
func (s schema) prop(key string) schema {
	p := s.sub("properties").sub(key)
	if p == nil {
		for _, alt := range s.alternatives() {
			if q := alt.sub("properties").sub(key); q != nil {
				p = q
				break
			}
		}
	}
	return p.follow(s)
}

func (s schema) follow(root schema) schema {
	for range 8 {
		ref, ok := s["$ref"].(string)
		if !ok {
			break
		}
		at := root
		for _, step := range strings.Split(strings.TrimPrefix(ref, "#/"), "/") {
			at = at.sub(step)
		}
		if at == nil {
			break
		}
		s = at
	}
	return s
}

func (s schema) alternatives() []schema {
	var out []schema
	for _, k := range []string{"anyOf", "oneOf", "allOf"} {
		list, _ := s[k].([]any)
		for _, x := range list {
			if m, ok := x.(map[string]any); ok {
				out = append(out, schema(m))
			}
		}
	}
	return out
}

var typeNames = map[string]string{
	"int": "integer", "long": "integer", "uint": "integer", "short": "integer", "unsigned": "integer",
	"float": "number", "double": "number", "num": "number", "number": "number", "bool": "boolean", "binary": "boolean",
	"str": "string", "text": "string", "varchar": "string", "char": "string", "enum": "string",
	"dict": "object", "map": "object", "list": "array", "arr": "array", "tuple": "array", "sequence": "array",
	"none": "null", "nil": "null",
}

func normalType(t string) string {
	t = strings.ToLower(strings.TrimSpace(t))
	if n, ok := typeNames[t]; ok {
		return n
	}
	for _, prefix := range []string{"int", "uint", "long", "short", "unsigned", "num", "float"} {
		if strings.HasPrefix(t, prefix) {
			return typeNames[prefix]
		}
	}
	return t
}

// types lists the types that s allows; none means string.
func (s schema) types() []string {
	var out []string
	add := func(t string) {
		if t = normalType(t); !slices.Contains(out, t) {
			out = append(out, t)
		}
	}
	switch t := s["type"].(type) {
	case string:
		add(t)
	case []any:
		for _, x := range t {
			if name, ok := x.(string); ok {
				add(name)
			}
		}
	}
	members, _ := s["enum"].([]any)
	if c, ok := s["const"]; ok {
		members = append(members, c)
	}
	for _, x := range members {
		add(typeOf(x))
	}
	for _, alt := range s.alternatives() {
		for _, t := range alt.types() {
			add(t)
		}
	}
	if len(out) == 0 {
		switch {
		case s["properties"] != nil:
			return []string{"object"}
		case s["items"] != nil:
			return []string{"array"}
		}
		return []string{"string"}
	}
	return out
}

func typeOf(x any) string {
	switch x := x.(type) {
	case nil:
		return "null"
	case bool:
		return "boolean"
	case json.Number:
		if strings.ContainsAny(x.String(), ".eE") {
			return "number"
		}
		return "integer"
	case []any:
		return "array"
	case map[string]any:
		return "object"
	}
	return "string"
}
