// Package ledger is an environment in its own repository: amounts lie in files of the box,
// and the model writes their sum into a file.
package ledger

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"strconv"
	"strings"

	"hermes/datasets"
	"hermes/envs"
	"hermes/trajectory"
)

// Config is the section envs.ledger of a run file. The zero value is usable.
type Config struct {
	Size  int `yaml:"size" help:"rows of a split (default: 50)"`
	Lines int `yaml:"lines" help:"amounts of a task (default: 20)"`
}

// Kind is the environment for Parts.Envs.
var Kind = envs.NewKind("ledger", "sum the amounts of a file", func(_ context.Context, c Config) (envs.Bundled, error) {
	if c.Size == 0 {
		c.Size = 50
	}
	if c.Lines == 0 {
		c.Lines = 20
	}
	if c.Size < 0 || c.Lines < 0 {
		return nil, fmt.Errorf("size %d, lines %d: want 1 or more", c.Size, c.Lines)
	}
	return env{c}, nil
})

type env struct{ Config }

type row struct {
	ID     string `json:"id"`
	Prompt string `json:"prompt"`
	Cents  []int  `json:"cents"`
}

// Rows makes the rows of a split; the same settings give the same rows on every machine.
func (e env) Rows(_ context.Context, split envs.Split, o datasets.Options) (*datasets.Dataset, error) {
	return envs.Made("ledger", split, e.Size, o, func(i int) any {
		seed := uint64(i) << 1
		if split == envs.Eval {
			seed++
		}
		r := rand.New(rand.NewPCG(seed, 1))
		cents := make([]int, e.Lines)
		for j := range cents {
			cents[j] = 1 + r.IntN(100_000)
		}
		return row{fmt.Sprintf("%s-%d", split, i), "ledger.txt has an amount a line. Write their sum into sum.txt, with two decimals.", cents}
	})
}

// Task is the question, with the file in the box; the sum is hidden from the model.
func (e env) Task(r datasets.Row) (envs.Task, error) {
	var cents []int
	if err := json.Unmarshal(r.Extra["cents"], &cents); err != nil {
		return envs.Task{}, fmt.Errorf("row %s: cents: %w", r.ID, err)
	}
	var lines strings.Builder
	sum := 0
	for _, c := range cents {
		lines.WriteString(amount(c) + "\n")
		sum += c
	}
	return envs.Task{Row: r, Messages: r.Prompt, Files: map[string]string{"ledger.txt": lines.String()}, Hidden: amount(sum)}, nil
}

func amount(cents int) string { return fmt.Sprintf("%d.%02d", cents/100, cents%100) }

// Toolsets are those of a run that asks for none.
func (e env) Toolsets() []string { return []string{"terminal", "file"} }

// NeedsBox says that the scorer looks into the box, also where no tool has opened it.
func (e env) NeedsBox(envs.Task) bool { return true }

// Score reads the file in the box that the model worked in. Half of the reward is for a number
// that is right but written in another way.
func (e env) Score(ctx context.Context, t envs.Task, w envs.World, _ envs.Episode) (trajectory.Score, error) {
	raw, err := w.Box.ReadFile(ctx, "sum.txt", 1<<10)
	if errors.Is(err, fs.ErrNotExist) {
		return trajectory.Score{Detail: "there is no sum.txt"}, nil
	}
	if err != nil {
		return trajectory.Score{}, err // the box failed: the sample is tried again, it is no zero
	}
	got, want := strings.TrimSpace(string(raw)), t.Hidden.(string)
	if got == want {
		return trajectory.Score{Reward: 1}, nil
	}
	sum, _ := strconv.ParseFloat(want, 64)
	if n, err := strconv.ParseFloat(got, 64); err == nil && n == sum {
		return trajectory.Score{Reward: 0.5, Detail: "right, without two decimals"}, nil
	}
	return trajectory.Score{Detail: "another sum"}, nil
}

// Oracle plays a task perfectly, for `env check` and --model oracle.
func (e env) Oracle(t envs.Task) ([]trajectory.Message, error) {
	const command = `awk '{ s += $1 * 100 } END { printf "%.2f\n", s / 100 }' ledger.txt >sum.txt`
	arguments, err := json.Marshal(map[string]string{"command": command})
	call := trajectory.Call{ID: "1", Name: "terminal", Arguments: string(arguments)}
	return []trajectory.Message{{Role: trajectory.Assistant, Calls: []trajectory.Call{call}}, trajectory.Text(trajectory.Assistant, "Done.")}, err
}

// Hidden must not be readable in the box while the model works.
func (e env) Hidden(t envs.Task) []string { return []string{t.Hidden.(string)} }
