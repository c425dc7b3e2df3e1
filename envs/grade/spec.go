package grade

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"hermes/configs"
	"hermes/datasets"
	"hermes/internal/nearest"
)

// Spec is a grader as it was asked for: a name, one grader with its options, or a list of
// graders. The zero value is the row's own: see the kind "row". It decodes from YAML and
// JSON, strictly: an unknown grader or key is an error that names the nearest.
type Spec struct {
	Kind   string
	Name   string  // under which its reward is among the parts of a list; empty: Kind
	Weight float64 // in a list; 0 is reported and counts nothing
	Gate   bool    // in a list: below Pass, the reward of the whole is 0
	Pass   float64 // what a gate wants at least

	o     options
	canon string
}

// Parse reads NAME, or one grader or a list of them as YAML or JSON.
func Parse(text string) (Spec, error) {
	if err := configs.CheckYAML("grader", []byte(text)); err != nil {
		return Spec{}, err
	}
	d := yaml.NewDecoder(strings.NewReader(text))
	var doc yaml.Node
	if err := d.Decode(&doc); err != nil && !errors.Is(err, io.EOF) {
		return Spec{}, fmt.Errorf("grader: %w", err)
	}
	if doc.IsZero() {
		return Spec{}, errors.New("grader: nothing is written; want a name or a list of graders")
	}
	if d.Decode(new(yaml.Node)) != io.EOF {
		return Spec{}, errors.New("grader: want one document")
	}
	var s Spec
	err := s.UnmarshalYAML(doc.Content[0])
	return s, err
}

const longestSpec = 1 << 20

// Load is [Parse] for what a user names: a grader, a list written on the spot, or a file
// that holds one. Empty is the zero Spec.
func Load(text string) (Spec, error) {
	text = strings.TrimSpace(text)
	switch {
	case text == "":
		return Spec{}, nil
	case strings.HasPrefix(text, "[") || strings.HasPrefix(text, "{"):
		return Parse(text)
	case known(text):
		return Parse(text)
	}
	f, err := os.Open(text)
	if err != nil {
		if strings.ContainsAny(text, "/.") {
			return Spec{}, fmt.Errorf("grader file: %w", err)
		}
		return Spec{}, unknown(text)
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, longestSpec+1))
	if err != nil {
		return Spec{}, fmt.Errorf("grader file %s: %w", text, err)
	}
	if len(raw) > longestSpec {
		return Spec{}, fmt.Errorf("grader file %s: longer than %d bytes", text, longestSpec)
	}
	s, err := Parse(string(raw))
	if err != nil {
		return Spec{}, fmt.Errorf("%s: %w", text, err)
	}
	return s, nil
}

// IsZero tells whether nothing was asked for: rows are judged by what they say themselves.
func (s Spec) IsZero() bool { return s.Kind == "" }

// String is the spec in one form, whatever the order of its keys: two that are equal grade
// alike.
func (s Spec) String() string { return s.canon }

// UnmarshalYAML reads a name, a mapping with the key kind, or a list of these.
func (s *Spec) UnmarshalYAML(n *yaml.Node) error {
	if err := plainTree(n, 0); err != nil {
		return err
	}
	*s = Spec{Weight: 1, Pass: 1}
	var err error
	switch n.Kind {
	case yaml.ScalarNode:
		err = s.named(n.Value, nil, n.Line)
	case yaml.SequenceNode:
		err = s.list(n)
	default:
		err = s.mapping(n)
	}
	if err != nil {
		return err
	}
	s.canon = n.Value
	if n.Kind != yaml.ScalarNode {
		var v any
		if err := n.Decode(&v); err != nil {
			return err
		}
		raw, err := json.Marshal(v)
		if err != nil {
			return fmt.Errorf("grader, line %d: %w", n.Line, err)
		}
		s.canon = string(raw)
	}
	return nil
}

// plainTree refuses aliases, which may contain themselves, and trees that are too deep.
func plainTree(n *yaml.Node, depth int) error {
	if n.Kind == yaml.AliasNode {
		return fmt.Errorf("grader, line %d: *%s: aliases cannot stand here", n.Line, n.Value)
	}
	if depth > 32 {
		return fmt.Errorf("grader, line %d: nested deeper than 32", n.Line)
	}
	for _, c := range n.Content {
		if err := plainTree(c, depth+1); err != nil {
			return err
		}
	}
	return nil
}

func (s *Spec) list(n *yaml.Node) error {
	c := &combined{rule: weighted}
	if err := n.Decode(&c.Of); err != nil {
		return err
	}
	s.Kind, s.o = "weighted", c
	return c.check()
}

func (s *Spec) mapping(n *yaml.Node) error {
	own := map[string]any{"name": &s.Name, "weight": &s.Weight, "gate": &s.Gate, "pass": &s.Pass, "kind": &s.Kind}
	rest := &yaml.Node{Kind: yaml.MappingNode, Line: n.Line}
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		if seen[key.Value] {
			return fmt.Errorf("grader, line %d: %s is given twice", key.Line, key.Value)
		}
		seen[key.Value] = true
		if into, ok := own[key.Value]; ok {
			if err := value.Decode(into); err != nil {
				return fmt.Errorf("grader, line %d: %s: %w", key.Line, key.Value, err)
			}
			continue
		}
		rest.Content = append(rest.Content, key, value)
	}
	if s.Kind == "" {
		return fmt.Errorf("grader, line %d: a grader without kind (have %s)", n.Line, strings.Join(Names(), ", "))
	}
	if !(s.Weight >= 0) || s.Weight > 1e9 {
		return fmt.Errorf("grader %s, line %d: weight %g: want 0 or more", s.Kind, n.Line, s.Weight)
	}
	if !(s.Pass >= 0 && s.Pass <= 1) {
		return fmt.Errorf("grader %s, line %d: pass %g: want 0 to 1", s.Kind, n.Line, s.Pass)
	}
	k, ok := find(s.Kind)
	if ok && !seen["weight"] && (s.Gate || k.reports) {
		s.Weight = 0
	}
	return s.named(s.Kind, rest, n.Line)
}

func (s *Spec) named(name string, rest *yaml.Node, line int) error {
	k, ok := find(name)
	if !ok {
		return fmt.Errorf("line %d: %w", line, unknown(name))
	}
	s.Kind, s.o = k.name, k.fresh()
	if rest == nil && k.reports {
		s.Weight = 0
	}
	if rest != nil {
		if err := knownKeys(k.name, rest, s.o); err != nil {
			return err
		}
		if err := rest.Decode(s.o); err != nil {
			return fmt.Errorf("grader %s: %w", k.name, err)
		}
	}
	if c, ok := s.o.(interface{ check() error }); ok {
		if err := c.check(); err != nil {
			return fmt.Errorf("grader %s, line %d: %w", k.name, line, err)
		}
	}
	return nil
}

// knownKeys refuses keys that the options do not have.
func knownKeys(name string, n *yaml.Node, o options) error {
	keys := []string{"kind", "name", "weight", "gate", "pass"}
	t := reflect.TypeOf(o).Elem()
	for i := range t.NumField() {
		if key, _, _ := strings.Cut(t.Field(i).Tag.Get("yaml"), ","); key != "" && key != "-" {
			keys = append(keys, key)
		}
	}
	for i := 0; i < len(n.Content); i += 2 {
		key := n.Content[i]
		found := false
		for _, k := range keys {
			found = found || k == key.Value
		}
		if !found {
			return fmt.Errorf("grader %s, line %d: unknown key %s%s; have %s", name, key.Line, key.Value, nearest.Hint(key.Value, keys), strings.Join(keys, ", "))
		}
	}
	return nil
}

// options returns what the spec grades with; the zero spec is the row's own.
func (s Spec) options() options {
	if s.o == nil {
		return &rowOwn{}
	}
	return s.o
}

// Bind gives the spec the gold answer of a row. A row that lacks a field it needs is a
// [*NeedError]; a row that is kept without a score is [envs.ErrUnscored].
func (s Spec) Bind(row datasets.Row) (Grader, error) {
	g, err := s.options().bind(row)
	if err != nil && s.Kind != "" {
		err = fmt.Errorf("grader %s: %w", s.Kind, err)
	}
	return g, err
}

// NeedsBox tells whether grading the row runs something in the agent's box.
func (s Spec) NeedsBox(row datasets.Row) bool {
	b, ok := s.options().(interface{ needsBox(datasets.Row) bool })
	return ok && b.needsBox(row)
}

// Time is how long grading the row may take in the box at most; 0: no time worth a name.
func (s Spec) Time(row datasets.Row) time.Duration {
	if b, ok := s.options().(interface {
		time(datasets.Row) time.Duration
	}); ok {
		return b.time(row)
	}
	return 0
}

// NeedsJudge tells whether grading the row asks a model.
func (s Spec) NeedsJudge(row datasets.Row) bool { return len(s.Judges(row)) > 0 }

// Judges are the names of the judges that grading the row asks; "" is the one without.
func (s Spec) Judges(row datasets.Row) []string {
	b, ok := s.options().(interface{ judges(datasets.Row) []string })
	if !ok {
		return nil
	}
	list := b.judges(row)
	slices.Sort(list)
	return slices.Compact(list)
}

// Binary tells whether every reward is 0 or 1, so that their mean is an accuracy.
func (s Spec) Binary() bool {
	b, ok := s.options().(interface{ binary() bool })
	return ok && b.binary()
}

// Key is what the grader reads of an answer, in one form: two answers with the same key
// are the same answer. It is what a majority votes on. False: there is nothing to read, or
// the grader does not read answers.
func (s Spec) Key(row datasets.Row, answer string) (string, bool) {
	if k, ok := s.options().(keyed); ok {
		return k.key(row, answer)
	}
	return "", false
}
