// Package figures turns rewards into numbers that say how sure they are: means with
// intervals, pass@k and its relatives, paired comparisons, and the smallest difference
// that a comparison can find.
//
// Samples of one task are not independent: wherever a task has several, the spread is
// measured between tasks. All functions are pure; what is drawn at random follows from a
// seed alone. Formulas: Wilson 1927; Miller, "Adding Error Bars to Evals" (arXiv
// 2411.00640) for clusters; Efron 1987 for BCa; Chen et al. (arXiv 2107.03374) for pass@k.
package figures

import (
	"math"
	"slices"
)

// Estimate is a figure with its interval. It is M of report.json.
type Estimate struct {
	Value       float64  `json:"value"`
	Low         *float64 `json:"low"` // nil where no interval can be given; Note says why
	High        *float64 `json:"high"`
	Level       float64  `json:"level"` // of the interval: 0.95
	Method      string   `json:"method"`
	N           int      `json:"n"`           // how many the value is the mean of
	Denominator string   `json:"denominator"` // what N counts
	Tasks       int      `json:"tasks,omitempty"`
	Bootstrap   *Range   `json:"bootstrap,omitempty"` // a second opinion below 30 tasks with several samples each
	Note        string   `json:"note,omitempty"`
}

// Range is an interval.
type Range struct {
	Low  float64 `json:"low"`
	High float64 `json:"high"`
}

// The methods of intervals.
const (
	Wilson    = "wilson"                // 0/1, one sample a task; also where nothing varies
	Clustered = "clustered-t"           // spread between tasks, Student's t
	BCa       = "cluster-bootstrap-bca" // tasks drawn with replacement
	None      = "none"
)

const (
	fewTasks  = 30   // below that the clustered interval gets a second opinion
	manyTasks = 1000 // from there on the mean is normal whatever the rewards look like
)

// level is that of every interval.
const level = 0.95

// Options of an estimate. The zero value is usable.
type Options struct {
	Draws int // of a bootstrap; 0: 10,000, fewer (at least 1,000) above 5,000 tasks
	Seed  uint64
}

// draws keeps the work within 50 million steps: with that many tasks the means of the
// draws are normal, and fewer of them tell the same.
func (o Options) draws(groups int) int {
	if o.Draws == 0 {
		return max(1000, min(10_000, 50_000_000/groups))
	}
	return o.Draws
}

// group is a task: how many samples, their sum.
type group struct{ n, sum float64 }

// Mean is the mean over all samples; tasks holds the rewards of each task's samples, or of
// each cluster of tasks that belong together. Tasks without samples do not count. ok is
// false where there is no sample at all.
func Mean(tasks [][]float64, o Options) (e Estimate, ok bool) {
	most := 0.0
	for _, t := range tasks {
		for _, x := range t {
			most = max(most, math.Abs(x))
		}
	}
	unit := Unit(most)
	var gs []group
	shape := shape{low: math.Inf(1), high: math.Inf(-1), single: true, binary: true}
	for _, t := range tasks {
		if len(t) == 0 {
			continue
		}
		g := group{n: float64(len(t))}
		for _, x := range t {
			g.sum += x / unit
			shape.see(x)
		}
		shape.single = shape.single && len(t) == 1
		shape.n += len(t)
		gs = append(gs, g)
	}
	e, ok = estimate(gs, shape, o)
	return e.in(unit), ok
}

// OverTasks is the mean of one value a task. several says that the values were made of
// several samples each, so that they are no proportions. cluster, if not nil, numbers for
// each value the cluster that its task belongs to, from 0.
func OverTasks(values []float64, cluster []int, several bool, o Options) (e Estimate, ok bool) {
	shape := shape{low: math.Inf(1), high: math.Inf(-1), single: !several && cluster == nil, binary: true, n: len(values)}
	var gs []group
	for i, x := range values {
		at := i
		if cluster != nil {
			at = cluster[i]
		}
		for at >= len(gs) {
			gs = append(gs, group{})
		}
		gs[at].n, gs[at].sum = gs[at].n+1, gs[at].sum+x
		shape.see(x)
	}
	gs = slices.DeleteFunc(gs, func(g group) bool { return g.n == 0 })
	return estimate(gs, shape, o)
}

// shape is what decides which interval fits.
type shape struct {
	n              int
	low, high      float64
	single, binary bool
}

func (s *shape) see(x float64) {
	s.low, s.high = min(s.low, x), max(s.high, x)
	s.binary = s.binary && (x == 0 || x == 1)
}

func estimate(gs []group, s shape, o Options) (e Estimate, ok bool) {
	if s.n == 0 {
		return Estimate{}, false
	}
	e = Estimate{Value: ratio(gs), Level: level, N: s.n, Tasks: len(gs)}
	se := clusterError(gs)
	switch {
	case s.single && s.binary:
		e.set(Wilson, wilson(e.Value, float64(s.n), level))
	case len(gs) == 1 && s.n > 1:
		e.Note = "one task: the interval is about this task alone"
		e.oneTask(s, o)
	case s.low == s.high || se == 0:
		e.flat(s, float64(len(gs)), o)
	case s.single && len(gs) < manyTasks:
		e.set(BCa, bca(gs, o))
	default:
		half := tQuantile(0.5+level/2, float64(len(gs)-1)) * se
		e.set(Clustered, Range{e.Value - half, e.Value + half})
		if len(gs) < fewTasks {
			r := bca(gs, o)
			e.Bootstrap = &r
		}
	}
	if s.n == 1 {
		e.Note = "one sample only: it says next to nothing"
	}
	if s.binary || s.low >= 0 && s.high <= 1 && !s.single {
		e.clip(0, 1)
	}
	return e, true
}

func (e *Estimate) set(method string, r Range) { e.Method, e.Low, e.High = method, &r.Low, &r.High }

func (e *Estimate) clip(low, high float64) {
	if e.Low != nil {
		*e.Low, *e.High = max(low, *e.Low), min(high, *e.High)
	}
}

// oneTask has nothing to measure a spread between tasks by: what it says is about the
// samples of the task.
func (e *Estimate) oneTask(s shape, o Options) {
	if s.low >= 0 && s.high <= 1 { // the variance of values in [0,1] is at most p(1-p)
		e.set(Wilson, wilson(e.Value, float64(s.n), level))
		return
	}
	e.Method = None
	e.Note = "one task with rewards outside of 0 to 1: no interval"
}

// flat is for values that do not vary, from which no spread can be read.
func (e *Estimate) flat(s shape, n float64, o Options) {
	if s.low >= 0 && s.high <= 1 {
		e.set(Wilson, wilson(e.Value, n, level))
		return
	}
	e.Method, e.Note = None, "the rewards do not vary and lie outside of 0 to 1: no interval"
}

// Proportion is the Wilson interval of c successes in n tries at a confidence level.
func Proportion(c, n int, level float64) Range {
	return wilson(float64(c)/float64(n), float64(n), level)
}

func wilson(p, n, level float64) Range {
	z := normalQuantile(0.5 + level/2)
	mid, half := p+z*z/(2*n), z*math.Sqrt(p*(1-p)/n+z*z/(4*n*n))
	r := Range{(mid - half) / (1 + z*z/n), (mid + half) / (1 + z*z/n)}
	if p == 0 {
		r.Low = 0
	}
	if p == 1 {
		r.High = 1
	}
	return r
}

// ratio is the mean over all samples.
func ratio(gs []group) float64 {
	var all group
	for _, g := range gs {
		all.n, all.sum = all.n+g.n, all.sum+g.sum
	}
	return all.sum / all.n
}

// clusterError is the standard error of the mean over all samples where those of a group
// belong together: √(G/(G−1)·Σ_g(Σ_{i∈g}(x−x̄))²)/n. Groups of one make it the usual one.
func clusterError(gs []group) float64 {
	if len(gs) < 2 {
		return 0
	}
	mean := ratio(gs)
	square := 0.0
	n := 0.0
	for _, g := range gs {
		d := g.sum - g.n*mean
		square += d * d
		n += g.n
	}
	count := float64(len(gs))
	se := math.Sqrt(count/(count-1)*square) / n
	if se < 1e-12*max(1, math.Abs(mean)) { // rounding of equal values
		return 0
	}
	return se
}

// MDE is the smallest difference between two runs of n units each that a two-sided test
// at the given significance finds with the given power, where p is the expected rate and
// rho the correlation between the runs' results on the same task; 1, the most that rates
// can differ by, where it would be more.
func MDE(n int, p, rho, significance, power float64) float64 {
	z := normalQuantile(1-significance/2) + normalQuantile(power)
	return min(1, z*math.Sqrt(2*p*(1-p)*(1-rho)/float64(n)))
}
