package figures_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/mathext"

	"hermes/envs/grade/figures"
)

// wilsons are the intervals of 0 … n successes.
func wilsons(n int) (rs []figures.Range) {
	for c := range n + 1 {
		rs = append(rs, figures.Proportion(c, n, 0.95))
	}
	return rs
}

// TestCoverageOnAverage: with p ~ U(0,1) the chance that the interval holds p is
// Σ_c ∫_{low}^{high} C(n,c) p^c (1−p)^(n−c) dp, a difference of incomplete beta functions.
func TestCoverageOnAverage(t *testing.T) {
	for n := 10; n <= 2000; n += 1 + n/10 {
		sum := 0.0
		for c, r := range wilsons(n) {
			below := func(p float64) float64 {
				return mathext.RegIncBeta(float64(c+1), float64(n-c+1), min(1, max(0, p)))
			}
			sum += below(r.High) - below(r.Low)
		}
		if got := sum / float64(n+1); got < 0.94 || got > 0.96 {
			t.Errorf("n %d: coverage %.4f on average, want 0.94 to 0.96", n, got)
		}
	}
}

// TestCoverageEverywhere: between two ends of intervals the same counts cover p, a run of
// them without a gap, whose probability rises once and falls once. The least coverage in
// [0.1, 0.9] is therefore found just beside an end.
func TestCoverageEverywhere(t *testing.T) {
	for n := 10; n <= 500; n += 1 + n/8 {
		rs := wilsons(n)
		ends := []float64{0.1, 0.9}
		for _, r := range rs {
			for _, p := range []float64{r.Low, r.High} {
				ends = append(ends, p-1e-11, p+1e-11)
			}
		}
		worst, at := 1.0, 0.0
		for _, p := range ends {
			if p < 0.1 || p > 0.9 {
				continue
			}
			first := slices.IndexFunc(rs, func(r figures.Range) bool { return r.Low <= p && p <= r.High })
			last := first
			for last+1 <= n && rs[last+1].Low <= p && p <= rs[last+1].High {
				last++
			}
			if got := binomial(last, n, p) - binomial(first-1, n, p); got < worst {
				worst, at = got, p
			}
		}
		want := 0.905
		if n >= 100 {
			want = 0.93
		}
		if worst < want {
			t.Errorf("n %d: coverage %.4f at p = %.6f, want at least %.3f", n, worst, at, want)
		}
	}
}

// binomial is P(X ≤ k).
func binomial(k, n int, p float64) float64 {
	switch {
	case k < 0:
		return 0
	case k >= n:
		return 1
	}
	return mathext.RegIncBeta(float64(n-k), float64(k+1), 1-p)
}

// TestCoverageClustered draws tasks of different difficulty and asks how often the
// interval holds the mean over all tasks.
func TestCoverageClustered(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 11))
	for _, tt := range []struct {
		name        string
		tasks, most int
		even        bool
		power       float64 // a task's rate is a uniform number to that power
	}{
		{"30 tasks, 4 samples each", 30, 4, true, 1},
		{"30 tasks of 1 to 8 samples", 30, 8, false, 1},
		{"30 tasks, most of them hard", 30, 8, true, 2},
		{"100 tasks, 4 samples each", 100, 4, true, 0.5},
	} {
		const repeats = 1000
		mean, hits := 1/(1+tt.power), 0
		for range repeats {
			var all [][]float64
			for range tt.tasks {
				p := math.Pow(r.Float64(), tt.power)
				n := tt.most
				if !tt.even {
					n = 1 + r.IntN(tt.most)
				}
				var xs []float64
				for range n {
					x := 0.0
					if r.Float64() < p {
						x = 1
					}
					xs = append(xs, x)
				}
				all = append(all, xs)
			}
			e, _ := figures.Mean(all, figures.Options{})
			if e.Method != figures.Clustered {
				t.Fatalf("method %s", e.Method)
			}
			if *e.Low <= mean && mean <= *e.High {
				hits++
			}
		}
		if got := float64(hits) / repeats; got < 0.93 || got > 0.97 || math.IsNaN(got) {
			t.Errorf("%s: coverage %.4f, want 0.93 to 0.97", tt.name, got)
		}
	}
}
