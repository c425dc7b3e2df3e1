package configs

import (
	"encoding"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

var _ kong.Resolver = (*Layers)(nil)

// Validate has nothing to do: Load has checked everything.
func (l *Layers) Validate(*kong.Application) error { return nil }

// Resolve gives kong the value of the highest layer for a flag that the command line
// does not set.
func (l *Layers) Resolve(_ *kong.Context, _ *kong.Path, f *kong.Flag) (any, error) {
	es := l.entries[f.Name]
	if len(es) == 0 || l.scope.here[f.Name] == nil {
		return nil, nil
	}
	return es[len(es)-1].value, nil
}

// Given returns the highest value below the command line that a flag of this name has,
// as text. It returns false when the flag has only its default.
func (l *Layers) Given(name string) (string, bool) {
	es := l.entries[name]
	if len(es) == 0 {
		return "", false
	}
	return Text(es[len(es)-1].typed), true
}

// Setting is one resolved value and where it came from.
type Setting struct {
	Name   string `json:"name"`
	Value  string `json:"value"`
	Layer  Layer  `json:"layer"`
	Source string `json:"source"` // file and line, variable or flag
	Help   string `json:"-"`
}

// Settings lists what every flag of the chosen command resolves to, by name. ctx is the
// parsed command line, or nil to look below the flags only. Values under the name of a
// secret are hidden.
func (l *Layers) Settings(ctx *kong.Context) []Setting {
	var out []Setting
	for name, f := range l.scope.here {
		if name != f.Name {
			continue
		}
		s := Setting{Name: f.Name, Value: f.Default, Layer: FromDefault, Source: "default", Help: f.Help}
		if es := l.entries[f.Name]; len(es) > 0 {
			e := es[len(es)-1]
			s.Value = Text(e.typed)
			s.Layer = e.layer
			s.Source = e.at
		}
		if given := onLine(ctx, f.Name); given != nil {
			s.Value = Text(given.Target)
			s.Layer = FromFlag
			s.Source = "--" + f.Name
		}
		if SecretName(f.Name) && s.Value != "" {
			s.Value = Hidden
		}
		out = append(out, s)
	}
	slices.SortFunc(out, func(a, b Setting) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// onLine finds a flag that the command line itself sets, or nil.
func onLine(ctx *kong.Context, name string) *kong.Flag {
	if ctx == nil {
		return nil
	}
	for _, p := range ctx.Path {
		if p.Flag != nil && p.Flag.Name == name && !p.Resolved {
			return p.Flag
		}
	}
	return nil
}

// CheckRanges checks the flags of the command line against their `range` tags; the
// layers below were checked by Load.
func CheckRanges(ctx *kong.Context) error {
	var errs []error
	for _, p := range ctx.Path {
		if p.Flag == nil || p.Resolved {
			continue
		}
		if err := InRange(p.Flag, p.Flag.Target); err != nil {
			errs = append(errs, &Error{File: "--" + p.Flag.Name, Msg: err.Error()})
		}
	}
	return errors.Join(errs...)
}

// Text writes a flag's value as it could be given: lists with commas, mappings as
// key=value with semicolons, by key.
func Text(v reflect.Value) string {
	if !v.IsValid() {
		return ""
	}
	if m, ok := v.Interface().(encoding.TextMarshaler); ok && (v.Kind() != reflect.Pointer || !v.IsNil()) {
		if b, err := m.MarshalText(); err == nil {
			return string(b)
		}
	}
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			return ""
		}
		return Text(v.Elem())
	case reflect.Slice:
		var parts []string
		for i := range v.Len() {
			parts = append(parts, Text(v.Index(i)))
		}
		return strings.Join(parts, ",")
	case reflect.Map:
		var parts []string
		for _, k := range v.MapKeys() {
			parts = append(parts, Text(k)+"="+Text(v.MapIndex(k)))
		}
		slices.Sort(parts)
		return strings.Join(parts, ";")
	}
	return fmt.Sprint(v.Interface())
}
