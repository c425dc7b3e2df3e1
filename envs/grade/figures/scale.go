package figures

import "math"

// Rewards may be any finite numbers, and the squares or the sum of some are beyond all
// floats. Figures of those are computed in a smaller unit, a power of two, which changes no
// digit; figures of all others in 1.
const huge = 0x1p480

// Unit is by what values are to be divided, where most is the largest size of one.
func Unit(most float64) float64 {
	if most < huge {
		return 1
	}
	return 0x1p600
}

// Finite is x, or the largest number of its sign where x is beyond all numbers.
func Finite(x float64) float64 { return max(-math.MaxFloat64, min(math.MaxFloat64, x)) }

// in gives an estimate that was made in a unit in 1.
func (e Estimate) in(unit float64) Estimate {
	if unit == 1 {
		return e
	}
	e.Value = Finite(e.Value * unit)
	if e.Low != nil {
		low, high := Finite(*e.Low*unit), Finite(*e.High*unit)
		e.Low, e.High = &low, &high
	}
	if e.Bootstrap != nil {
		e.Bootstrap = &Range{Finite(e.Bootstrap.Low * unit), Finite(e.Bootstrap.High * unit)}
	}
	return e
}

// Total adds up finite numbers. The zero value is empty.
type Total struct{ sum, part float64 }

const fraction = 0x1p-64

// Add adds one.
func (t *Total) Add(x float64) { t.sum, t.part = t.sum+x, t.part+x*fraction }

// Over is the sum divided by n; it is finite where n is at least 1.
func (t *Total) Over(n float64) float64 {
	if v := t.sum / n; !math.IsInf(v, 0) && !math.IsNaN(v) {
		return v
	}
	return Finite(t.part / n / fraction)
}
