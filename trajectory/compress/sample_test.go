package compress

import (
	"fmt"
	"iter"
	"math"
	"slices"
	"testing"
)

func lines(n int) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		for i := range n {
			if !yield(fmt.Append(nil, i), nil) {
				return
			}
		}
	}
}

func chosen(s Sample, n int) (out []string) {
	for line := range s.of(lines(n)) {
		out = append(out, string(line))
	}
	return out
}

// A sample has about its share of the rows, in their order; more rows behind them change
// nothing, another seed does, and a larger share holds the smaller one.
func TestSample(t *testing.T) {
	const n = 20_000
	for _, percent := range []float64{0.5, 5, 50, 99} {
		got := chosen(Sample{percent, 42}, n)
		p := percent / 100
		if sd := math.Sqrt(p * (1 - p) * n); math.Abs(float64(len(got))-p*n) > 5*sd {
			t.Errorf("%g %%: %d of %d rows", percent, len(got), n)
		}
	}
	small, large := chosen(Sample{5, 42}, n), chosen(Sample{50, 42}, n)
	if again := chosen(Sample{5, 42}, 2*n); !slices.Equal(small, again[:len(small)]) {
		t.Error("further rows change the sample")
	}
	if slices.Equal(small, chosen(Sample{5, 43}, n)) {
		t.Error("another seed gives the same sample")
	}
	in := map[string]bool{}
	for _, line := range large {
		in[line] = true
	}
	for _, line := range small {
		if !in[line] {
			t.Fatalf("row %s is in 5 %% and not in 50 %%", line)
		}
	}
	if all := chosen(Sample{}, n); len(all) != n {
		t.Errorf("without a sample: %d rows", len(all))
	}
}
