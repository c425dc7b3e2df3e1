// Package terminaltest is work in a shell: the box holds files, the prompt says what should
// become of them, and checks look at the result in the same box.
//
// A row is {prompt, files {path: text}, checks […], forbid […], solution}: see [Check].
// The reward is the share of checks that hold; it is 0 when something forbidden holds.
// The solution is a shell text that the model never sees; it is what a perfect player
// does. Rows are a dataset of the user's, or made from a seed.
package terminaltest

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"

	"hermes/datasets"
	"hermes/envs"
	"hermes/envs/grade"
	"hermes/rollout/tool"
	"hermes/trajectory"
)

// Config is the section envs.terminal_test of a run file.
type Config struct {
	Dataset string `yaml:"dataset" help:"file or hf:owner/name with the rows for training (default: made ones)"`
	Eval    string `yaml:"eval" help:"the same for evaluation"`
	Image   string `yaml:"image" help:"image of boxes whose row names none"`
	Size    int    `yaml:"size" help:"made rows of a split (default: 200)"`
	Seed    uint64 `yaml:"seed" help:"of made rows (default: 0)"`
	Level   int    `yaml:"level" help:"size of made tasks, 1 to 10 (default: 3)"`
}

func (c Config) stored() envs.Stored { return envs.Stored{Train: c.Dataset, Eval: c.Eval} }

// Kind is the environment of this package for run files.
var Kind = envs.NewKind("terminal_test", "work on files in a shell, checked in the box", func(_ context.Context, c Config) (envs.Bundled, error) { return New(c) })

// Check is one look at the box.
type Check = grade.Check

// Env is the environment.
type Env struct{ c Config }

// New checks the config.
func New(c Config) (*Env, error) {
	c.Size = cmp.Or(c.Size, 200)
	c.Level = cmp.Or(c.Level, 3)
	if c.Size < 0 || c.Size > 100_000 || c.Level < 1 || c.Level > 10 {
		return nil, fmt.Errorf("size %d, level %d: want 1 to 100000 rows and a level of 1 to 10", c.Size, c.Level)
	}
	return &Env{c: c}, c.stored().Check()
}

// Rows opens the dataset of a split, or makes its rows.
func (e *Env) Rows(ctx context.Context, split envs.Split, o datasets.Options) (*datasets.Dataset, error) {
	if d, err := e.c.stored().Open(ctx, "terminal_test", split, o); d != nil || err != nil {
		return d, err
	}
	return envs.Made("terminal_test", split, e.c.Size, o, func(i int) any { return e.made(split, i) })
}

// row is what a row has beside its prompt.
type row struct {
	files    map[string]string
	checks   []Check
	forbid   []Check
	solution string
}

func read(r datasets.Row) (row, error) {
	w := row{files: map[string]string{}}
	maps.Copy(w.files, r.Hermes.Files)
	if raw, ok := r.Extra["files"]; ok {
		if err := json.Unmarshal(raw, &w.files); err != nil {
			return w, fmt.Errorf("files: want {path: text}: %w", err)
		}
	}
	for key, into := range map[string]any{"checks": &w.checks, "forbid": &w.forbid} {
		raw, ok := r.Extra[key]
		if !ok {
			continue
		}
		d := json.NewDecoder(bytes.NewReader(raw))
		d.DisallowUnknownFields()
		if err := d.Decode(into); err != nil {
			return w, fmt.Errorf("%s: %w", key, err)
		}
	}
	if len(r.Scoring.Solution) > 0 {
		if err := json.Unmarshal(r.Scoring.Solution, &w.solution); err != nil {
			return w, fmt.Errorf("solution: want shell text: %w", err)
		}
	}
	if len(w.checks) == 0 {
		return w, errors.New("no checks")
	}
	for _, c := range append(append([]Check{}, w.checks...), w.forbid...) {
		if err := c.Valid(); err != nil {
			return w, err
		}
	}
	return w, nil
}

// Task is the prompt with the row's files.
func (e *Env) Task(r datasets.Row) (envs.Task, error) {
	w, err := read(r)
	if err != nil {
		return envs.Task{}, fmt.Errorf("row %s: %w", r.ID, err)
	}
	image := r.Hermes.Image
	image = cmp.Or(image, e.c.Image)
	return envs.Task{Row: r, Messages: r.Prompt, Image: image, Dir: r.Hermes.Cwd, Env: r.Hermes.Env, Files: w.files, Toolsets: r.Hermes.Toolsets,
		Artifacts: r.Hermes.Artifacts, Hidden: w, Verify: envs.VerifyOf(r, ""), Processes: r.Hermes.Processes == "keep"}, nil
}

// Toolsets are a shell and files.
func (e *Env) Toolsets() []string { return []string{"terminal", "file"} }

// NeedsBox is always so: the checks look into it.
func (e *Env) NeedsBox(envs.Task) bool { return true }

// Score looks at every check.
func (e *Env) Score(ctx context.Context, t envs.Task, w envs.World, ep envs.Episode) (trajectory.Score, error) {
	x := t.Hidden.(row)
	return grade.State(x.checks, x.forbid).Grade(ctx, w, ep)
}

// Oracle runs the solution.
func (e *Env) Oracle(t envs.Task) ([]trajectory.Message, error) {
	x := t.Hidden.(row)
	if x.solution == "" {
		return nil, fmt.Errorf("%w: row %s has no solution", errors.ErrUnsupported, t.Row.ID)
	}
	call := trajectory.Call{Name: "terminal", Arguments: tool.JSON(map[string]string{"command": x.solution})}
	return []trajectory.Message{{Calls: []trajectory.Call{call}}, trajectory.Text(trajectory.Assistant, "Done.")}, nil
}

// Hidden are the solution and what files must hold, unless the prompt tells it.
func (e *Env) Hidden(t envs.Task) []string {
	x := t.Hidden.(row)
	var prompt strings.Builder
	for _, m := range t.Messages {
		prompt.WriteString(m.Content())
	}
	var out []string
	for _, text := range append([]string{x.solution}, texts(x.checks)...) {
		if text != "" && !strings.Contains(prompt.String(), text) {
			out = append(out, text)
		}
	}
	return out
}

func texts(checks []Check) (out []string) {
	for _, c := range checks {
		if c.Kind == "file_equals" || c.Kind == "sha256" || c.Kind == "output" {
			out = append(out, c.Text)
		}
	}
	return out
}
