// Package gsm8k is arithmetic in words, in the form of GSM8K: a row is {question, answer},
// the answer ends in "#### N". The rows are a dataset of the user's, or a sample of made
// ones; a tool runs code where the box has python3.
//
// The answer of a model is the number behind the last "####", else in the last \boxed{},
// else the last number; it is compared exactly, as a rational.
package gsm8k

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"

	"hermes/datasets"
	"hermes/envs"
	"hermes/envs/grade"
	"hermes/trajectory"
)

// Config is the section envs.gsm8k of a run file.
type Config struct {
	Dataset string `yaml:"dataset" help:"file or hf:owner/name with the rows for training (default: made ones)"`
	Eval    string `yaml:"eval" help:"file or hf:owner/name with the rows for evaluation (default: made ones, only without dataset)"`
	Size    int    `yaml:"size" help:"made rows of a split (default: 200)"`
	Seed    uint64 `yaml:"seed" help:"of made rows (default: 0)"`
	Steps   int    `yaml:"steps" help:"steps of a made problem, 1 to 6 (default: 3)"`
	NoTools bool   `yaml:"no-tools" help:"offer no code execution"`
}

func (c Config) stored() envs.Stored { return envs.Stored{Train: c.Dataset, Eval: c.Eval} }

// Kind is the environment of this package for run files.
var Kind = envs.NewKind("gsm8k", "arithmetic in words, with code execution; rows of a dataset or made ones", func(_ context.Context, c Config) (envs.Bundled, error) { return New(c) })

// Env is the environment.
type Env struct {
	c      Config
	number grade.Spec // reads answers
}

// New checks the config.
func New(c Config) (*Env, error) {
	c.Size = cmp.Or(c.Size, 200)
	c.Steps = cmp.Or(c.Steps, 3)
	if c.Size < 0 || c.Size > 100_000 || c.Steps < 1 || c.Steps > 6 {
		return nil, fmt.Errorf("size %d, steps %d: want 1 to 100000 rows and 1 to 6 steps", c.Size, c.Steps)
	}
	number, err := grade.Parse("number")
	return &Env{c: c, number: number}, errors.Join(err, c.stored().Check())
}

// Rows opens the dataset of a split, or makes its rows.
func (e *Env) Rows(ctx context.Context, split envs.Split, o datasets.Options) (*datasets.Dataset, error) {
	if d, err := e.c.stored().Open(ctx, "gsm8k", split, o); d != nil || err != nil {
		return d, err
	}
	return envs.Made("gsm8k", split, e.c.Size, o, func(i int) any {
		r := rand.New(rand.NewPCG(e.c.Seed<<1|map[envs.Split]uint64{envs.Eval: 1}[split], uint64(i)))
		question, answer := problem(r, e.c.Steps)
		for envs.SplitOf(question) != split {
			question, answer = problem(r, e.c.Steps)
		}
		return map[string]any{"id": fmt.Sprintf("made/2/%d/%s/%d/%d", e.c.Steps, split, e.c.Seed, i), "question": question, "answer": answer}
	})
}

// problem makes a question and its worked answer.
func problem(r *rand.Rand, steps int) (question, answer string) {
	names := []string{"Ana", "Ben", "Chi", "Dana", "Emil", "Farah", "Goro", "Hilde"}
	things := []string{"apples", "marbles", "stamps", "pencils", "shells", "books", "beads", "coins"}
	name, thing := names[r.IntN(len(names))], things[r.IntN(len(things))]
	have := 10 + r.IntN(90)
	ask := fmt.Sprintf("%s has %d %s.", name, have, thing)
	var work []string
	step := func(sign string, n, result int, format string, a ...any) {
		ask += " " + fmt.Sprintf(format, a...)
		work = append(work, fmt.Sprintf("%d %s %d = <<%d%s%d=%d>>%d", have, sign, n, have, sign, n, result, result))
		have = result
	}
	for range steps {
		other := names[r.IntN(len(names))]
		switch n := 2 + r.IntN(30); r.IntN(4) {
		case 0:
			step("+", n, have+n, "Then %s buys %d more.", name, n)
		case 1:
			n = 1 + r.IntN(have)
			step("-", n, have-n, "Then a friend, also called %s, takes %d of them away.", other, n)
			if have == 0 {
				step("+", 5, 5, "Then %s finds 5 on the way home.", name)
			}
		case 2:
			n = 2 + n%4
			step("*", n, have*n, "An aunt then makes it %d times as many.", n)
		default:
			n = 2 + n%3
			for n > 1 && have%n != 0 {
				n--
			}
			if n == 1 { // among one is no sharing
				step("+", 2, have+2, "Then %s is given %d more.", name, 2)
				break
			}
			step("/", n, have/n, "They are then shared equally by %d people, %s among them, who keeps only one share.", n, name)
		}
	}
	return ask + fmt.Sprintf(" How many %s does %s have in the end?", thing, name), strings.Join(work, "\n") + fmt.Sprintf("\n#### %d", have)
}

const form = "\n\nReason step by step. The last line of your answer is #### followed by the number alone."

// Task is the question with the form of the answer.
func (e *Env) Task(row datasets.Row) (envs.Task, error) {
	var gold string
	if err := json.Unmarshal(row.Scoring.Answer, &gold); err != nil {
		return envs.Task{}, fmt.Errorf("row %s: answer: want text that ends in #### N: %w", row.ID, err)
	}
	if !strings.Contains(gold, "####") {
		return envs.Task{}, fmt.Errorf("row %s: the answer has no #### N", row.ID)
	}
	g, err := grade.Number(gold)
	if err != nil {
		return envs.Task{}, fmt.Errorf("row %s: %w", row.ID, err)
	}
	if len(row.Prompt) == 0 {
		return envs.Task{}, fmt.Errorf("row %s: no question", row.ID)
	}
	t := envs.Task{Row: row, Hidden: hiddenAnswer{gold, g}}
	t.Messages = append(t.Messages, row.Prompt[:len(row.Prompt)-1]...)
	t.Messages = append(t.Messages, trajectory.Text(trajectory.User, row.Prompt[len(row.Prompt)-1].Content()+form))
	return t, nil
}

type hiddenAnswer struct {
	worked string
	grader grade.Grader
}

// Toolsets offer code execution.
func (e *Env) Toolsets() []string {
	if e.c.NoTools {
		return []string{}
	}
	return []string{"code_execution"}
}

// Score compares numbers; the metric format tells whether the answer stood behind ####.
func (e *Env) Score(ctx context.Context, t envs.Task, w envs.World, ep envs.Episode) (trajectory.Score, error) {
	s, err := t.Hidden.(hiddenAnswer).grader.Grade(ctx, w, ep)
	s.Metrics = map[string]float64{"format": 0}
	if strings.Contains(grade.Answer(ep), "####") {
		s.Metrics["format"] = 1
	}
	if key, ok := e.number.Key(t.Row, grade.Answer(ep)); ok {
		s.Answer = key
	}
	return s, err
}

// Oracle gives the worked answer.
func (e *Env) Oracle(t envs.Task) ([]trajectory.Message, error) {
	return []trajectory.Message{trajectory.Text(trajectory.Assistant, t.Hidden.(hiddenAnswer).worked)}, nil
}

// Hidden is the worked answer.
func (e *Env) Hidden(t envs.Task) []string { return []string{t.Hidden.(hiddenAnswer).worked} }
