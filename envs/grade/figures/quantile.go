package figures

import (
	"math"

	"gonum.org/v1/gonum/mathext"
)

// normalQuantile is the inverse of the normal distribution function.
func normalQuantile(p float64) float64 { return -math.Sqrt2 * math.Erfcinv(2*p) }

func normalCDF(x float64) float64 { return math.Erfc(-x/math.Sqrt2) / 2 }

// tQuantile is the inverse of Student's distribution function for p ≥ ½.
func tQuantile(p, freedom float64) float64 {
	tail := func(t float64) float64 { return mathext.RegIncBeta(freedom/2, 0.5, freedom/(freedom+t*t)) / 2 }
	x := mathext.InvRegIncBeta(freedom/2, 0.5, 2*(1-p))
	t := math.Sqrt(freedom * (1 - x) / x)
	lg := func(x float64) float64 { v, _ := math.Lgamma(x); return v }
	for range 3 { // the inverse is good to about 1e-8; Newton's steps make it exact
		density := math.Exp(lg((freedom+1)/2)-lg(freedom/2)-(freedom+1)/2*math.Log1p(t*t/freedom)) / math.Sqrt(freedom*math.Pi)
		t += (tail(t) - (1 - p)) / density
	}
	return t
}

// halfBinomial is the probability of at most k heads in n throws of a fair coin.
func halfBinomial(k, n int) float64 {
	if k >= n {
		return 1
	}
	return mathext.RegIncBeta(float64(n-k), float64(k+1), 0.5)
}
