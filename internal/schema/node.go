package schema

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
)

// Node is a decoded schema, or a part of one, as it was written. Its methods say which
// types and members it declares, in whatever words; nil declares nothing.
type Node map[string]any

// ReadNode decodes a schema; what cannot be read is nil. Numbers keep their spelling.
func ReadNode(raw []byte) Node {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var n Node
	if d.Decode(&n) != nil {
		return nil
	}
	return n
}

// Sub is the object under a key, or nil.
func (s Node) Sub(key string) Node {
	m, _ := s[key].(map[string]any)
	return Node(m)
}

// Prop is the schema of one property, references into $defs followed.
func (s Node) Prop(key string) Node {
	return s.Member(s, key)
}

// Declares says that s, the parameters of a tool, name a property key. A schema without
// properties allows every key.
func (s Node) Declares(key string) bool {
	return !s.Any(s, "properties") || s.Prop(key) != nil || s["additionalProperties"] == true || s.Sub("additionalProperties") != nil
}

func (s Node) follow(root Node) Node {
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
func (s Node) at(ref string) Node {
	if ref == "#" {
		return s
	}
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

func (s Node) alternatives() []Node {
	var out []Node
	for _, k := range []string{"anyOf", "oneOf", "allOf"} {
		list, _ := s[k].([]any)
		for _, x := range list {
			if m, ok := x.(map[string]any); ok {
				out = append(out, Node(m))
			}
		}
	}
	return out
}

// typeNames are names of types in Python, Go, SQL, C and Java.
var typeNames = map[string]string{
	"int8": "integer", "int16": "integer", "int32": "integer", "int64": "integer", "uint8": "integer", "uint16": "integer", "uint32": "integer", "uint64": "integer",
	"float32": "number", "float64": "number", "decimal": "number", "unsigned int": "integer", "bigint": "integer",
	"int": "integer", "long": "integer", "uint": "integer", "short": "integer", "unsigned": "integer",
	"float": "number", "double": "number", "num": "number", "number": "number", "bool": "boolean", "binary": "boolean",
	"str": "string", "text": "string", "varchar": "string", "char": "string", "enum": "string",
	"dict": "object", "map": "object", "list": "array", "arr": "array", "tuple": "array", "sequence": "array",
	"none": "null", "nil": "null",
	"arraylist": "array", "queue": "array", "stack": "array", "hashmap": "object", "hashtable": "object", "byte": "integer",
}

// typeName is the standard's name for a type, whatever language its name is from; other
// names are returned in small letters.
func typeName(t string) string {
	t = strings.ToLower(strings.TrimSpace(t))
	if n, ok := typeNames[t]; ok {
		return n
	}
	return t
}

// LooseType is the standard's name for a type as SGLang has it: the beginning of a name
// decides.
func LooseType(t string) string {
	t = typeName(t)
	for _, prefix := range []string{"int", "uint", "long", "short", "unsigned", "num", "float"} {
		if strings.HasPrefix(t, prefix) {
			return typeNames[prefix]
		}
	}
	return t
}

// Bounds of references and alternatives: how many are followed inside one another, and how
// many in all, because each level multiplies them.
const (
	maxRefs  = 16
	maxParts = 4096
)

// Types lists the types that s allows, references into root followed; none means string.
func (s Node) Types(root Node) []string {
	if out := s.Allowed(root); len(out) > 0 {
		return out
	}
	return []string{"string"}
}

// Allowed is Types without the default: empty where s says nothing of types.
func (s Node) Allowed(root Node) []string {
	parts := 0
	return s.allowed(root, 0, &parts)
}

// allowed counts the parts that it has looked at.
func (s Node) allowed(root Node, depth int, parts *int) []string {
	s = s.follow(root)
	*parts++
	if depth > maxRefs || *parts > maxParts {
		return nil
	}
	var out []string
	add := func(t string) {
		t = typeName(t)
		if !slices.Contains(out, t) {
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
		for _, t := range alt.allowed(root, depth+1, parts) {
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
func (s Node) each(root Node, see func(Node)) {
	parts := 0
	var visit func(s Node, depth int)
	visit = func(s Node, depth int) {
		s = s.follow(root)
		parts++
		if s == nil || depth > maxRefs || parts > maxParts {
			return
		}
		see(s)
		for _, alt := range s.alternatives() {
			visit(alt, depth+1)
		}
	}
	visit(s, 0)
}

// Any says whether s or an alternative has the key.
func (s Node) Any(root Node, key string) (has bool) {
	s.each(root, func(t Node) { has = has || t[key] != nil })
	return has
}

// Member is the schema of one member of an object that s describes: where alternatives
// declare it, all of them count. nil: none does.
func (s Node) Member(root Node, key string) Node {
	return s.pick(root, func(t Node) Node { return t.Sub("properties").Sub(key) })
}

// Items is the schema of the items of a list that s describes.
func (s Node) Items(root Node) Node {
	return s.pick(root, func(t Node) Node { return t.Sub("items") })
}

func (s Node) pick(root Node, of func(Node) Node) Node {
	var first Node
	var all []any
	s.each(root, func(t Node) {
		if q := of(t); q != nil {
			if first == nil {
				first = q
			}
			all = append(all, map[string]any(q))
		}
	})
	if len(all) > 1 {
		return Node{"anyOf": all}
	}
	return first.follow(root)
}

// number is a float as JSON writes it.
func number(f float64) json.Number { return json.Number(strconv.FormatFloat(f, 'f', -1, 64)) }

// typeOf is the type of a decoded value; a number counts by its spelling.
func typeOf(x any) string {
	switch x := x.(type) {
	case nil:
		return "null"
	case bool:
		return "boolean"
	case float64:
		return typeOf(number(x))
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
