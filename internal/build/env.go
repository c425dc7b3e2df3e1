package build

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"strings"

	"go.yaml.in/yaml/v3"

	"hermes/configs"
	"hermes/datasets"
	"hermes/envs"
	"hermes/envs/bfcl"
	"hermes/envs/codedebug"
	"hermes/envs/gsm8k"
	"hermes/envs/longhorizon"
	"hermes/envs/procedural"
	"hermes/envs/remote"
	"hermes/envs/sql"
	"hermes/envs/swe"
	"hermes/envs/terminalbench"
	"hermes/envs/terminaltest"
	"hermes/envs/toolapi"
	"hermes/envs/webresearch"
	"hermes/internal/exit"
	"hermes/internal/nearest"
	"hermes/internal/settings"
	"hermes/trajectory"
)

// Envs lists the kinds of environments that ship with hermes. A new one is its own
// package and a line here.
func Envs() []envs.Kind {
	return []envs.Kind{bfcl.Kind, codedebug.Kind, gsm8k.Kind, longhorizon.Kind, procedural.Kind, remote.Kind, sql.Kind, swe.Kind, terminalbench.Kind, terminaltest.Kind, toolapi.Kind, webresearch.Kind}
}

// Env is an open environment with the settings that it was opened with.
type Env struct {
	envs.Bundled
	Name  string
	Kind  envs.Kind
	Split envs.Split
	conf  string // its settings as YAML
}

// CheckEnvs objects to keys of the section `envs` that no kind has, and to settings that
// a kind does not take. Nothing is opened.
func CheckEnvs(section configs.Section, kinds []envs.Kind) error {
	errs := []error{section.OnlyKeys(envs.Names(kinds))}
	for _, k := range kinds {
		errs = append(errs, k.Check(section.Sub(k.Name)))
	}
	return errors.Join(errs...)
}

// OpenEnv opens the environment called name with its part of the section `envs`, over
// which set lays KEY=VALUE settings. A name may also be that of a program: see
// [remote.Named]. Close it.
func OpenEnv(ctx context.Context, name string, split envs.Split, set []string, section configs.Section, kinds []envs.Kind) (*Env, error) {
	if err := CheckEnvs(section, kinds); err != nil {
		return nil, err
	}
	program, stem, isProgram, err := remote.Named(name)
	if err != nil {
		return nil, err
	}
	if isProgram {
		name = remote.Name
	}
	k, err := envs.Find(kinds, name)
	if err != nil {
		if near := nearest.Name(name, envs.Names(kinds)); near != "" {
			err = fmt.Errorf("%w, did you mean %s?", err, near)
		}
		return nil, err
	}
	own := section.Sub(name)
	node, err := overlay(own.Node, set)
	if err != nil {
		return nil, err
	}
	if isProgram {
		if node, err = programNode(node, program); err != nil {
			return nil, err
		}
		name = stem
	}
	e := &Env{Name: name, Kind: k, Split: split}
	if node != nil {
		raw, err := yaml.Marshal(node)
		if err != nil {
			return nil, fmt.Errorf("envs.%s: %w", name, err)
		}
		e.conf = string(raw)
	}
	own.Node = node
	if own.File == "" || len(set) > 0 { // what the file says was checked above
		own.File = "--set"
	}
	e.Bundled, err = k.Open(ctx, own)
	return e, err
}

// EnvName is the short name of an environment, which is that of its run directory too.
func EnvName(name string) string {
	if _, stem, ok, err := remote.Named(name); ok && err == nil {
		return stem
	}
	return name
}

// programNode sets the program of the command line in a section of the kind remote.
func programNode(section *yaml.Node, c remote.Config) (*yaml.Node, error) {
	all := map[string]any{}
	if section != nil {
		if err := section.Decode(&all); err != nil {
			return nil, err
		}
	}
	delete(all, "command")
	delete(all, "url")
	if len(c.Command) > 0 {
		all["command"] = c.Command
	} else {
		all["url"] = c.URL
	}
	var n yaml.Node
	return &n, n.Encode(all)
}

// Close gives back what the environment holds: the processes of a program.
func (e *Env) Close() error {
	if c, ok := e.Bundled.(io.Closer); ok {
		return c.Close()
	}
	return nil
}

// LogTo has what a program says about itself logged.
func (e *Env) LogTo(l *slog.Logger) {
	if e == nil {
		return
	}
	if p, ok := e.Bundled.(interface{ LogTo(*slog.Logger) }); ok {
		p.LogTo(l)
	}
}

// overlay lays KEY=VALUE over a section; values are YAML. Equal settings give equal text,
// in whatever order they come.
func overlay(section *yaml.Node, set []string) (*yaml.Node, error) {
	all := map[string]any{}
	if section != nil {
		if err := section.Decode(&all); err != nil {
			return nil, err
		}
	}
	for _, text := range set {
		key, value, ok := strings.Cut(text, "=")
		if !ok || key == "" {
			return nil, fmt.Errorf("--set %q: want KEY=VALUE", text)
		}
		var v any
		if err := configs.CheckYAML("--set "+key, []byte(value)); err != nil {
			return nil, err
		}
		if err := yaml.Unmarshal([]byte(value), &v); err != nil {
			return nil, fmt.Errorf("--set %s: the value is no YAML: %w", key, err)
		}
		all[key] = v
	}
	if len(all) == 0 {
		return nil, nil
	}
	var n yaml.Node
	return &n, n.Encode(all)
}

// Identity names the environment and its settings for run.yaml; that of datasets is
// "rows".
func (e *Env) Identity() string {
	if e == nil {
		return "rows"
	}
	text := e.Name
	if e.Split != envs.Train {
		text += " " + string(e.Split)
	}
	if own, ok := e.Bundled.(interface{ Identity() string }); ok {
		return text + " " + own.Identity()
	}
	if e.conf != "" {
		text += " " + settings.Digest(e.conf)
	}
	return text
}

// Toolsets are those of a run that asks for none; nil: as usual.
func (e *Env) Toolsets() []string {
	if e != nil {
		if t, ok := e.Bundled.(envs.Toolsetter); ok {
			return t.Toolsets()
		}
	}
	return nil
}

// Environment opens the environment that flags name; what is wrong is a usage error. Close
// it.
func Environment(ctx context.Context, h Host, f settings.EnvFlags) (*Env, error) {
	e, err := OpenEnv(ctx, f.Name, envs.Split(f.Split), f.Settings(), h.Section("envs"), h.Envs)
	if err != nil {
		return nil, exit.Usage(err)
	}
	e.LogTo(h.Logger())
	return e, nil
}

// Row finds a row of the environment by its id.
func (e *Env) Row(ctx context.Context, id string) (_ datasets.Row, err error) {
	d, err := e.Rows(ctx, e.Split, datasets.Options{})
	if err != nil {
		return datasets.Row{}, err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	for row, err := range d.Rows(ctx) {
		if err != nil {
			return row, err
		}
		if row.ID == id {
			return row, nil
		}
	}
	return datasets.Row{}, fmt.Errorf("environment %s, split %s: no row %q", e.Name, e.Split, id)
}

// OracleScript is what the oracle of an environment says to a row, in the form of the
// embedded model.
func (e *Env) OracleScript(row datasets.Row) (json.RawMessage, error) {
	t, err := e.Task(row)
	if err != nil {
		return nil, err
	}
	o, ok := e.Bundled.(envs.Oracle)
	if !ok {
		return nil, fmt.Errorf("--model %s: the environment %s has no oracle", settings.Oracle, e.Name)
	}
	list, err := o.Oracle(t)
	if err != nil {
		return nil, err
	}
	type call struct {
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
	}
	type turn struct {
		Content string `json:"content,omitempty"`
		Calls   []call `json:"calls,omitempty"`
	}
	var turns []turn
	for _, m := range list {
		x := turn{Content: m.Content()}
		for _, c := range m.Calls {
			x.Calls = append(x.Calls, call{c.Name, json.RawMessage(c.Arguments)})
		}
		turns = append(turns, x)
	}
	return json.Marshal(turns)
}

// ScoreGroup lets the environment compare the samples of a group. An error leaves the
// group without scores.
func (e *Env) ScoreGroup(ctx context.Context, row datasets.Row, recs []*trajectory.Record, scores []trajectory.Score) error {
	s, ok := e.Bundled.(envs.GroupScorer)
	if !ok {
		return nil
	}
	t, err := e.Task(row)
	if err != nil {
		return err
	}
	var eps []envs.Episode
	for _, rec := range recs {
		eps = append(eps, envs.Episode{Trace: rec.Trace, Stop: rec.Stop})
	}
	if err := s.ScoreGroup(ctx, t, eps, scores); err != nil {
		return err
	}
	for i, x := range scores {
		if math.IsNaN(x.Reward) || math.IsInf(x.Reward, 0) {
			return fmt.Errorf("sample %d has the reward %v", recs[i].Sample, x.Reward)
		}
	}
	return nil
}
