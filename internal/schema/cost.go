package schema

import (
	"errors"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// errCost refuses a check that would take too long: alternatives inside one another double
// the work at each level, and a schema that refers to itself never ends.
var errCost = errors.New("checking takes too many steps: the schema has too many alternatives inside one another, or refers to itself")

// What a check may take: enough for any schema without nested alternatives, and in the worst
// case some tenths of a second.
const (
	baseSteps = 100_000
	nodeSteps = 100 // for each value inside the one that is checked
)

// budget bounds one check of a value, counted in visits of a schema to a value.
type budget struct{ left int }

func newBudget(v any) *budget { return &budget{baseSteps + nodeSteps*nodes(v)} }

// nodes counts a value and the values inside it.
func nodes(v any) int {
	n := 1
	switch v := v.(type) {
	case map[string]any:
		for _, x := range v {
			n += nodes(x)
		}
	case []any:
		for _, x := range v {
			n += nodes(x)
		}
	}
	return n
}

// validate is the library's verdict, or errCost.
func (b *budget) validate(s *jsonschema.Schema, v any) error {
	b.take(s, v)
	if b.left < 0 {
		return errCost
	}
	return s.Validate(v)
}

// refusesNull reports whether null is known not to fit.
func (b *budget) refusesNull(s *jsonschema.Schema) bool {
	err := b.validate(s, nil)
	return err != nil && !errors.Is(err, errCost)
}

// take subtracts the steps of a validation. It visits what the library visits, and stops
// where nothing is left.
func (b *budget) take(s *jsonschema.Schema, v any) {
	if s == nil || b.left < 0 {
		return
	}
	b.left--
	b.sameValue(s, v)
	switch v := v.(type) {
	case map[string]any:
		b.members(s, v)
	case []any:
		for i, x := range v {
			b.take(item(s, i), x)
			b.take(s.Contains, x)
			b.take(s.UnevaluatedItems, x)
			if rest, ok := s.AdditionalItems.(*jsonschema.Schema); ok {
				b.take(rest, x)
			}
		}
	}
}

// sameValue takes the steps of the schemas that look at the same value.
func (b *budget) sameValue(s *jsonschema.Schema, v any) {
	for _, sub := range []*jsonschema.Schema{s.Ref, s.RecursiveRef, s.Not, s.If, s.Then, s.Else} {
		b.take(sub, v)
	}
	if s.DynamicRef != nil {
		b.take(s.DynamicRef.Ref, v)
	}
	for _, list := range [][]*jsonschema.Schema{s.AllOf, s.AnyOf, s.OneOf} {
		for _, sub := range list {
			b.take(sub, v)
		}
	}
	for _, sub := range s.DependentSchemas {
		b.take(sub, v)
	}
	for _, of := range s.Dependencies {
		if sub, ok := of.(*jsonschema.Schema); ok {
			b.take(sub, v)
		}
	}
}

func (b *budget) members(s *jsonschema.Schema, m map[string]any) {
	for k, x := range m {
		if p, known := s.Properties[k]; known {
			b.take(p, x)
		} else if rest, ok := s.AdditionalProperties.(*jsonschema.Schema); ok {
			b.take(rest, x)
		}
		for pattern, p := range s.PatternProperties {
			b.left--
			if pattern.MatchString(k) {
				b.take(p, x)
			}
		}
		b.take(s.PropertyNames, k)
		b.take(s.UnevaluatedProperties, x)
	}
}
