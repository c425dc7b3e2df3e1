// Package terminaltest is work in a shell: files lie in the box, the model is told what
// should become of them, and checks look at the result in the very same box.
//
// A row is {prompt, files {path: text}, checks […], forbid […], solution}: see [Check].
// The reward is the share of checks that hold; it is 0 when something forbidden holds.
// The solution is a shell text that the model never sees; it is what a perfect player
// does. Rows are a dataset of the user's, or made from a seed.
package terminaltest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"hermes/backends"
	"hermes/datasets"
	"hermes/envs"
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

// Check is one look at the box. Kinds: file_equals and contains (path, text; white space
// at the end of a file does not count), sha256 (path, text), mode (path, text such as
// 755), absent (path), command (command: exit 0 holds).
type Check struct {
	Kind    string `json:"kind"`
	Path    string `json:"path,omitempty"`
	Text    string `json:"text,omitempty"`
	Command string `json:"command,omitempty"`
}

func (c Check) valid() error {
	switch c.Kind {
	case "file_equals", "contains", "sha256", "mode", "absent":
		if c.Path == "" || c.Text == "" && c.Kind != "absent" && c.Kind != "file_equals" {
			return fmt.Errorf("check %s wants path and text, has %q and %q", c.Kind, c.Path, c.Text)
		}
	case "command":
		if c.Command == "" {
			return errors.New("check command wants a command")
		}
	default:
		return fmt.Errorf("check of kind %q: have file_equals, contains, sha256, mode, absent, command", c.Kind)
	}
	return nil
}

// Env is the environment.
type Env struct{ c Config }

// New checks the config.
func New(c Config) (*Env, error) {
	if c.Size == 0 {
		c.Size = 200
	}
	if c.Level == 0 {
		c.Level = 3
	}
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
	for path, text := range r.Hermes.Files {
		w.files[path] = text
	}
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
		if err := c.valid(); err != nil {
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
	if image == "" {
		image = e.c.Image
	}
	return envs.Task{Row: r, Messages: r.Prompt, Image: image, Dir: r.Hermes.Cwd, Env: r.Hermes.Env, Files: w.files, Toolsets: r.Hermes.Toolsets,
		Artifacts: r.Hermes.Artifacts, Hidden: w}, nil
}

// Toolsets are a shell and files.
func (e *Env) Toolsets() []string { return []string{"terminal", "file"} }

// NeedsBox is always so: the checks look into it.
func (e *Env) NeedsBox(envs.Task) bool { return true }

// Score looks at every check.
func (e *Env) Score(ctx context.Context, t envs.Task, w envs.World, ep envs.Episode) (trajectory.Score, error) {
	if w.Box == nil {
		return trajectory.Score{Detail: "the box is gone: " + ep.Stop.Detail}, nil // the model broke it
	}
	x := t.Hidden.(row)
	for _, c := range x.forbid {
		held, err := c.holds(ctx, w)
		if err != nil {
			return trajectory.Score{}, err
		}
		if held {
			return trajectory.Score{Detail: "forbidden: " + c.String()}, nil
		}
	}
	s := trajectory.Score{Metrics: map[string]float64{"checks": float64(len(x.checks))}}
	n := 0
	var missed []string
	for _, c := range x.checks {
		held, err := c.holds(ctx, w)
		if err != nil {
			return trajectory.Score{}, err
		}
		if held {
			n++
		} else {
			missed = append(missed, c.String())
		}
	}
	s.Reward, s.Metrics["held"] = float64(n)/float64(len(x.checks)), float64(n)
	if len(missed) > 0 {
		s.Detail = "does not hold: " + strings.Join(missed, "; ")
	}
	return s, nil
}

// String names the check without what it compares with.
func (c Check) String() string {
	if c.Kind == "command" {
		return "command " + c.Command
	}
	return c.Kind + " " + c.Path
}

const longest = 16 << 20

func (c Check) holds(ctx context.Context, w envs.World) (bool, error) {
	switch c.Kind {
	case "command":
		res, err := w.Exec(ctx, "check", backends.Cmd{Shell: c.Command, Timeout: time.Minute})
		if err != nil {
			return false, err
		}
		if res.TimedOut {
			return false, fmt.Errorf("check %q: no end after a minute", c.Command)
		}
		return res.Code == 0, nil
	case "mode":
		res, err := w.Exec(ctx, "check", backends.Cmd{Argv: []string{"stat", "-c", "%a", "--", c.Path}, Timeout: time.Minute})
		return err == nil && res.Code == 0 && strings.TrimSpace(string(res.Stdout)) == c.Text, err
	case "absent":
		res, err := w.Exec(ctx, "check", backends.Cmd{Argv: []string{"test", "!", "-e", c.Path, "-a", "!", "-L", c.Path}, Timeout: time.Minute})
		return err == nil && res.Code == 0, err
	}
	data, err := w.Box.ReadFile(ctx, c.Path, longest)
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return false, nil // missing, a folder, too long: what the model left
	}
	if err != nil {
		return false, fmt.Errorf("check %s: %w", c, err)
	}
	got := strings.TrimRight(string(data), " \t\r\n")
	switch c.Kind {
	case "contains":
		return strings.Contains(string(data), c.Text), nil
	case "sha256":
		sum := sha256.Sum256(data)
		return hex.EncodeToString(sum[:]) == c.Text, nil
	}
	return got == strings.TrimRight(c.Text, " \t\r\n"), nil
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
	var told strings.Builder
	for _, m := range t.Messages {
		told.WriteString(m.Content())
	}
	var out []string
	for _, text := range append([]string{x.solution}, texts(x.checks)...) {
		if text != "" && !strings.Contains(told.String(), text) {
			out = append(out, text)
		}
	}
	return out
}

func texts(checks []Check) (out []string) {
	for _, c := range checks {
		if c.Kind == "file_equals" || c.Kind == "sha256" {
			out = append(out, c.Text)
		}
	}
	return out
}
