package figures_test

import (
	"encoding/json"
	"math"
	"testing"

	"hermes/envs/grade/figures"
)

// Figures of huge rewards are finite; those of a power of two as much are the same figures.
func TestHuge(t *testing.T) {
	const most = math.MaxFloat64
	for _, xs := range [][]float64{{1e200, 1}, {most, -most, most}, {most, most}, {1.7e308, 0, 0.5, -1e300}, {1e154, -1e154, 3}} {
		var one, two [][]float64
		var pairs [][]figures.Pair
		for _, x := range xs {
			one, two = append(one, []float64{x}), append(two, []float64{x, -x / 3})
			pairs = append(pairs, []figures.Pair{{A: x, B: -x}})
		}
		a, _ := figures.Mean(one, figures.Options{})
		b, _ := figures.Mean(two, figures.Options{})
		c, _ := figures.Difference(pairs, figures.Options{})
		if _, err := json.Marshal([]any{a, b, c, figures.PairedBootstrap(pairs, figures.Options{})}); err != nil {
			t.Errorf("%v: %v", xs, err)
		}
	}
	small := [][]float64{{3, 5}, {7}, {-2, 1, 1}, {40}}
	var large [][]float64
	for _, t := range small {
		var l []float64
		for _, x := range t {
			l = append(l, x*0x1p900)
		}
		large = append(large, l)
	}
	a, _ := figures.Mean(small, figures.Options{})
	b, _ := figures.Mean(large, figures.Options{})
	if b.Value != a.Value*0x1p900 || *b.Low != *a.Low*0x1p900 || *b.High != *a.High*0x1p900 || b.Method != a.Method {
		t.Errorf("%+v is not %+v", b, a)
	}
	var sum figures.Total
	for _, x := range []float64{most, most, -most, 1} {
		sum.Add(x)
	}
	if got := sum.Over(4); math.Abs(got/(most/4)-1) > 1e-9 {
		t.Errorf("a mean is %g", got)
	}
}
