package configs

import (
	"encoding"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/alecthomas/kong"
	"go.yaml.in/yaml/v3"

	"hermes/internal/nearest"
)

// fromNode turns the YAML value of a flag into what kong's mapper takes, after checking
// its type. Messages do not begin with the key.
func fromNode(flag *kong.Flag, n *yaml.Node) (any, error) {
	n = follow(n)
	t := flag.Target.Type()
	switch {
	case flag.IsSlice():
		return listValue(t, n)
	case flag.IsMap():
		return mapValue(t, n)
	case n.Kind != yaml.ScalarNode:
		return nil, fmt.Errorf("want %s, got %s", want(t), describe(n))
	}
	return scalarValue(t, n)
}

func follow(n *yaml.Node) *yaml.Node {
	for n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	return n
}

// scalarValue returns the text of a scalar that fits a flag of type t.
func scalarValue(t reflect.Type, n *yaml.Node) (any, error) {
	n = follow(n)
	ok := n.Kind == yaml.ScalarNode
	switch kindOf(t) {
	case reflect.Bool:
		ok = ok && n.Tag == "!!bool"
	case reflect.Int:
		ok = ok && n.Tag == "!!int"
	case reflect.Float64:
		ok = ok && (n.Tag == "!!int" || n.Tag == "!!float")
	default:
		ok = ok && n.Tag != "!!null" && n.Tag != "!!bool" && n.Tag != "!!binary"
	}
	if !ok {
		return nil, fmt.Errorf("want %s, got %s", want(t), describe(n))
	}
	if kindOf(t) == reflect.Int { // 1_000 and 0x10 are integers of YAML, not of kong
		var i int64
		if err := n.Decode(&i); err != nil {
			return nil, fmt.Errorf("want %s, got %s", want(t), describe(n))
		}
		return strconv.FormatInt(i, 10), nil
	}
	if kindOf(t) == reflect.Float64 {
		var f float64
		if err := n.Decode(&f); err != nil || math.IsNaN(f) || math.IsInf(f, 0) {
			return nil, fmt.Errorf("want a number, got %s", describe(n))
		}
		return strconv.FormatFloat(f, 'g', -1, 64), nil
	}
	if kindOf(t) == reflect.Bool {
		return strings.ToLower(n.Value), nil
	}
	return n.Value, nil
}

func listValue(t reflect.Type, n *yaml.Node) (any, error) {
	if n.Kind == yaml.ScalarNode && n.Tag == "!!str" {
		return n.Value, nil // "a,b", as on the command line
	}
	if n.Kind != yaml.SequenceNode {
		return nil, fmt.Errorf("want a list, got %s", describe(n))
	}
	out := []any{}
	for i, c := range n.Content {
		v, err := element(t.Elem(), c)
		if err != nil {
			return nil, fmt.Errorf("item %d: %w", i+1, err)
		}
		out = append(out, v)
	}
	return out, nil
}

func mapValue(t reflect.Type, n *yaml.Node) (any, error) {
	if n.Kind == yaml.ScalarNode && n.Tag == "!!str" {
		return n.Value, nil // "a=b;c=d", as on the command line
	}
	if n.Kind != yaml.MappingNode {
		return nil, fmt.Errorf("want keys and values, got %s", describe(n))
	}
	out := map[string]any{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		v, err := element(t.Elem(), n.Content[i+1])
		if err != nil {
			return nil, fmt.Errorf("%s: %w", n.Content[i].Value, err)
		}
		out[n.Content[i].Value] = v
	}
	return out, nil
}

// element is a value inside a list or a mapping. Kong passes these through JSON, so
// numbers and booleans keep their type; `any` takes whatever is there.
func element(t reflect.Type, n *yaml.Node) (any, error) {
	n = follow(n)
	if t.Kind() == reflect.Interface || kindOf(t) == reflect.Invalid {
		var v any
		err := n.Decode(&v)
		return v, err
	}
	text, err := scalarValue(t, n)
	if err != nil {
		return nil, err
	}
	switch kindOf(t) {
	case reflect.String:
		return text, nil
	}
	var v any
	err = n.Decode(&v)
	return v, err
}

// kindOf sorts the types of flags: Bool, Int, Float64, String for everything that is
// written as text, Invalid for structured ones.
func kindOf(t reflect.Type) reflect.Kind {
	if t == reflect.TypeFor[time.Duration]() || textual(t) {
		return reflect.String
	}
	switch t.Kind() {
	case reflect.Pointer:
		return kindOf(t.Elem())
	case reflect.Bool:
		return reflect.Bool
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return reflect.Int
	case reflect.Float32, reflect.Float64:
		return reflect.Float64
	case reflect.String:
		return reflect.String
	}
	return reflect.Invalid
}

// textual reports whether a type reads itself from text or from kong's scanner.
func textual(t reflect.Type) bool {
	p := reflect.PointerTo(t)
	return p.Implements(reflect.TypeFor[encoding.TextUnmarshaler]()) || p.Implements(reflect.TypeFor[kong.MapperValue]())
}

// want names the values of a type for a message.
func want(t reflect.Type) string {
	switch {
	case t == reflect.TypeFor[time.Duration]():
		return "a duration such as 60s"
	case t == reflect.TypeFor[Size]():
		return "a size such as 2GB"
	}
	switch kindOf(t) {
	case reflect.Bool:
		return "true or false"
	case reflect.Int:
		return "an integer"
	case reflect.Float64:
		return "a number"
	}
	return "text"
}

// try decodes a value as kong will and checks enum and range. Messages do not begin
// with the flag's name.
func try(flag *kong.Flag, v any) (reflect.Value, error) {
	target := reflect.New(flag.Target.Type()).Elem()
	switch target.Kind() {
	case reflect.Slice:
		target.Set(reflect.MakeSlice(target.Type(), 0, 0))
	case reflect.Map:
		target.Set(reflect.MakeMap(target.Type()))
	}
	if s, ok := v.(string); ok && flag.Target.Type() == reflect.TypeFor[time.Duration]() {
		if _, err := time.ParseDuration(s); err != nil {
			return target, fmt.Errorf("want a duration with its unit such as 60s or 2h, got %q", s)
		}
	}
	set := flag.Set
	err := flag.Parse(kong.Scan().PushTyped(v, kong.FlagValueToken), target)
	flag.Set = set
	if err != nil {
		return target, fmt.Errorf("%s", strings.TrimPrefix(err.Error(), flag.ShortSummary()+": "))
	}
	if err := inEnum(flag, target); err != nil {
		return target, err
	}
	return target, InRange(flag, target)
}

func inEnum(flag *kong.Flag, v reflect.Value) error {
	if flag.Enum == "" {
		return nil
	}
	texts := []string{fmt.Sprint(v.Interface())}
	if v.Kind() == reflect.Slice {
		texts = nil
		for i := range v.Len() {
			texts = append(texts, fmt.Sprint(v.Index(i).Interface()))
		}
	}
	for _, s := range texts {
		if !flag.EnumMap()[s] {
			return fmt.Errorf("%q is none of %s%s", s, strings.Join(flag.EnumSlice(), ", "), nearest.Hint(s, flag.EnumSlice()))
		}
	}
	return nil
}

// InRange checks a value against the tag `range:"MIN:MAX"` of its flag, either end of
// which may be missing. The ends are written as the flag's values are (durations, sizes
// and numbers) and belong to the range. Lists are checked item by item.
func InRange(flag *kong.Flag, v reflect.Value) error {
	spec := flag.Tag.Get("range")
	if spec == "" {
		return nil
	}
	lo, hi, ok := strings.Cut(spec, ":")
	if !ok {
		return fmt.Errorf("range tag %q: want MIN:MAX", spec)
	}
	if v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return nil
		}
		v = v.Elem()
	}
	if v.Kind() == reflect.Slice {
		for i := range v.Len() {
			if err := within(v.Index(i), lo, hi); err != nil {
				return fmt.Errorf("item %d: %w", i+1, err)
			}
		}
		return nil
	}
	return within(v, lo, hi)
}

func within(v reflect.Value, lo, hi string) error {
	n, ok := number(v)
	if !ok {
		return fmt.Errorf("a range for a value of type %s", v.Type())
	}
	min, errMin := bound(v.Type(), lo)
	max, errMax := bound(v.Type(), hi)
	if errMin != nil || errMax != nil {
		return fmt.Errorf("range %s:%s cannot be read", lo, hi)
	}
	if n == n && (lo == "" || n >= min) && (hi == "" || n <= max) {
		return nil
	}
	limit := fmt.Sprintf("%s to %s", lo, hi)
	if lo == "" {
		limit = hi + " or less"
	} else if hi == "" {
		limit = lo + " or more"
	}
	return fmt.Errorf("%v is out of range (%s)", v.Interface(), limit)
}

func number(v reflect.Value) (float64, bool) {
	switch {
	case v.CanInt():
		return float64(v.Int()), true
	case v.CanUint():
		return float64(v.Uint()), true
	case v.CanFloat():
		return v.Float(), true
	}
	return 0, false
}

func bound(t reflect.Type, s string) (float64, error) {
	if s == "" {
		return 0, nil
	}
	switch t {
	case reflect.TypeFor[time.Duration]():
		d, err := time.ParseDuration(s)
		return float64(d), err
	case reflect.TypeFor[Size]():
		var z Size
		err := z.UnmarshalText([]byte(s))
		return float64(z), err
	}
	return strconv.ParseFloat(s, 64)
}
