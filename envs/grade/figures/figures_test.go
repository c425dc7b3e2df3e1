package figures_test

import (
	"math"
	"testing"

	"hermes/envs/grade/figures"
)

// TestWhichInterval goes through the shapes of data and the intervals that fit them.
func TestWhichInterval(t *testing.T) {
	ones := func(n int) (out [][]float64) {
		for range n {
			out = append(out, []float64{1})
		}
		return out
	}
	for _, tt := range []struct {
		name      string
		tasks     [][]float64
		method    string
		value     float64
		low, high float64
		n         int
		note      bool
	}{
		{"0/1, one sample a task", [][]float64{{1}, {0}, {1}, {1}, {1}, {1}, {0}, {1}, {0}, {1}}, figures.Wilson, 0.7, 0.3967781475, 0.8922087326, 10, false},
		{"all passed", ones(10), figures.Wilson, 1, 0.7224672001, 1, 10, false},
		{"several samples", [][]float64{{1, 1, 0, 1}, {0, 0, 1}, {1, 1, 1}, {0, 0}}, figures.Clustered, 7. / 12, 0, 1, 12, false},
		{"several that never vary: the tasks count", [][]float64{{0, 0}, {0, 0}, {0, 0}}, figures.Wilson, 0, 0, 0.5614970317, 6, false},
		{"one sample", [][]float64{{1}}, figures.Wilson, 1, 0.2065493143, 1, 1, true},
		{"one task", [][]float64{{1, 0, 1, 1}}, figures.Wilson, 0.75, 0.3006418423, 0.9544127392, 4, true},
		{"tasks without samples do not count", [][]float64{nil, {1}, {}, {0}}, figures.Wilson, 0.5, 0.0945312057, 0.9054687943, 2, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e, ok := figures.Mean(tt.tasks, figures.Options{})
			if !ok || e.Method != tt.method || math.Abs(e.Value-tt.value) > 1e-12 || e.N != tt.n || (e.Note != "") != tt.note {
				t.Fatalf("%v: %+v", tt.tasks, e)
			}
			if math.Abs(*e.Low-tt.low) > 1e-9 || math.Abs(*e.High-tt.high) > 1e-9 {
				t.Errorf("%v: %v to %v, want %v to %v", tt.tasks, *e.Low, *e.High, tt.low, tt.high)
			}
		})
	}
	if _, ok := figures.Mean([][]float64{nil, {}}, figures.Options{}); ok {
		t.Error("a mean of nothing")
	}
	if e, _ := figures.Mean([][]float64{{7}, {7}, {7}}, figures.Options{}); e.Low != nil || e.Note == "" {
		t.Errorf("rewards of 7 that never vary have no interval: %+v", e)
	}
	pairs, _ := figures.OverTasks([]float64{1, 1, 0, 0, 1, 1}, []int{0, 0, 1, 1, 2, 2}, false, figures.Options{})
	if same, _ := figures.Mean([][]float64{{1, 1},
		{0, 0},
		{1, 1}}, figures.Options{}); pairs.Method != figures.Clustered || *pairs.Low != *same.Low || pairs.Tasks != 3 {
		t.Errorf("tasks that belong together: %+v", pairs)
	}
	e, _ := figures.Mean([][]float64{{0.1}, {0.9}, {0.35}, {0.8}}, figures.Options{Seed: 3})
	again, _ := figures.Mean([][]float64{{0.1}, {0.9}, {0.35}, {0.8}}, figures.Options{Seed: 3})
	if e.Method != figures.BCa || *e.Low != *again.Low || *e.Low < 0.1 || *e.High > 0.9 || *e.Low >= e.Value || *e.High <= e.Value {
		t.Errorf("bootstrap: %v to %v, then %v", *e.Low, *e.High, *again.Low)
	}
}

func TestPaired(t *testing.T) {
	pair := func(a, b float64) []figures.Pair { return []figures.Pair{{A: a, B: b}} }
	var tasks [][]figures.Pair
	for i, a := range "1101011011" {
		tasks = append(tasks, pair(float64(a-'0'), float64("1001001010"[i]-'0')))
	}
	e, ok := figures.Difference(tasks, figures.Options{})
	if half := 0.152752523 * 2.262157163; !ok || math.Abs(e.Value-0.3) > 1e-12 || math.Abs(*e.High-0.3-half) > 1e-8 {
		t.Errorf("%+v, high %v", e, *e.High)
	}
	if p := figures.PairedBootstrap(tasks, figures.Options{Seed: 1}); p < 0.01 || p > 0.2 {
		t.Errorf("paired bootstrap: p = %v", p)
	}
	same := [][]figures.Pair{pair(1, 1), pair(0, 0), pair(1, 1)}
	e, _ = figures.Difference(same, figures.Options{})
	if e.Value != 0 || *e.Low != -*e.High || *e.High < 0.3 {
		t.Errorf("three pairs that agree prove little: %v to %v", *e.Low, *e.High)
	}
	if p := figures.PairedBootstrap(same, figures.Options{}); p != 1 {
		t.Errorf("equal runs: p = %v", p)
	}
	e, _ = figures.Difference([][]figures.Pair{pair(0, 1), pair(0, 1)}, figures.Options{})
	if e.Value != -1 || *e.Low != -1 || *e.High <= -1 || *e.High > 1 {
		t.Errorf("%v to %v", *e.Low, *e.High)
	}
	if _, ok := figures.Difference(nil, figures.Options{}); ok {
		t.Error("a difference of nothing")
	}
}

// The vector is that of Holm's and of Benjamini and Hochberg's textbook example.
func TestHolm(t *testing.T) {
	ps := []float64{0.041, 0.001, 0.216, 0.008, 0.039, 0.042, 0.06, 0.074, 0.205, 0.212}
	want := []float64{0.312, 0.01, 0.615, 0.072, 0.312, 0.312, 0.312, 0.312, 0.615, 0.615}
	for i, got := range figures.Holm(ps) {
		if math.Abs(got-want[i]) > 1e-12 {
			t.Errorf("p = %g: %g, want %g", ps[i], got, want[i])
		}
	}
	if len(figures.Holm(nil)) != 0 {
		t.Error("of nothing")
	}
}
