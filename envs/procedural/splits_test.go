package procedural_test

import (
	"testing"

	"hermes/datasets"
	"hermes/envs"
	"hermes/envs/procedural"
)

// TestSplits: what is trained on is not asked in evaluation, and a question comes once
// where there are enough.
func TestSplits(t *testing.T) {
	questions := func(c procedural.Config, split envs.Split) map[string]int {
		e, err := procedural.New(c)
		if err != nil {
			t.Fatal(err)
		}
		d, err := e.Rows(t.Context(), split, datasets.Options{})
		if err != nil {
			t.Fatal(err)
		}
		out := map[string]int{}
		for row, err := range d.Rows(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			out[row.Prompt[0].Content()]++
		}
		return out
	}
	for _, g := range []string{"prime_factorization", "polynomial_equations", "tower_of_hanoi", "n_queens"} {
		for _, level := range []int{1, 5} {
			c := procedural.Config{Generators: []string{g}, Level: level, Size: 20}
			train, eval := questions(c, envs.Train), questions(c, envs.Eval)
			for q := range eval {
				if train[q] > 0 {
					t.Errorf("%s level %d: in both splits: %s", g, level, q)
				}
			}
			if level > 1 && (len(train) < 20 || len(eval) < 20) {
				t.Errorf("%s level %d: %d and %d questions in 20 rows", g, level, len(train), len(eval))
			}
		}
	}
}
