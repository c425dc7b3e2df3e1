package schema

import (
	"bytes"
	"cmp"
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Fit coerces a JSON value and checks it: see [Schema.Coerce] and [Schema.Check]. Numbers
// keep their digits. The error is for a model that is to try again: it names the field and
// what was expected. root names the value itself in it: "arguments".
func (s *Schema) Fit(root string, raw []byte) ([]byte, error) {
	v, err := decode(raw)
	if err != nil {
		return nil, err
	}
	v = s.Coerce(v)
	if err := s.Check(v); err != nil {
		return nil, cmp.Or(newBudget(v).explain(s.s, root, "", v, 0), err)
	}
	return []byte(text(v)), nil
}

func decode(raw []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	err := d.Decode(&v)
	return v, err
}

// Coerce turns what a model meant into what the schema wants, or returns v as it is. It
// changes v, whose numbers are json.Number. A text that spells a number, a truth value, a
// list or an object becomes one where texts are not allowed; 5.0 becomes 5 where whole
// numbers are wanted; one thing becomes a list of it; null for an optional property that
// cannot be null is left out; a required property with a default need not be given.
func (s *Schema) Coerce(v any) any { return newBudget(v).coerce(s.s, v, 0) }

// maxDepth bounds values and references inside one another.
const maxDepth = 200

func (b *budget) coerce(s *jsonschema.Schema, v any, depth int) any {
	b.left--
	if s == nil || depth > maxDepth || b.left < 0 {
		return v
	}
	for ; s.Ref != nil && s.Types == nil && depth < maxDepth; depth++ {
		s = s.Ref
	}
	for _, a := range s.AllOf {
		v = b.coerce(a, v, depth+1)
	}
	for _, alternatives := range [][]*jsonschema.Schema{s.AnyOf, s.OneOf} {
		if len(alternatives) > 0 && s.Types == nil {
			v = b.coerceAny(alternatives, v, depth+1)
		}
	}
	if s.Types != nil {
		v = scalar(s, v)
	}
	switch v := v.(type) {
	case map[string]any:
		b.coerceMembers(s, v, depth+1)
	case []any:
		for i := range v {
			v[i] = b.coerce(item(s, i), v[i], depth+1)
		}
	}
	return v
}

// coerceAny takes the value as it is where one alternative accepts it.
func (b *budget) coerceAny(alternatives []*jsonschema.Schema, v any, depth int) any {
	for _, a := range alternatives {
		if b.validate(a, v) == nil {
			return v
		}
	}
	for _, a := range alternatives {
		if b.left < 0 {
			break
		}
		if c := b.coerce(a, clone(v), depth); b.validate(a, c) == nil {
			return c
		}
	}
	return v
}

// clone copies lists and objects: an alternative that does not fit must leave no trace.
func clone(v any) any {
	switch v := v.(type) {
	case map[string]any:
		return each(v, clone)
	case []any:
		return list(v, clone)
	}
	return v
}

// item is the schema of a list's item, or nil.
func item(s *jsonschema.Schema, i int) *jsonschema.Schema {
	if i < len(s.PrefixItems) {
		return s.PrefixItems[i]
	}
	if s.Items2020 != nil {
		return s.Items2020
	}
	switch of := s.Items.(type) { // of older drafts
	case *jsonschema.Schema:
		return of
	case []*jsonschema.Schema:
		if i < len(of) {
			return of[i]
		}
	}
	return nil
}

// allowed are the types that a schema allows, null last; none: all.
func allowed(s *jsonschema.Schema) []string {
	if s.Types == nil {
		return nil
	}
	types := s.Types.ToStrings()
	if types[0] == "null" {
		types = append(types[1:], "null")
	}
	return types
}

func allows(types []string, t string) bool {
	return slices.Contains(types, t) || t == "integer" && slices.Contains(types, "number")
}

func scalar(s *jsonschema.Schema, v any) any {
	types := allowed(s)
	switch x := v.(type) {
	case string:
		if !allows(types, "string") {
			v = fromText(types, x)
		}
	case json.Number:
		if allows(types, "integer") && !allows(types, "number") {
			v = whole(x)
		}
	}
	if allows(types, "array") {
		switch v.(type) {
		case string, json.Number, bool:
			if !allows(types, typeOf(v)) {
				return []any{v}
			}
		}
	}
	return v
}

func fromText(types []string, text string) any {
	t := strings.TrimSpace(text)
	switch {
	case t == "null" && allows(types, "null"):
		return nil
	case allows(types, "boolean") && strings.EqualFold(t, "true"):
		return true
	case allows(types, "boolean") && strings.EqualFold(t, "false"):
		return false
	case t == "" || !json.Valid([]byte(t)):
		return text
	}
	v, err := decode([]byte(t))
	if err != nil {
		return text
	}
	switch x := v.(type) {
	case json.Number:
		if allows(types, "number") {
			return x
		}
		if n := whole(x); allows(types, typeOf(n)) {
			return n
		}
	case []any:
		if allows(types, "array") {
			return x
		}
	case map[string]any:
		if allows(types, "object") {
			return x
		}
	}
	return text
}

// whole turns 5.0 and 5e0 into 5; other numbers stay.
func whole(n json.Number) json.Number {
	if typeOf(n) == "integer" {
		return n
	}
	f, err := n.Float64()
	if err != nil || f != math.Trunc(f) || math.Abs(f) > 1<<53 {
		return n
	}
	return json.Number(strconv.FormatInt(int64(f), 10))
}

// coerceMembers coerces the properties of an object.
func (b *budget) coerceMembers(s *jsonschema.Schema, m map[string]any, depth int) {
	for _, k := range s.Required {
		if p := s.Properties[k]; p != nil && p.Default != nil && m[k] == nil && b.refusesNull(p) {
			m[k] = clone(*p.Default)
		}
	}
	for k, v := range m {
		p, known := s.Properties[k]
		if !known {
			p = extra(s, k)
		}
		if p == nil {
			continue
		}
		v = b.coerce(p, v, depth)
		if v == nil && known && !slices.Contains(s.Required, k) && b.refusesNull(p) {
			delete(m, k)
			continue
		}
		m[k] = v
	}
}

// extra is the schema of a property that is not named, or nil.
func extra(s *jsonschema.Schema, k string) *jsonschema.Schema {
	for pattern, p := range s.PatternProperties {
		if pattern.MatchString(k) {
			return p
		}
	}
	p, _ := s.AdditionalProperties.(*jsonschema.Schema)
	return p
}
