package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
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
	"hermes/internal/nearest"
)

// Envs lists the kinds of environments that ship with hermes. A new one is its own
// package and a line here.
func Envs() []envs.Kind {
	return []envs.Kind{bfcl.Kind, codedebug.Kind, gsm8k.Kind, longhorizon.Kind, procedural.Kind, remote.Kind, sql.Kind, swe.Kind, terminalbench.Kind, terminaltest.Kind, toolapi.Kind, webresearch.Kind}
}

// oracleModel is the name of the embedded model that plays each task perfectly.
const oracleModel = "oracle"

// ChosenEnv is an open environment with the settings that it was opened with.
type ChosenEnv struct {
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
func OpenEnv(ctx context.Context, name string, split envs.Split, set []string, section configs.Section, kinds []envs.Kind) (*ChosenEnv, error) {
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
	e := &ChosenEnv{Name: name, Kind: k, Split: split}
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
func (e *ChosenEnv) Close() error {
	if c, ok := e.Bundled.(io.Closer); ok {
		return c.Close()
	}
	return nil
}

// logTo has what a program says about itself logged.
func (e *ChosenEnv) logTo(l *slog.Logger) {
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
func (e *ChosenEnv) Identity() string {
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
		text += " " + digest(e.conf)
	}
	return text
}

// toolsets are those of a run that asks for none; nil: as usual.
func (e *ChosenEnv) toolsets() []string {
	if e != nil {
		if t, ok := e.Bundled.(envs.Toolsetter); ok {
			return t.Toolsets()
		}
	}
	return nil
}

// playOracle has the embedded model play the environment's own solutions, where that is
// asked for.
func (b *batch) playOracle() error {
	if b.ModelFlags.Model != oracleModel {
		return nil
	}
	if len(b.BaseURL) > 0 {
		return fmt.Errorf("--model %s is embedded: leave --base-url out", oracleModel)
	}
	var ok bool
	if b.oracle, ok = b.Env.Bundled.(envs.Oracle); !ok {
		return fmt.Errorf("--model %s: the environment %s has no oracle", oracleModel, b.Env.Name)
	}
	b.ModelFlags.Model, b.asked.Model = scripted, scripted
	return nil
}

// oracleScript is what the oracle says, in the form of the embedded model.
func (b *batch) oracleScript(row datasets.Row) (json.RawMessage, error) {
	t, err := b.env.Task(row)
	if err != nil {
		return nil, err
	}
	list, err := b.oracle.Oracle(t)
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

// checkTasks makes every task once, so that a row that the environment cannot use is
// found before anything is spent.
func (b *batch) checkTasks(ctx context.Context) error {
	for row, err := range b.skipBad(ctx) { // with an oracle it makes the tasks too
		if err == nil && b.oracle == nil {
			_, err = b.env.Task(row)
		}
		if err != nil {
			return fmt.Errorf("environment %s: %w", b.Env.Name, err)
		}
	}
	return ctx.Err()
}
