package schema

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"hermes/internal/nearest"
)

// place is a value inside the one that is checked.
type place struct{ root, at string }

func (p place) String() string { return cmp.Or(p.at, p.root) }

func (p place) member(k string) string {
	if p.at == "" {
		return k
	}
	return p.at + "." + k
}

// explain names the field that does not fit and what was expected, in words for a model
// that is to try again. The library has refused the value already; nil: the reason is one
// that has no words here.
func (b *budget) explain(s *jsonschema.Schema, root, at string, v any, depth int) error {
	if s == nil || depth > maxDepth || b.left < 0 || b.validate(s, v) == nil {
		return nil
	}
	p := place{root, at}
	if f, ok := v.(float64); ok {
		v = number(f)
	}
	if err := b.explain(s.Ref, root, at, v, depth+1); err != nil {
		return err
	}
	if types := allowed(s); len(types) > 0 && !fitsType(types, v) {
		return fmt.Errorf("%s: expected %s, got %s %s", p, strings.Join(types, " or "), typeOf(v), clip(text(v)))
	}
	if s.Enum != nil && !slices.ContainsFunc(s.Enum.Values, func(e any) bool { return same(e, v) }) {
		return fmt.Errorf("%s: %s is none of %s%s", p, clip(text(v)), text(s.Enum.Values), meant(v, s.Enum.Values))
	}
	if s.Const != nil && !same(*s.Const, v) {
		return fmt.Errorf("%s: expected %s, got %s", p, text(*s.Const), clip(text(v)))
	}
	if err := b.alternatives(s, p, v, depth); err != nil {
		return err
	}
	switch v := v.(type) {
	case string:
		return explainText(s, p, v)
	case json.Number:
		return explainNumber(s, p, v)
	case []any:
		return b.explainList(s, p, v, depth)
	case map[string]any:
		return b.explainObject(s, p, v, depth)
	}
	return nil
}

func fitsType(types []string, v any) bool {
	n, ok := v.(json.Number)
	return allows(types, typeOf(v)) || ok && allows(types, "integer") && typeOf(whole(n)) == "integer"
}

func (b *budget) alternatives(s *jsonschema.Schema, p place, v any, depth int) error {
	for _, a := range s.AllOf {
		if err := b.explain(a, p.root, p.at, v, depth+1); err != nil {
			return err
		}
	}
	for _, list := range [][]*jsonschema.Schema{s.AnyOf, s.OneOf} {
		var last error
		for _, a := range list {
			last = b.explain(a, p.root, p.at, v, depth+1)
			if last == nil {
				break
			}
		}
		if last != nil {
			return last
		}
	}
	return nil
}

// same compares as JSON Schema does: numbers by their value.
func same(a, b any) bool {
	switch x := a.(type) {
	case json.Number:
		y, ok := b.(json.Number)
		if !ok {
			return false
		}
		m, ok1 := new(big.Rat).SetString(x.String())
		n, ok2 := new(big.Rat).SetString(y.String())
		return ok1 && ok2 && m.Cmp(n) == 0
	case []any:
		y, ok := b.([]any)
		return ok && slices.EqualFunc(x, y, same)
	case map[string]any:
		y, ok := b.(map[string]any)
		return ok && maps.EqualFunc(x, y, same)
	}
	switch b.(type) {
	case []any, map[string]any:
		return false
	}
	return a == b
}

func meant(v any, enum []any) string {
	text, ok := v.(string)
	if !ok {
		return ""
	}
	var names []string
	for _, e := range enum {
		if name, ok := e.(string); ok {
			names = append(names, name)
		}
	}
	if n := nearest.Name(text, names); n != "" {
		return fmt.Sprintf(" (did you mean %q?)", n)
	}
	return ""
}

func explainText(s *jsonschema.Schema, p place, v string) error {
	n := utf8.RuneCountInString(v)
	switch {
	case s.MinLength != nil && n < *s.MinLength:
		return fmt.Errorf("%s: %d characters, at least %d are needed", p, n, *s.MinLength)
	case s.MaxLength != nil && n > *s.MaxLength:
		return fmt.Errorf("%s: %d characters, at most %d are allowed", p, n, *s.MaxLength)
	case s.Pattern != nil && !s.Pattern.MatchString(v):
		return fmt.Errorf("%s: %q does not match %s", p, clip(v), s.Pattern)
	}
	return nil
}

func explainNumber(s *jsonschema.Schema, p place, v json.Number) error {
	n, ok := new(big.Rat).SetString(v.String())
	if !ok {
		return fmt.Errorf("%s: %s is too large", p, v)
	}
	beyond := func(limit *big.Rat, signs ...int) bool { return limit != nil && slices.Contains(signs, n.Cmp(limit)) }
	switch {
	case beyond(s.Minimum, -1):
		return fmt.Errorf("%s: %s is less than %s", p, v, decimal(s.Minimum))
	case beyond(s.Maximum, 1):
		return fmt.Errorf("%s: %s is more than %s", p, v, decimal(s.Maximum))
	case beyond(s.ExclusiveMinimum, -1, 0):
		return fmt.Errorf("%s: %s is not more than %s", p, v, decimal(s.ExclusiveMinimum))
	case beyond(s.ExclusiveMaximum, 1, 0):
		return fmt.Errorf("%s: %s is not less than %s", p, v, decimal(s.ExclusiveMaximum))
	case s.MultipleOf != nil && s.MultipleOf.Sign() != 0 && !new(big.Rat).Quo(n, s.MultipleOf).IsInt():
		return fmt.Errorf("%s: %s is no multiple of %s", p, v, decimal(s.MultipleOf))
	}
	return nil
}

func decimal(r *big.Rat) string {
	f, _ := r.Float64()
	return fmt.Sprint(f)
}

func (b *budget) explainList(s *jsonschema.Schema, p place, v []any, depth int) error {
	if s.MinItems != nil && len(v) < *s.MinItems || s.MaxItems != nil && len(v) > *s.MaxItems {
		return fmt.Errorf("%s: %d items are too few or too many", p, len(v))
	}
	for i, one := range v {
		if err := b.explain(item(s, i), p.root, fmt.Sprintf("%s[%d]", p.at, i), one, depth+1); err != nil {
			return err
		}
	}
	return nil
}

func (b *budget) explainObject(s *jsonschema.Schema, p place, v map[string]any, depth int) error {
	for _, k := range s.Required {
		if _, ok := v[k]; !ok {
			return fmt.Errorf("%s: missing, it is required%s", p.member(k), instead(s, v, k))
		}
	}
	for _, k := range slices.Sorted(maps.Keys(v)) {
		sub, known := s.Properties[k]
		if !known {
			sub = extra(s, k)
		}
		if sub == nil && s.AdditionalProperties == false {
			names := slices.Sorted(maps.Keys(s.Properties))
			if n := nearest.Name(k, names); n != "" {
				return fmt.Errorf("%s: unknown parameter (did you mean %s?)", p.member(k), n)
			}
			return fmt.Errorf("%s: unknown parameter, known are %s", p.member(k), strings.Join(names, ", "))
		}
		if err := b.explain(sub, p.root, p.member(k), v[k], depth+1); err != nil {
			return err
		}
	}
	return nil
}

// instead names an unknown key that was probably meant as the missing one.
func instead(s *jsonschema.Schema, v map[string]any, missing string) string {
	for _, k := range slices.Sorted(maps.Keys(v)) {
		if _, known := s.Properties[k]; !known && nearest.Name(k, []string{missing}) != "" {
			return fmt.Sprintf(" (got %s)", k)
		}
	}
	return ""
}

func clip(s string) string {
	if utf8.RuneCountInString(s) <= 40 {
		return s
	}
	return string([]rune(s)[:40]) + "…"
}
