// Package quiz is an environment whose tasks are answered with the tool word_count: how many
// words has a file?
package quiz

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"custom/wordcount"
	"hermes/datasets"
	"hermes/envs"
	"hermes/envs/grade"
	"hermes/rollout/tool"
	"hermes/trajectory"
)

// Config is the section envs.quiz of a run file. The zero value is usable.
type Config struct {
	Size int `yaml:"size" help:"rows of a split (default: 20)"`
}

// Kind is the environment for Parts.Envs.
var Kind = envs.NewKind("quiz", "count the words of a file", func(_ context.Context, c Config) (envs.Bundled, error) {
	if c.Size == 0 {
		c.Size = 20
	}
	if c.Size < 0 {
		return nil, fmt.Errorf("size %d: want 1 or more", c.Size)
	}
	return env{c}, nil
})

type env struct{ Config }

type row struct {
	ID     string `json:"id"`
	Prompt string `json:"prompt"`
	Words  int    `json:"words"`
}

// Rows makes the rows of a split.
func (e env) Rows(_ context.Context, split envs.Split, o datasets.Options) (*datasets.Dataset, error) {
	return envs.Made("quiz", split, e.Size, o, func(i int) any {
		words := 3 + 7*i
		if split == envs.Eval {
			words = 5 + 11*i
		}
		return row{ID: fmt.Sprintf("%s-%d", split, i), Prompt: "How many words has notes.txt? Answer with the number alone.", Words: words}
	})
}

// Task is the question, with the file in the box.
func (e env) Task(r datasets.Row) (envs.Task, error) {
	words, err := strconv.Atoi(string(r.Extra["words"]))
	if err != nil {
		return envs.Task{}, fmt.Errorf("row %s: words: %w", r.ID, err)
	}
	return envs.Task{Row: r, Messages: r.Prompt, Files: map[string]string{"notes.txt": strings.Repeat("word ", words)}, Hidden: words}, nil
}

// Toolsets are none: the environment brings its tool.
func (e env) Toolsets() []string { return []string{} }

// Tools are those of the environment.
func (e env) Tools(context.Context, envs.Task, envs.World) ([]tool.Def, error) {
	return []tool.Def{wordcount.Tool()}, nil
}

// Score compares the last text of the model.
func (e env) Score(_ context.Context, t envs.Task, _ envs.World, ep envs.Episode) (trajectory.Score, error) {
	if strings.TrimSpace(grade.Answer(ep)) == strconv.Itoa(t.Hidden.(int)) {
		return trajectory.Score{Reward: 1}, nil
	}
	return trajectory.Score{Detail: "another number"}, nil
}

// Oracle asks the tool and answers.
func (e env) Oracle(t envs.Task) ([]trajectory.Message, error) {
	ask := trajectory.Message{Role: trajectory.Assistant, Calls: []trajectory.Call{{ID: "1", Name: "word_count", Arguments: `{"path":"notes.txt"}`}}}
	return []trajectory.Message{ask, trajectory.Text(trajectory.Assistant, strconv.Itoa(t.Hidden.(int)))}, nil
}

// Hidden is nothing: everybody may count.
func (e env) Hidden(envs.Task) []string { return nil }
