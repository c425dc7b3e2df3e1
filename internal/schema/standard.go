package schema

import (
	"maps"
	"regexp"
	"slices"
)

// parts says where a keyword holds schemas, so that a property called "type" is none.
var parts = map[string]byte{
	"not": 'o', "if": 'o', "then": 'o', "else": 'o', "contains": 'o', "propertyNames": 'o', "additionalProperties": 'o', "additionalItems": 'o',
	"unevaluatedProperties": 'o', "unevaluatedItems": 'o', "contentSchema": 'o', "items": 'o',
	"allOf": 'l', "anyOf": 'l', "oneOf": 'l', "prefixItems": 'l',
	"properties": 'm', "patternProperties": 'm', "$defs": 'm', "definitions": 'm', "dependentSchemas": 'm', "dependencies": 'm',
}

// Standard is a schema in the words of JSON Schema, as a copy:
//
//   - names of types from other languages become the standard's (dict: object); "any"
//     becomes anyType, or no type where that is empty;
//   - OpenAPI's nullable allows null;
//   - without $schema, exclusiveMinimum: true and a list of items mean what the older
//     drafts say.
//
// What it does not know stays as it is.
func Standard(doc map[string]any, anyType string) map[string]any {
	_, draft := doc["$schema"]
	return standard{anyType: anyType, draft: draft}.object(doc)
}

type standard struct {
	anyType string
	draft   bool // $schema names the draft, which the library knows
}

func (c standard) schema(v any) any {
	if o, ok := v.(map[string]any); ok {
		return c.object(o)
	}
	return v
}

func (c standard) object(in map[string]any) map[string]any {
	out := make(map[string]any, len(in))
	for k, v := range in {
		out[k] = c.keyword(k, v)
	}
	c.types(out)
	if !c.draft {
		older(out)
	}
	return nullable(out)
}

func (c standard) keyword(k string, v any) any {
	switch v := v.(type) {
	case map[string]any:
		switch parts[k] {
		case 'o':
			return c.object(v)
		case 'm':
			return each(v, c.schema)
		}
	case []any:
		if parts[k] == 'l' || k == "items" {
			return list(v, c.schema)
		}
	}
	return v
}

func each(m map[string]any, f func(any) any) map[string]any {
	out := make(map[string]any, len(m))
	for k, v := range m {
		out[k] = f(v)
	}
	return out
}

func list(l []any, f func(any) any) []any {
	out := make([]any, len(l))
	for i, v := range l {
		out[i] = f(v)
	}
	return out
}

func (c standard) types(s map[string]any) {
	switch t := s["type"].(type) {
	case string:
		t = c.name(t)
		if t == "" {
			delete(s, "type")
		} else {
			s["type"] = t
		}
	case []any:
		var names []any
		for _, x := range t {
			name, ok := x.(string)
			name = c.name(name)
			if !ok || name == "" {
				if ok {
					delete(s, "type") // "any" beside others
				}
				return
			}
			if !slices.Contains(names, any(name)) {
				names = append(names, name)
			}
		}
		if len(names) > 0 {
			s["type"] = names
		}
	}
}

func (c standard) name(t string) string {
	t = typeName(t)
	if t == "any" {
		return c.anyType
	}
	return t
}

// older reads what drafts before 2020-12 wrote differently.
func older(s map[string]any) {
	for limit, exclusive := range map[string]string{"minimum": "exclusiveMinimum", "maximum": "exclusiveMaximum"} {
		switch s[exclusive] {
		case true:
			delete(s, exclusive)
			if n, ok := s[limit]; ok {
				s[exclusive] = n
				delete(s, limit)
			}
		case false:
			delete(s, exclusive)
		}
	}
	if tuple, ok := s["items"].([]any); ok && s["prefixItems"] == nil {
		delete(s, "items")
		if len(tuple) > 0 {
			s["prefixItems"] = tuple
		}
		if rest, ok := s["additionalItems"]; ok {
			s["items"] = rest
		}
	}
}

// nullable is a schema that allows null as well where it says so.
func nullable(s map[string]any) map[string]any {
	yes, ok := s["nullable"].(bool)
	if !ok {
		return s
	}
	delete(s, "nullable")
	if !yes {
		return s
	}
	simple := s["type"] != nil
	for _, k := range []string{"anyOf", "oneOf", "allOf", "not", "const", "$ref", "if"} {
		simple = simple && s[k] == nil
	}
	if !simple {
		if len(s) == 0 {
			return s
		}
		either := map[string]any{"anyOf": []any{s, map[string]any{"type": "null"}}}
		for _, k := range []string{"title", "description", "default"} {
			if v, ok := s[k]; ok {
				either[k] = v
				delete(s, k)
			}
		}
		return either
	}
	types, ok := s["type"].([]any)
	if !ok {
		types = []any{s["type"]}
	}
	if !slices.Contains(types, any("null")) {
		s["type"] = append(slices.Clone(types), "null")
	}
	if members, ok := s["enum"].([]any); ok && !slices.Contains(members, nil) {
		s["enum"] = append(slices.Clone(members), nil)
	}
	return s
}

// pruned is the standard's form of a schema without the keywords that cannot be read:
// they would make the whole of it unreadable.
func pruned(n Node) map[string]any {
	doc := maps.Clone(map[string]any(n))
	delete(doc, "$schema")
	doc = prune(Standard(doc, ""), n)
	if doc["type"] == nil {
		doc["type"] = "object"
	}
	return doc
}

func prune(s map[string]any, root Node) map[string]any {
	out := map[string]any{}
	for k, v := range s {
		if v, ok := readable(k, v, root); ok {
			out[k] = v
		}
	}
	return out
}

// readable is the value of a keyword as far as it can be read.
func readable(k string, v any, root Node) (any, bool) {
	sub := func(v any) (any, bool) {
		switch v := v.(type) {
		case map[string]any:
			return prune(v, root), true
		case bool:
			return v, true
		}
		return nil, false
	}
	switch parts[k] {
	case 'o':
		return sub(v)
	case 'l':
		var out []any
		l, _ := v.([]any)
		for _, x := range l {
			if x, ok := sub(x); ok {
				out = append(out, x)
			}
		}
		return out, len(out) > 0
	case 'm':
		m, ok := v.(map[string]any)
		out := map[string]any{}
		for name, x := range m {
			if x, ok := sub(x); ok && (k != "patternProperties" || compiles(name)) {
				out[name] = x
			}
		}
		return out, ok
	}
	return v, wellFormed(k, v, root)
}

// wellFormed tells whether a keyword that holds no schemas has a value that it may have.
func wellFormed(k string, v any, root Node) bool {
	if ref, ok := v.(string); ok && k == "$ref" {
		return root.at(ref) != nil
	}
	_, err := compile(map[string]any{k: v})
	return err == nil
}

func compiles(pattern string) bool {
	_, err := regexp.Compile(pattern)
	return err == nil
}
