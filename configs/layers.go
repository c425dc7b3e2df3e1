package configs

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
	"go.yaml.in/yaml/v3"

	"hermes/internal/nearest"
)

// Layer is a place that settings come from, lowest first.
type Layer string

// The layers, lowest first.
const (
	FromDefault Layer = "default"
	FromPreset  Layer = "preset"
	FromUser    Layer = "user"
	FromSuite   Layer = "suite"
	FromRunFile Layer = "run file"
	FromEnv     Layer = "environment"
	FromFlag    Layer = "flag"
)

// UserFile is the name of the user's file in the home folder.
const UserFile = "config.yaml"

// Options say what [Load] reads.
type Options struct {
	App     *kong.Application
	Command *kong.Node // the chosen command; nil: every flag of every command may be set
	Env     Env
	RunFile string // path of `-c`; "" for none
	Preset  string // the flag --preset; "" leaves it to the other layers
	Secrets *Redactor
	Base    *Document // what the command sets differently from the defaults of its flags
	Suite   *Suite    // of an evaluation, between the user's file and the run file; nil: none
}

// entry is the value of one flag in one layer.
type entry struct {
	layer Layer
	at    string // "run.yaml:3", "HERMES_MODEL"
	value any    // for kong
	typed reflect.Value
}

// Layers are the settings below the flags of the command line. It is a kong.Resolver.
type Layers struct {
	entries  map[string][]entry // by flag name, lowest layer first
	sections map[string]Section
	warnings []string
	scope    scope
}

// Load reads preset, user file, run file and environment. All mistakes are reported
// together, as a joined error of [*Error]s.
func Load(o Options) (*Layers, error) {
	l := &Layers{entries: map[string][]entry{}, sections: map[string]Section{}, scope: newScope(o.App, o.Command)}
	l.warnings = append(l.warnings, o.Env.Warnings...)
	user, err := userDocument(o.Env.Home)
	if err != nil {
		return nil, err
	}
	var run *Document
	if o.RunFile != "" {
		run, err = ReadFile(o.RunFile, o.RunFile)
		if err != nil {
			return nil, err
		}
	}
	errs := []error{l.base(o.Base)}
	if name, at := presetName(o, user, run); name != "" {
		errs = append(errs, l.preset(name, at))
	}
	errs = append(errs, l.user(user), l.suite(o.Suite), l.runFile(run, o.Secrets), l.env(o.Env))
	return l, errors.Join(errs...)
}

func userDocument(home string) (*Document, error) {
	if home == "" {
		return nil, nil
	}
	file := filepath.Join(home, UserFile)
	if _, err := filepath.EvalSymlinks(file); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return ReadFile(file, file)
}

// Warnings are sentences for people about what was ignored.
func (l *Layers) Warnings() []string { return l.warnings }

// presetName finds the preset in the highest layer that names one.
func presetName(o Options, user, run *Document) (name, at string) {
	if o.Preset != "" {
		return o.Preset, "--preset"
	}
	if v := o.Env.Get("HERMES_PRESET"); v != "" {
		return v, o.Env.Source("HERMES_PRESET")
	}
	for _, d := range []*Document{run, user} {
		if k, v := d.find("preset"); v != nil && v.Kind == yaml.ScalarNode {
			return v.Value, fmt.Sprintf("%s:%d", d.File, k.Line)
		}
	}
	return "", ""
}

// find returns the nodes of a top-level key, or nil.
func (d *Document) find(key string) (k, v *yaml.Node) {
	if d == nil || d.Root == nil {
		return nil, nil
	}
	for i := 0; i+1 < len(d.Root.Content); i += 2 {
		if d.Root.Content[i].Value == key {
			return d.Root.Content[i], follow(d.Root.Content[i+1])
		}
	}
	return nil, nil
}

// base adds what a command sets differently.
func (l *Layers) base(d *Document) error {
	var errs []error
	for k, v := range d.pairs() {
		if f := l.scope.here[k.Value]; f != nil {
			errs = append(errs, l.key(d, k, v, f, FromDefault))
		}
	}
	return errors.Join(errs...)
}

// preset adds the settings of an embedded preset that the command has.
func (l *Layers) preset(name, at string) error {
	d, err := Preset(name)
	if err != nil {
		return &Error{File: at, Msg: err.Error()}
	}
	for k, v := range d.pairs() {
		if f := l.scope.here[k.Value]; f != nil {
			if err := l.add(f, FromPreset, fmt.Sprintf("%s:%d", d.File, k.Line), v); err != nil {
				return &Error{File: d.File, Line: k.Line, Msg: k.Value + ": " + err.Error()}
			}
		}
	}
	return nil
}

// user adds the user's file. Other programs keep their settings in it too: what is not
// ours is left alone and said once.
func (l *Layers) user(d *Document) error {
	var errs []error
	var foreign []string
	for k, v := range d.pairs() {
		f, known := l.scope.all[k.Value]
		switch {
		case slices.Contains(Sections(), k.Value):
			errs = append(errs, l.section(d, k, v))
		case !known || f != nil && !f.IsMap() && v.Kind == yaml.MappingNode:
			if near := nearest.Name(k.Value, l.scope.keys()); near != "" && near != k.Value {
				l.warnings = append(l.warnings, fmt.Sprintf("%s:%d: unknown key %s is ignored (did you mean %s?)", d.File, k.Line, k.Value, near))
			} else {
				foreign = append(foreign, k.Value)
			}
		default:
			errs = append(errs, l.key(d, k, v, f, FromUser))
		}
	}
	if len(foreign) > 0 {
		l.warnings = append(l.warnings, d.File+": ignored, not keys of this program: "+strings.Join(foreign, ", "))
	}
	return errors.Join(errs...)
}

// runFile adds the run file, in which every key must be ours.
func (l *Layers) runFile(d *Document, secrets *Redactor) error {
	errs := []error{d.noSecrets(secrets)}
	first := map[string]string{}
	for k, v := range d.pairs() {
		if slices.Contains(Sections(), k.Value) {
			errs = append(errs, l.section(d, k, v))
			continue
		}
		f := l.scope.here[k.Value]
		if f == nil {
			errs = append(errs, &Error{File: d.File, Line: k.Line, Msg: l.scope.unknown(k.Value)})
			continue
		}
		if other, twice := first[f.Name]; twice {
			errs = append(errs, &Error{File: d.File, Line: k.Line, Msg: fmt.Sprintf("%s and %s are the same setting", other, k.Value)})
			continue
		}
		first[f.Name] = k.Value
		errs = append(errs, l.key(d, k, v, f, FromRunFile))
	}
	return errors.Join(errs...)
}

func (l *Layers) key(d *Document, k, v *yaml.Node, f *kong.Flag, layer Layer) error {
	if err := l.add(f, layer, fmt.Sprintf("%s:%d", d.File, k.Line), v); err != nil {
		return &Error{File: d.File, Line: k.Line, Msg: k.Value + ": " + err.Error()}
	}
	return nil
}

func (l *Layers) add(f *kong.Flag, layer Layer, at string, n *yaml.Node) error {
	v, err := fromNode(f, n)
	if err != nil {
		return err
	}
	return l.set(f, layer, at, v)
}

func (l *Layers) set(f *kong.Flag, layer Layer, at string, v any) error {
	typed, err := try(f, v)
	if err != nil {
		return err
	}
	l.entries[f.Name] = append(l.entries[f.Name], entry{layer: layer, at: at, value: v, typed: typed})
	return nil
}

// env adds the HERMES_* variables. An empty one counts as not set.
func (l *Layers) env(e Env) error {
	byVar := map[string]*kong.Flag{}
	for name, f := range l.scope.all {
		byVar[EnvName(name)] = f
	}
	var errs []error
	for _, name := range slices.Sorted(slices.Values(e.Names())) {
		if !strings.HasPrefix(name, "HERMES_") || slices.Contains(ownVariables(), name) {
			continue
		}
		f, ok := byVar[name]
		if !ok {
			l.warnings = append(l.warnings, unknownVariable(e, name, byVar))
			continue
		}
		if v := e.Get(name); v != "" && l.scope.here[f.Name] != nil {
			if err := l.set(f, FromEnv, e.Source(name), v); err != nil {
				errs = append(errs, &Error{File: e.Source(name), Msg: f.Name + ": " + err.Error()})
			}
		}
	}
	return errors.Join(errs...)
}

// EnvName is the variable that sets a flag: max-turns → HERMES_MAX_TURNS.
func EnvName(flag string) string {
	return "HERMES_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// ownVariables are read elsewhere.
func ownVariables() []string { return []string{"HERMES_HOME"} }

func unknownVariable(e Env, name string, known map[string]*kong.Flag) string {
	text := "variable " + name + " is no setting and is ignored" + nearest.Hint(name, slices.Sorted(maps.Keys(known)))
	if at := e.Source(name); at != name {
		return at + ": " + text
	}
	return text
}
