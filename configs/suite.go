package configs

import (
	"embed"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"hermes/internal/nearest"
)

//go:embed suites/*.yaml
var suites embed.FS

// Suite says what an evaluation asks and how it judges. Settings of the run stand beside
// its own keys, under the names of their flags; see [Options.Suite].
type Suite struct {
	Name        string
	Description string
	Dataset     []string          // paths are meant from the suite's folder
	Env         string            // an environment instead of a dataset
	Set         map[string]any    // settings of the environment
	Split       string            // of the environment's rows: train or eval
	Grader      *yaml.Node        // a name, or a list of graders
	Matrix      map[string][]Cell // by axis, the values to try, each with each
	doc         *Document
}

// Cell is one value of a matrix: a text, or a list of texts for a flag that takes one.
type Cell []string

// UnmarshalYAML reads a text or a list of texts.
func (c *Cell) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind == yaml.ScalarNode {
		*c = Cell{n.Value}
		return nil
	}
	return n.Decode((*[]string)(c))
}

// SuiteKeys are the keys of a suite that are no flags.
func SuiteKeys() []string {
	return []string{"name", "description", "dataset", "env", "set", "split", "grader", "matrix"}
}

// Axes are the settings that a matrix can try: whom is asked, with which tools, prompts and
// sampling.
func Axes() []string {
	return []string{"model", "toolsets", "system", "ephemeral-system", "prefill", "temperature", "top-p", "min-p", "top-k", "max-tokens", "max-turns", "reasoning-effort"}
}

// Suites lists the names of the embedded suites, sorted.
func Suites() []string {
	files, err := suites.ReadDir("suites")
	if err != nil {
		panic("embedded suites: " + err.Error())
	}
	var names []string
	for _, f := range files {
		names = append(names, strings.TrimSuffix(f.Name(), ".yaml"))
	}
	return names
}

// ReadSuite reads the suite in a YAML file, or the embedded one of that name. It returns
// nil for what is neither: a dataset.
func ReadSuite(name string) (*Suite, error) {
	var doc *Document
	var err error
	folder := ""
	switch {
	case slices.Contains(Suites(), name):
		var raw []byte
		raw, err = suites.ReadFile("suites/" + name + ".yaml")
		if err == nil {
			doc, err = Read("suite "+name, raw)
		}
	case strings.HasSuffix(name, ".yaml") || strings.HasSuffix(name, ".yml"):
		doc, err = ReadFile(name, name)
		folder = filepath.Dir(name)
	default:
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return newSuite(doc, folder, name)
}

func newSuite(doc *Document, folder, name string) (*Suite, error) {
	s := &Suite{doc: doc}
	var errs []error
	for k, v := range doc.pairs() {
		if err := s.key(k.Value, v); err != nil {
			errs = append(errs, &Error{File: doc.File, Line: v.Line, Msg: k.Value + ": " + plainYAML(err)})
		}
	}
	bad := func(format string, args ...any) {
		errs = append(errs, &Error{File: doc.File, Msg: fmt.Sprintf(format, args...)})
	}
	if s.Name == "" {
		s.Name = strings.TrimSuffix(strings.TrimSuffix(filepath.Base(name), ".yml"), ".yaml")
	}
	if s.Name != filepath.Base(s.Name) || s.Name == "." || s.Name == ".." {
		bad("name %q: want a plain name; the run is called so", s.Name)
	}
	switch {
	case len(s.Dataset) > 0 && s.Env != "":
		bad("both dataset and env: want one of them")
	case len(s.Dataset) == 0 && s.Env == "":
		bad("neither dataset nor env: nothing to ask")
	case s.Env == "" && (len(s.Set) > 0 || s.Split != ""):
		bad("set and split belong to an env")
	}
	if s.Split != "" && s.Split != "train" && s.Split != "eval" {
		bad("split %q: want train or eval", s.Split)
	}
	for name, cells := range s.Matrix {
		if !slices.Contains(Axes(), name) {
			bad("matrix: unknown key %s%s (have %s)", name, nearest.Hint(name, Axes()), strings.Join(Axes(), ", "))
		}
		if len(cells) == 0 {
			bad("matrix: %s is empty", name)
		}
	}
	for i, d := range s.Dataset {
		if folder != "" && !strings.Contains(d, ":") && d != "-" && !filepath.IsAbs(d) {
			s.Dataset[i] = filepath.Join(folder, d)
		}
	}
	return s, errors.Join(errs...)
}

func (s *Suite) key(name string, v *yaml.Node) error {
	switch name {
	case "name":
		return v.Decode(&s.Name)
	case "description":
		return v.Decode(&s.Description)
	case "dataset":
		return v.Decode((*Cell)(&s.Dataset))
	case "env":
		return v.Decode(&s.Env)
	case "set":
		return v.Decode(&s.Set)
	case "split":
		return v.Decode(&s.Split)
	case "grader":
		s.Grader = v
	case "matrix":
		return v.Decode(&s.Matrix)
	}
	return nil
}

// plainYAML is an error of the decoder without its Go types.
func plainYAML(err error) string {
	var te *yaml.TypeError
	if errors.As(err, &te) {
		return wrongType.ReplaceAllString(strings.Join(te.Errors, "; "), "$2 `$3` does not fit here")
	}
	return err.Error()
}

// suite adds the settings that stand in a suite. Every other key must be its own.
func (l *Layers) suite(s *Suite) error {
	if s == nil {
		return nil
	}
	errs := []error{}
	first := map[string]string{}
	for k, v := range s.doc.pairs() {
		if slices.Contains(SuiteKeys(), k.Value) {
			continue
		}
		f := l.scope.here[k.Value]
		if f == nil || f.Name == "grader" {
			known := append(l.scope.keys(), SuiteKeys()...)
			errs = append(errs, &Error{File: s.doc.File, Line: k.Line, Msg: "unknown key " + k.Value + nearest.Hint(k.Value, known)})
			continue
		}
		if other, twice := first[f.Name]; twice {
			errs = append(errs, &Error{File: s.doc.File, Line: k.Line, Msg: fmt.Sprintf("%s and %s are the same setting", other, k.Value)})
			continue
		}
		first[f.Name] = k.Value
		errs = append(errs, l.key(s.doc, k, v, f, FromSuite))
	}
	return errors.Join(errs...)
}
