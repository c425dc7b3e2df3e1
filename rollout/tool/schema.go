package tool

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"hermes/internal/nearest"
)

// schema is the part of JSON Schema that tools use. Keywords that are not here are not
// checked; they never make a call fail.
type schema struct {
	Types       types              `json:"type"`
	Nullable    bool               `json:"nullable"`
	Properties  map[string]*schema `json:"properties"`
	Required    []string           `json:"required"`
	Additional  json.RawMessage    `json:"additionalProperties"`
	Items       *schema            `json:"items"`
	Enum        []any              `json:"enum"`
	Const       any                `json:"const"`
	Default     any                `json:"default"`
	Minimum     *float64           `json:"minimum"`
	Maximum     *float64           `json:"maximum"`
	MinLength   *int               `json:"minLength"`
	MaxLength   *int               `json:"maxLength"`
	MinItems    *int               `json:"minItems"`
	MaxItems    *int               `json:"maxItems"`
	Pattern     string             `json:"pattern"`
	AnyOf       []*schema          `json:"anyOf"`
	OneOf       []*schema          `json:"oneOf"`
	AllOf       []*schema          `json:"allOf"`
	extra       *schema            // additionalProperties as a schema
	closed      bool               // additionalProperties: false
	expression  *regexp.Regexp
	initialized bool
}

// types is "string" or ["string", "null"].
type types []string

// UnmarshalJSON reads one type or a list.
func (t *types) UnmarshalJSON(b []byte) error {
	var one string
	if json.Unmarshal(b, &one) == nil {
		*t = types{one}
		return nil
	}
	return json.Unmarshal(b, (*[]string)(t))
}

// parseSchema reads the parameters of a tool. A schema that cannot be read checks nothing
// but that the arguments are an object.
func parseSchema(raw json.RawMessage) *schema {
	s := &schema{}
	if len(raw) > 0 && json.Unmarshal(raw, s) != nil {
		s = &schema{}
	}
	s.prepare()
	return s
}

func (s *schema) prepare() {
	if s == nil || s.initialized {
		return
	}
	s.initialized = true
	if string(s.Additional) == "false" {
		s.closed = true
	} else if len(s.Additional) > 0 && s.Additional[0] == '{' {
		s.extra = &schema{}
		if json.Unmarshal(s.Additional, s.extra) != nil {
			s.extra = nil
		}
	}
	if s.Pattern != "" {
		s.expression, _ = regexp.Compile(s.Pattern) // look-around is not Go's: not checked then
	}
	for _, sub := range slices.Concat([]*schema{s.Items, s.extra}, s.AnyOf, s.OneOf, s.AllOf, slices.Collect(maps.Values(s.Properties))) {
		sub.prepare()
	}
}

// apply coerces the arguments and checks them. Numbers keep their digits.
func (s *schema) apply(raw json.RawMessage) (json.RawMessage, error) {
	v, err := decode(raw)
	if err != nil {
		return nil, err
	}
	v = s.coerce(v)
	if err := s.check("", v); err != nil {
		return nil, err
	}
	return json.RawMessage(JSON(v)), nil
}

func decode(raw []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	err := d.Decode(&v)
	return v, err
}

func (s *schema) allows(t string) bool {
	return slices.Contains(s.Types, t) || t == "integer" && slices.Contains(s.Types, "number") || t == "null" && s.Nullable
}

// coerce turns what a model meant into what the schema wants, or returns v as it is.
func (s *schema) coerce(v any) any {
	if s == nil {
		return v
	}
	for _, alternatives := range [][]*schema{s.AnyOf, s.OneOf} {
		if len(alternatives) > 0 && len(s.Types) == 0 {
			return coerceAny(alternatives, v)
		}
	}
	if len(s.Types) > 0 {
		v = s.scalar(v)
	}
	switch v := v.(type) {
	case map[string]any:
		return s.members(v)
	case []any:
		for i := range v {
			v[i] = s.Items.coerce(v[i])
		}
	}
	return v
}

// coerceAny takes the value as it is where one alternative accepts it.
func coerceAny(alternatives []*schema, v any) any {
	for _, a := range alternatives {
		if a.check("", v) == nil {
			return v
		}
	}
	for _, a := range alternatives {
		if c := a.coerce(v); a.check("", c) == nil {
			return c
		}
	}
	return v
}

func (s *schema) scalar(v any) any {
	switch x := v.(type) {
	case string:
		if !s.allows("string") {
			v = s.fromText(x)
		}
	case json.Number:
		if s.allows("integer") && !s.allows("number") {
			v = whole(x)
		}
	}
	if s.allows("array") {
		switch v.(type) {
		case string, json.Number, bool:
			if !s.allows(kindOf(v)) {
				return []any{v}
			}
		}
	}
	return v
}

func (s *schema) fromText(text string) any {
	t := strings.TrimSpace(text)
	switch {
	case t == "null" && s.allows("null"):
		return nil
	case s.allows("boolean") && strings.EqualFold(t, "true"):
		return true
	case s.allows("boolean") && strings.EqualFold(t, "false"):
		return false
	}
	if (s.allows("number") || s.allows("integer")) && json.Valid([]byte(t)) {
		if v, err := decode([]byte(t)); err == nil {
			if n, ok := v.(json.Number); ok && (s.allows("number") || kindOf(whole(n)) == "integer") {
				if s.allows("number") {
					return n
				}
				return whole(n)
			}
		}
	}
	if t != "" && (t[0] == '[' && s.allows("array") || t[0] == '{' && s.allows("object")) {
		if v, err := decode([]byte(t)); err == nil && json.Valid([]byte(t)) {
			return v
		}
	}
	return text
}

// whole turns 5.0 and 5e0 into 5; other numbers stay.
func whole(n json.Number) json.Number {
	if kindOf(n) == "integer" {
		return n
	}
	f, err := n.Float64()
	if err != nil || f != math.Trunc(f) || math.Abs(f) > 1<<53 {
		return n
	}
	return json.Number(strconv.FormatInt(int64(f), 10))
}

// members coerces the properties of an object; null for an optional property that cannot
// be null means that it was left out.
// A required property with a default need not be given.
func (s *schema) members(m map[string]any) any {
	for _, k := range s.Required {
		if p := s.Properties[k]; p != nil && p.Default != nil && m[k] == nil && !p.allows("null") {
			m[k] = p.Default
		}
	}
	for k, v := range m {
		p, known := s.Properties[k]
		if !known {
			p = s.extra
		}
		if p == nil {
			continue
		}
		v = p.coerce(v)
		if v == nil && known && !slices.Contains(s.Required, k) && len(p.Types) > 0 && !p.allows("null") {
			delete(m, k)
			continue
		}
		m[k] = v
	}
	return m
}

func kindOf(v any) string {
	switch x := v.(type) {
	case nil:
		return "null"
	case bool:
		return "boolean"
	case string:
		return "string"
	case json.Number:
		if strings.ContainsAny(x.String(), ".eE") {
			return "number"
		}
		return "integer"
	case []any:
		return "array"
	}
	return "object"
}

// check names the field that is wrong and what was expected.
func (s *schema) check(at string, v any) error {
	if s == nil {
		return nil
	}
	where := cmp.Or(at, "arguments")
	if k := kindOf(v); len(s.Types) > 0 && !s.allows(k) {
		return fmt.Errorf("%s: expected %s, got %s %s", where, strings.Join(s.Types, " or "), k, clip(JSON(v)))
	}
	if v == nil && s.Nullable {
		return nil
	}
	if len(s.Enum) > 0 && !slices.ContainsFunc(s.Enum, func(e any) bool { return same(e, v) }) {
		return fmt.Errorf("%s: %s is none of %s%s", where, clip(JSON(v)), JSON(s.Enum), near(v, s.Enum))
	}
	if s.Const != nil && !same(s.Const, v) {
		return fmt.Errorf("%s: expected %s, got %s", where, JSON(s.Const), clip(JSON(v)))
	}
	if err := s.alternatives(at, v); err != nil {
		return err
	}
	switch v := v.(type) {
	case string:
		return s.checkText(where, v)
	case json.Number:
		return s.checkNumber(where, v)
	case []any:
		return s.checkList(at, v)
	case map[string]any:
		return s.checkObject(at, v)
	}
	return nil
}

func (s *schema) alternatives(at string, v any) error {
	for _, a := range s.AllOf {
		if err := a.check(at, v); err != nil {
			return err
		}
	}
	for _, list := range [][]*schema{s.AnyOf, s.OneOf} {
		var last error
		for _, a := range list {
			if last = a.check(at, v); last == nil {
				break
			}
		}
		if last != nil {
			return last
		}
	}
	return nil
}

func same(e, v any) bool {
	if n, ok := v.(json.Number); ok {
		f, err := n.Float64()
		want, isNumber := e.(float64)
		return err == nil && isNumber && f == want
	}
	return reflect.DeepEqual(e, v)
}

func near(v any, enum []any) string {
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

func (s *schema) checkText(where, v string) error {
	n := utf8.RuneCountInString(v)
	switch {
	case s.MinLength != nil && n < *s.MinLength:
		return fmt.Errorf("%s: %d characters, at least %d are needed", where, n, *s.MinLength)
	case s.MaxLength != nil && n > *s.MaxLength:
		return fmt.Errorf("%s: %d characters, at most %d are allowed", where, n, *s.MaxLength)
	case s.expression != nil && !s.expression.MatchString(v):
		return fmt.Errorf("%s: %q does not match %s", where, clip(v), s.Pattern)
	}
	return nil
}

func (s *schema) checkNumber(where string, v json.Number) error {
	f, err := v.Float64()
	switch {
	case err != nil:
		return fmt.Errorf("%s: %s is too large", where, v)
	case s.Minimum != nil && f < *s.Minimum:
		return fmt.Errorf("%s: %s is less than %v", where, v, *s.Minimum)
	case s.Maximum != nil && f > *s.Maximum:
		return fmt.Errorf("%s: %s is more than %v", where, v, *s.Maximum)
	}
	return nil
}

func (s *schema) checkList(at string, v []any) error {
	if s.MinItems != nil && len(v) < *s.MinItems || s.MaxItems != nil && len(v) > *s.MaxItems {
		return fmt.Errorf("%s: %d items are too few or too many", cmp.Or(at, "arguments"), len(v))
	}
	for i, item := range v {
		if err := s.Items.check(fmt.Sprintf("%s[%d]", at, i), item); err != nil {
			return err
		}
	}
	return nil
}

func (s *schema) checkObject(at string, v map[string]any) error {
	join := func(k string) string {
		if at == "" {
			return k
		}
		return at + "." + k
	}
	for _, k := range s.Required {
		if _, ok := v[k]; !ok {
			return fmt.Errorf("%s: missing, it is required%s", join(k), s.instead(v, k))
		}
	}
	for _, k := range slices.Sorted(maps.Keys(v)) {
		p, known := s.Properties[k]
		if !known {
			p = s.extra
		}
		if !known && s.closed {
			known := slices.Sorted(maps.Keys(s.Properties))
			if n := nearest.Name(k, known); n != "" {
				return fmt.Errorf("%s: unknown parameter (did you mean %s?)", join(k), n)
			}
			return fmt.Errorf("%s: unknown parameter, known are %s", join(k), strings.Join(known, ", "))
		}
		if err := p.check(join(k), v[k]); err != nil {
			return err
		}
	}
	return nil
}

// instead names an unknown key that was probably meant as the missing one.
func (s *schema) instead(v map[string]any, missing string) string {
	for _, k := range slices.Sorted(maps.Keys(v)) {
		if _, known := s.Properties[k]; !known && nearest.Name(k, []string{missing}) != "" {
			return fmt.Sprintf(" (got %s)", k)
		}
	}
	return ""
}
