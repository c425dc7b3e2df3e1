package parsers

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"
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
	return s.member(s, key)
}

// declares says that s, the parameters of a tool, name a property key; a schema without
// properties declares nothing and everything.
func (s schema) declares(key string) bool {
	return !s.any(s, "properties") || s.prop(key) != nil || s["additionalProperties"] == true || s.sub("additionalProperties") != nil
}

func (s schema) follow(root schema) schema {
	for range 8 {
		ref, ok := s["$ref"].(string)
		if !ok {
			break
		}
		at := root.at(ref)
		if at == nil {
			break
		}
		s = at
	}
	return s
}

// at is what a reference like #/$defs/A points to, or nil.
func (s schema) at(ref string) schema {
	var x any = map[string]any(s)
	for _, step := range strings.Split(strings.TrimPrefix(strings.TrimPrefix(ref, "#"), "/"), "/") {
		step = pointer.Replace(step)
		switch v := x.(type) {
		case map[string]any:
			x = v[step]
		case []any:
			n, err := strconv.Atoi(step)
			if err != nil || n < 0 || n >= len(v) {
				return nil
			}
			x = v[n]
		default:
			return nil
		}
	}
	m, _ := x.(map[string]any)
	return m
}

// pointer undoes the escapes of JSON pointers.
var pointer = strings.NewReplacer("~1", "/", "~0", "~", "%20", " ")

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
	"int8": "integer", "int16": "integer", "int32": "integer", "int64": "integer", "uint8": "integer", "uint16": "integer", "uint32": "integer", "uint64": "integer",
	"float32": "number", "float64": "number", "decimal": "number", "unsigned int": "integer", "bigint": "integer",
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
	return t
}

// looseType is normalType as SGLang has it: the beginning of a name decides.
func looseType(t string) string {
	t = normalType(t)
	for _, prefix := range []string{"int", "uint", "long", "short", "unsigned", "num", "float"} {
		if strings.HasPrefix(t, prefix) {
			return typeNames[prefix]
		}
	}
	return t
}

// maxRefs bounds references and alternatives inside one another.
const maxRefs = 16

// types lists the types that s allows, references into root followed; none means string.
func (s schema) types(root schema) []string {
	if out := s.allowed(root, 0); len(out) > 0 {
		return out
	}
	return []string{"string"}
}

func (s schema) allowed(root schema, depth int) []string {
	s = s.follow(root)
	if depth > maxRefs {
		return nil
	}
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
		for _, t := range alt.allowed(root, depth+1) {
			add(t)
		}
	}
	if len(out) == 0 {
		switch {
		case s["properties"] != nil:
			add("object")
		case s["items"] != nil:
			add("array")
		}
	}
	if s["nullable"] == true && len(out) > 0 { // OpenAPI
		add("null")
	}
	return out
}

// each calls see for s and everything inside its alternatives, references followed.
func (s schema) each(root schema, depth int, see func(schema)) {
	s = s.follow(root)
	if s == nil || depth > maxRefs {
		return
	}
	see(s)
	for _, alt := range s.alternatives() {
		alt.each(root, depth+1, see)
	}
}

// any says whether s or an alternative has the key.
func (s schema) any(root schema, key string) (has bool) {
	s.each(root, 0, func(t schema) { has = has || t[key] != nil })
	return has
}

// member is the schema of one member of an object that s describes: where alternatives
// declare it, all of them count. nil is none.
func (s schema) member(root schema, key string) schema {
	return s.pick(root, func(t schema) schema { return t.sub("properties").sub(key) })
}

// items is the schema of the items of a list that s describes.
func (s schema) items(root schema) schema {
	return s.pick(root, func(t schema) schema { return t.sub("items") })
}

func (s schema) pick(root schema, of func(schema) schema) schema {
	var first schema
	var all []any
	s.each(root, 0, func(t schema) {
		if q := of(t); q != nil {
			if first == nil {
				first = q
			}
			all = append(all, map[string]any(q))
		}
	})
	if len(all) > 1 {
		return schema{"anyOf": all}
	}
	return first.follow(root)
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
