package figures

import (
	"math"
	"math/rand/v2"
	"slices"
)

// resample draws groups with replacement and returns the mean of each draw, sorted.
func resample(gs []group, o Options) []float64 {
	r := rand.New(rand.NewPCG(o.Seed, 0x9e3779b97f4a7c15))
	means := make([]float64, o.draws(len(gs)))
	for i := range means {
		var all group
		for range gs {
			g := gs[r.IntN(len(gs))]
			all.n, all.sum = all.n+g.n, all.sum+g.sum
		}
		means[i] = all.sum / all.n
	}
	slices.Sort(means)
	return means
}

// bca is the bias-corrected and accelerated interval of the mean over all samples (Efron
// 1987), the acceleration by leaving out one group after the other.
func bca(gs []group, o Options) Range {
	draws, mean := resample(gs, o), ratio(gs)
	below, _ := slices.BinarySearch(draws, mean)
	upto, _ := slices.BinarySearch(draws, math.Nextafter(mean, math.Inf(1)))
	bias := normalQuantile(float64(below+upto) / 2 / float64(len(draws)))
	accel := acceleration(gs)
	at := func(p float64) float64 {
		z := bias + normalQuantile(p)
		q := normalCDF(bias + z/(1-accel*z))
		if math.IsNaN(q) { // all draws lie on one side of the mean
			q = p
		}
		return percentile(draws, q)
	}
	tail := (1 - level) / 2
	return Range{at(tail), at(1 - tail)}
}

func acceleration(gs []group) float64 {
	var all group
	for _, g := range gs {
		all.n, all.sum = all.n+g.n, all.sum+g.sum
	}
	leave, mean := make([]float64, len(gs)), 0.0
	for i, g := range gs {
		leave[i] = (all.sum - g.sum) / (all.n - g.n)
		mean += leave[i] / float64(len(gs))
	}
	var square, cube float64
	for _, x := range leave {
		square += (mean - x) * (mean - x)
		cube += (mean - x) * (mean - x) * (mean - x)
	}
	if square == 0 {
		return 0
	}
	return cube / (6 * math.Pow(square, 1.5))
}

// percentile is the value below which the share q of a sorted list lies, between two
// neighbours in proportion.
func percentile(sorted []float64, q float64) float64 {
	at := q * float64(len(sorted)-1)
	i := min(int(at), len(sorted)-1)
	if i+1 == len(sorted) {
		return sorted[i]
	}
	return sorted[i] + (at-float64(i))*(sorted[i+1]-sorted[i])
}
