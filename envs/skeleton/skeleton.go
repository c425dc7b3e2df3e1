// Package skeleton is the smallest whole environment: the model repeats a word. `hermes
// env new NAME` copies it; replace the rows, the task and the score by your own.
package skeleton

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"hermes/datasets"
	"hermes/envs"
	"hermes/envs/grade"
	"hermes/trajectory"
)

// Config is the environment's section of a run file. The zero value is usable.
type Config struct {
	Size int `yaml:"size" help:"rows of a split (default: 10)"`
}

// Kind is the environment of this package for run files.
var Kind = envs.NewKind("skeleton", "repeat a word", func(_ context.Context, c Config) (envs.Bundled, error) {
	c.Size = cmp.Or(c.Size, 10)
	if c.Size < 0 {
		return nil, fmt.Errorf("size %d: want 1 or more", c.Size)
	}
	return env{c}, nil
})

type env struct{ c Config }

// Rows are JSON lines, here made; datasets.Open reads a file or hf:owner/name.
func (e env) Rows(_ context.Context, split envs.Split, o datasets.Options) (*datasets.Dataset, error) {
	var b strings.Builder
	for i := range e.c.Size {
		fmt.Fprintf(&b, "{\"id\":\"%s-%d\",\"prompt\":\"Say the word number%d and nothing else.\",\"answer\":\"number%d\"}\n", split, i, i, i)
	}
	return datasets.Inline("skeleton:"+string(split), b.String(), o)
}

// Task returns the messages for the model and the contents of its box. The same row gives
// the same task.
func (e env) Task(row datasets.Row) (envs.Task, error) {
	gold := strings.Trim(string(row.Scoring.Answer), `"`)
	if gold == "" {
		return envs.Task{}, fmt.Errorf("row %s: no answer", row.ID)
	}
	return envs.Task{Row: row, Messages: row.Prompt, Hidden: gold}, nil
}

// Toolsets are none; a task with a shell names "terminal" and "file".
func (e env) Toolsets() []string { return []string{} }

// Score judges, in the box that the model used (w.Box) where there is one. An error voids
// the sample; it is never a reward of zero.
func (e env) Score(_ context.Context, t envs.Task, _ envs.World, ep envs.Episode) (trajectory.Score, error) {
	if grade.Answer(ep) == t.Hidden.(string) {
		return trajectory.Score{Reward: 1}, nil
	}
	return trajectory.Score{Detail: "another word"}, nil
}

// Oracle plays a task perfectly, for `hermes env check`.
func (e env) Oracle(t envs.Task) ([]trajectory.Message, error) {
	return []trajectory.Message{trajectory.Text(trajectory.Assistant, t.Hidden.(string))}, nil
}

// Hidden is what must not be readable in the box. Here the task itself tells the word.
func (e env) Hidden(envs.Task) []string { return nil }
