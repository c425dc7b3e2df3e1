package figures

import (
	"cmp"
	"slices"
)

// Holm adjusts the p-values of several tests so that the chance of even one false alarm
// among them stays what a single test's would be: the i-th smallest of m is multiplied by
// m − i + 1, none is smaller than one before it, and none is above 1. The order is kept.
func Holm(ps []float64) []float64 {
	order := make([]int, len(ps))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(ps[a], ps[b]) })
	out, floor := make([]float64, len(ps)), 0.0
	for rank, i := range order {
		floor = max(floor, min(1, ps[i]*float64(len(ps)-rank)))
		out[i] = floor
	}
	return out
}
