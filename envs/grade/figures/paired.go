package figures

import "math"

// Pair is what two runs earned for the same sample of the same task.
type Pair struct{ A, B float64 }

// Difference is the mean of A − B over all pairs; tasks holds the pairs of each task. The
// spread is measured between tasks, with Student's t. Where nothing varies, the interval
// is what the share of pairs that agree (or all differ) allows. ok is false without pairs.
func Difference(tasks [][]Pair, o Options) (e Estimate, ok bool) {
	gs, flips, n, unit := differences(tasks)
	if n == 0 {
		return e, false
	}
	e = Estimate{Value: ratio(gs), Level: level, N: n, Tasks: len(gs)}
	se := clusterError(gs)
	switch {
	case se > 0:
		half := tQuantile(0.5+level/2, float64(len(gs)-1)) * se
		e.set(Clustered, Range{e.Value - half, e.Value + half})
		if flips {
			e.clip(-1, 1)
		}
	case flips && math.Abs(e.Value) <= 1:
		r := wilson(math.Abs(e.Value), float64(len(gs)), level)
		switch { // |A−B| is at most the share of pairs that differ
		case e.Value == 0:
			r = Range{-r.High, r.High}
		case e.Value > 0:
			r = Range{2*r.Low - 1, 1}
		default:
			r = Range{-1, 1 - 2*r.Low}
		}
		e.set(Wilson, r)
	default:
		e.Method, e.Note = None, "the differences do not vary: no interval"
	}
	if len(gs) == 1 {
		e.Note = "one task: nothing is known about others"
	}
	return e.in(unit), true
}

// differences sums up A − B by task, in a unit. flips says that all rewards lie in 0 to 1.
func differences(tasks [][]Pair) (gs []group, flips bool, n int, in float64) {
	flips = true
	most := 0.0
	for _, t := range tasks {
		for _, p := range t {
			most = max(most, math.Abs(p.A), math.Abs(p.B))
		}
	}
	in = Unit(most)
	for _, t := range tasks {
		if len(t) == 0 {
			continue
		}
		g := group{n: float64(len(t))}
		for _, p := range t {
			g.sum += p.A/in - p.B/in
			flips = flips && min(p.A, p.B) >= 0 && max(p.A, p.B) <= 1
		}
		gs = append(gs, g)
		n += len(t)
	}
	return gs, flips, n, in
}

// McNemar is the exact two-sided test of pairs of which onlyA passed in the first run
// alone and onlyB in the second alone: 2·P(X ≤ min), X binomial with ½, at most 1.
func McNemar(onlyA, onlyB int) float64 {
	return min(1, 2*halfBinomial(min(onlyA, onlyB), onlyA+onlyB))
}

// PairedBootstrap is the two-sided p of the hypothesis that the runs do not differ: the
// share of draws, tasks with replacement, whose mean lies as far from the observed
// difference as that lies from 0. The observed difference counts as one draw, so that p
// is never 0. It is 1 where there is nothing to draw from.
func PairedBootstrap(tasks [][]Pair, o Options) float64 {
	gs, _, n, _ := differences(tasks)
	if n == 0 {
		return 1
	}
	d := ratio(gs)
	as := 1
	draws := resample(gs, o)
	for _, x := range draws {
		if math.Abs(x-d) >= math.Abs(d)-1e-12 {
			as++
		}
	}
	return float64(as) / float64(len(draws)+1)
}
