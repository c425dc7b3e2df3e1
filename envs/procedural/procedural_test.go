package procedural_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"hermes/datasets"
	"hermes/envs"
	"hermes/envs/envtest"
	"hermes/envs/procedural"
	"hermes/rollout/play"
	"hermes/trajectory"
)

func TestContract(t *testing.T) {
	for _, g := range procedural.Builtin() {
		t.Run(g.Name, func(t *testing.T) {
			env, err := procedural.New(procedural.Config{Generators: []string{g.Name}, Level: 1, MaxLevel: 10, Size: 20})
			if err != nil {
				t.Fatal(err)
			}
			envtest.Run(t, env, play.Player{}, envtest.Options{Rows: 10, Repeats: 10})
			envtest.Run(t, env, play.Player{}, envtest.Options{Rows: 3, Repeats: 2, Split: envs.Eval})
		})
	}
}

// TestEveryLevel makes puzzles of all levels: the own answer is right, and another
// puzzle's is not.
func TestEveryLevel(t *testing.T) {
	for _, g := range procedural.Builtin() {
		accepted, asked := 0, 0
		longest := [11]int{}
		for level := 1; level <= 10; level++ {
			var last procedural.Puzzle
			for seed := range uint64(20) {
				p := g.Make(rand.New(rand.NewPCG(seed, uint64(level))), level)
				longest[level] = max(longest[level], len(p.Question))
				if p.Check != nil {
					if err := p.Check(p.Answer); err != nil {
						t.Errorf("%s level %d seed %d: its own answer: %v\n%s", g.Name, level, seed, err, p.Question)
					}
					if last.Check != nil && last.Question != p.Question {
						asked++
						if last.Check(p.Answer) == nil {
							accepted++
						}
					}
					if p.Check("") == nil || p.Check("()") == nil || p.Check(strings.Repeat("9", 10_000)) == nil {
						t.Errorf("%s level %d seed %d: accepts nonsense", g.Name, level, seed)
					}
				}
				last = p
			}
		}
		if accepted > asked/10 {
			t.Errorf("%s accepts %d of %d answers of other puzzles", g.Name, accepted, asked)
		}
		if longest[1] > longest[10] {
			t.Errorf("%s: level 10 is shorter than level 1", g.Name)
		}
	}
}

// TestOtherSolutions: what solves a task is right, however it looks.
func TestOtherSolutions(t *testing.T) {
	made := func(name string, level int) procedural.Puzzle {
		for _, g := range procedural.Builtin() {
			if g.Name == name {
				return g.Make(rand.New(rand.NewPCG(7, uint64(level))), level)
			}
		}
		t.Fatal(name)
		return procedural.Puzzle{}
	}
	p := made("prime_factorization", 4)
	words := strings.Split(p.Answer, " × ")
	for i, j := 0, len(words)-1; i < j; i, j = i+1, j-1 {
		words[i], words[j] = words[j], words[i]
	}
	if err := p.Check(strings.Join(words, "*")); err != nil {
		t.Errorf("factors in another order: %v", err)
	}
	if p.Check(p.Answer+" × 1") == nil || p.Check(strings.Join(words[1:], "*")) == nil {
		t.Error("1 is no prime, and no factor may be missing")
	}
	e := made("simple_equations", 2)
	for _, text := range []string{"x = " + e.Answer, e.Answer + ".0", e.Answer + "/1"} {
		if err := e.Check(text); err != nil {
			t.Errorf("%q: %v", text, err)
		}
	}
	if e.Check("1e999999999") == nil || e.Check(e.Answer+"1") == nil {
		t.Error("a wrong number solves the equation")
	}
	c := made("countdown", 3)
	if err := c.Check("(" + strings.ReplaceAll(c.Answer, "*", "×") + ") = 1"); err != nil {
		t.Errorf("countdown with other signs: %v", err)
	}
	if c.Check(c.Answer+" + 0") == nil || c.Check(c.Answer+" / 0") == nil || c.Check(strings.Repeat("(", 499)) == nil {
		t.Error("countdown accepts numbers that are not there")
	}
}

func TestSplitsAndSeeds(t *testing.T) {
	ids := func(seed uint64, split envs.Split) map[string]bool {
		env, err := procedural.New(procedural.Config{Seed: seed, Size: 200, MaxLevel: 9})
		if err != nil {
			t.Fatal(err)
		}
		d, err := env.Rows(t.Context(), split, datasets.Options{})
		if err != nil {
			t.Fatal(err)
		}
		out := map[string]bool{}
		for row, err := range d.Rows(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			out[row.ID] = true
		}
		if len(out) != 200 {
			t.Errorf("%d rows", len(out))
		}
		return out
	}
	train := ids(0, envs.Train)
	eval := ids(0, envs.Eval)
	other := ids(1, envs.Train)
	for id := range train {
		if eval[id] || other[id] {
			t.Fatalf("%s is in two sets", id)
		}
	}
}

func TestAnswers(t *testing.T) {
	env, err := procedural.New(procedural.Config{Generators: []string{"chain_sum"}})
	if err != nil {
		t.Fatal(err)
	}
	d, err := env.Rows(t.Context(), envs.Train, datasets.Options{Limit: 1})
	if err != nil {
		t.Fatal(err)
	}
	for row, err := range d.Rows(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		task, err := env.Task(row)
		if err != nil {
			t.Fatal(err)
		}
		gold := task.Hidden.(procedural.Puzzle).Answer
		for text, want := range map[string]float64{
			"<answer>" + gold + "</answer>":                           1,
			"<answer>1</answer> no: <answer> " + gold + "\n</answer>": 1,
			"<answer>" + gold + "</answer><answer>x</answer>":         0,
			gold:                             0,
			"<answer>" + gold:                0,
			"":                               0,
			"<answer>" + gold + "0</answer>": 0,
		} {
			rec, err := play.Player{}.Play(context.Background(), env, row, 0, []trajectory.Message{trajectory.Text(trajectory.Assistant, text)})
			if err != nil {
				t.Fatal(err)
			}
			if rec.Score == nil && text != "" || rec.Score != nil && rec.Score.Reward != want {
				t.Errorf("%q: %+v, want %v", text, rec.Score, want)
			}
		}
	}
}

func TestBadConfig(t *testing.T) {
	for _, c := range []procedural.Config{{Level: 11}, {Level: 3, MaxLevel: 2}, {Level: -1}, {Size: -1}, {Generators: []string{"sums"}}} {
		if _, err := procedural.New(c); err == nil {
			t.Errorf("%+v is accepted", c)
		}
	}
}

func ExampleNew() {
	env, err := procedural.New(procedural.Config{Generators: []string{"chain_sum"}, Level: 1})
	if err != nil {
		fmt.Println(err)
		return
	}
	d, err := env.Rows(context.Background(), envs.Train, datasets.Options{Limit: 1})
	if err != nil {
		fmt.Println(err)
		return
	}
	for row := range d.Rows(context.Background()) {
		fmt.Println(row.ID[:12])
	}
	// Output: chain_sum/1/
}
