package configs

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"hermes/internal/late"
	"hermes/internal/nearest"
)

// Sections are the top-level keys of a run file that are not flags.
func Sections() []string {
	return []string{"backends", "envs", "own-toolsets", "distributions", "training"}
}

// Section is a reserved part of the run file, kept as it was written until its owner
// decodes it. The zero value is a section that the file does not have.
type Section struct {
	Name string
	File string
	Node *yaml.Node // nil when absent
}

// Section returns a reserved section; the run file's wins over the user's as a whole.
func (l *Layers) Section(name string) Section {
	if s, ok := l.sections[name]; ok {
		return s
	}
	return Section{Name: name}
}

func (l *Layers) section(d *Document, k, v *yaml.Node) error {
	l.sections[k.Value] = Section{Name: k.Value, File: d.File, Node: v}
	return d.noAddresses(k.Value, v)
}

// Keys lists the keys of the section in the order of the file.
func (s Section) Keys() []string {
	var keys []string
	for k := range (&Document{Root: mappingOf(s.Node)}).pairs() {
		keys = append(keys, k.Value)
	}
	return keys
}

// Sub returns the part of the section under a key, such as backends.docker.
func (s Section) Sub(key string) Section {
	_, v := (&Document{Root: mappingOf(s.Node)}).find(key)
	return Section{Name: s.Name + "." + key, File: s.File, Node: v}
}

func mappingOf(n *yaml.Node) *yaml.Node {
	if n == nil || n.Kind != yaml.MappingNode {
		return nil
	}
	return n
}

// Errorf is a mistake in this section.
func (s Section) Errorf(format string, args ...any) error {
	e := &Error{File: s.File, Msg: s.Name + ": " + fmt.Sprintf(format, args...)}
	if s.Node != nil {
		e.Line = s.Node.Line
	}
	return e
}

// OnlyKeys objects to keys that are not in the list, naming the nearest one.
func (s Section) OnlyKeys(known []string) error {
	if s.Node == nil {
		return nil
	}
	if s.Node.Kind != yaml.MappingNode {
		return s.Errorf("want keys and values, got %s", describe(s.Node))
	}
	var errs []error
	for k := range (&Document{Root: s.Node}).pairs() {
		if !slices.Contains(known, k.Value) {
			errs = append(errs, &Error{File: s.File, Line: k.Line, Msg: "unknown key " + s.Name + "." + k.Value + nearest.Hint(k.Value, known)})
		}
	}
	return errors.Join(errs...)
}

var (
	unknownField = late.Regexp(`^line (\d+): field (.+) not found in type .*$`)
	wrongType    = late.Regexp("^line (\\d+): cannot unmarshal (\\S+)(?: `(.*)`)? into (.+)$")
)

// Written reports whether anybody wrote the section.
func (s Section) Written() bool { return s.Node != nil }

// Decode reads a section into a struct with yaml tags and refuses keys that it does not
// have, naming file, line and the nearest key. An absent section leaves into as it is.
func (s Section) Decode(into any) error {
	if s.Node == nil {
		return nil
	}
	// The decoder that knows strictness reads bytes; leading empty lines keep the
	// line numbers of the file when the node is written out at its own place.
	raw, err := yaml.Marshal(s.Node)
	if err != nil {
		return s.Errorf("%v", err)
	}
	lines := linesOf(raw, s.Node)
	d := yaml.NewDecoder(bytes.NewReader(raw))
	d.KnownFields(true)
	err = d.Decode(into)
	var te *yaml.TypeError
	if !errors.As(err, &te) {
		if err != nil {
			return s.Errorf("%v", err)
		}
		return nil
	}
	var errs []error
	for _, msg := range te.Errors {
		errs = append(errs, s.typeError(msg, lines, reflect.TypeOf(into)))
	}
	return errors.Join(errs...)
}

// linesOf maps the lines of the text that Marshal made of a node to those of its file,
// by walking both trees in step.
func linesOf(raw []byte, original *yaml.Node) map[int]int {
	var copied yaml.Node
	lines := map[int]int{}
	if yaml.Unmarshal(raw, &copied) != nil || len(copied.Content) == 0 {
		return lines
	}
	var step func(a, b *yaml.Node)
	step = func(a, b *yaml.Node) {
		if _, ok := lines[a.Line]; !ok {
			lines[a.Line] = b.Line
		}
		for i := 0; i < len(a.Content) && i < len(b.Content); i++ {
			step(a.Content[i], b.Content[i])
		}
	}
	step(copied.Content[0], original)
	return lines
}

func (s Section) typeError(msg string, lines map[int]int, t reflect.Type) error {
	at := func(n string) int { i, _ := strconv.Atoi(n); return lines[i] }
	if m := unknownField.FindStringSubmatch(msg); m != nil {
		return &Error{File: s.File, Line: at(m[1]), Msg: "unknown key " + m[2] + " in " + s.Name + nearest.Hint(m[2], yamlKeys(t, map[reflect.Type]bool{}))}
	}
	if m := wrongType.FindStringSubmatch(msg); m != nil {
		got := strings.TrimPrefix(m[2], "!!")
		if m[3] != "" {
			got += " " + m[3]
		}
		return &Error{File: s.File, Line: at(m[1]), Msg: fmt.Sprintf("%s: want %s, got %s", s.Name, m[4], got)}
	}
	return s.Errorf("%s", msg)
}

// yamlKeys lists the keys of a struct and of the structs in it.
func yamlKeys(t reflect.Type, seen map[reflect.Type]bool) []string {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice || t.Kind() == reflect.Map {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct || seen[t] {
		return nil
	}
	seen[t] = true
	var keys []string
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		if name == "" {
			name = strings.ToLower(f.Name)
		}
		if f.IsExported() && name != "-" {
			keys = append(keys, name)
			keys = append(keys, yamlKeys(f.Type, seen)...)
		}
	}
	return keys
}

// noSecrets objects to keys and values of a run file that look like secrets, at any
// depth. The message names the key, never the value.
func (d *Document) noSecrets(known *Redactor) error {
	if d == nil || d.Root == nil {
		return nil
	}
	var errs []error
	var visit func(path string, n *yaml.Node)
	visit = func(path string, n *yaml.Node) {
		switch n.Kind {
		case yaml.ScalarNode:
			if SecretValue(n.Value) || known.Knows(n.Value) {
				errs = append(errs, &Error{File: d.File, Line: n.Line, Msg: path + " holds what looks like a secret; " + secretAdvice})
			}
		case yaml.SequenceNode:
			for _, c := range n.Content {
				visit(path, c)
			}
		case yaml.MappingNode:
			for i := 0; i+1 < len(n.Content); i += 2 {
				k, v := n.Content[i], n.Content[i+1]
				p := strings.TrimPrefix(path+"."+k.Value, ".")
				if SecretName(k.Value) && follow(v).Kind == yaml.ScalarNode && follow(v).Value != "" {
					errs = append(errs, &Error{File: d.File, Line: k.Line, Msg: "key " + p + " looks like a secret; " + secretAdvice})
					continue
				}
				visit(p, v)
			}
		}
	}
	visit("", d.Root)
	return errors.Join(errs...)
}

const secretAdvice = "secrets come from the environment or $HERMES_HOME/.env, never from a run file"
