package report

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"maps"
	"math"
	"slices"

	"hermes/envs/grade/figures"
)

// Comparison is what `hermes eval compare --json` prints. Differences are A − B.
type Comparison struct {
	Pairs      int              `json:"pairs"` // samples that both runs have scored
	Tasks      int              `json:"tasks"`
	Difference figures.Estimate `json:"difference"`
	Tests      []Test           `json:"tests"`
	Moved      []string         `json:"moved"` // tasks whose mean reward differs, the largest change first
	Moves      []Move           `json:"moves"`
	A          Side             `json:"a"`
	B          Side             `json:"b"`
}

// Test is one test of the hypothesis that the runs do not differ.
type Test struct {
	Name  string  `json:"name"`
	P     float64 `json:"p"`
	OnlyA *int    `json:"only_a,omitempty"` // pairs that passed in A alone
	OnlyB *int    `json:"only_b,omitempty"`
}

// Move is a task whose mean reward differs.
type Move struct {
	Task string  `json:"task"`
	A    float64 `json:"a"`
	B    float64 `json:"b"`
}

// Side is one of the two runs over the samples that were compared.
type Side struct {
	Run      string   `json:"run"`
	Model    string   `json:"model"`
	Mean     float64  `json:"mean"`
	Unpaired int      `json:"unpaired"` // samples that are not scored in both, or that the other run does not have
	Tokens   int64    `json:"tokens"`
	CostUSD  *float64 `json:"cost_usd"` // of the compared samples; nil: unknown
	Seconds  float64  `json:"seconds"`

	sum figures.Total // of the rewards
}

// ErrNothingToCompare says that two runs have no scored sample in common.
var ErrNothingToCompare = errors.New("no sample is scored in both runs")

// place names a sample in both runs.
type place struct {
	task   string
	number int
}

// short is what a comparison keeps of a sample.
type short struct {
	reward, cost, seconds float64
	tokens                int64
	priced                bool
}

// Compare pairs the samples of two runs by task and number.
func Compare(a, b Head, as, bs iter.Seq2[Sample, error], seed uint64) (*Comparison, error) {
	first, seen, err := read(as)
	if err != nil {
		return nil, err
	}
	second, others, err := read(bs)
	if err != nil {
		return nil, err
	}
	return compare(&baseline{a, first, seen}, &baseline{b, second, others}, seed)
}

func compare(a, b *baseline, seed uint64) (*Comparison, error) {
	c := &Comparison{A: Side{Run: a.head.Run, Model: a.head.Model, Unpaired: a.seen}, B: Side{Run: b.head.Run, Model: b.head.Model, Unpaired: b.seen}, Moved: []string{}, Moves: []Move{}}
	first, second := a.samples, b.samples
	tasks := map[string][]figures.Pair{}
	order := slices.SortedFunc(maps.Keys(first), func(x, y place) int { return cmp.Or(cmp.Compare(x.task, y.task), x.number-y.number) })
	onlyA := 0
	onlyB := 0
	binary := true
	for _, p := range order {
		x := first[p]
		y, ok := second[p]
		if !ok {
			continue
		}
		c.Pairs++
		c.A.take(x)
		c.B.take(y)
		tasks[p.task] = append(tasks[p.task], figures.Pair{A: x.reward, B: y.reward})
		binary = binary && (x.reward == 0 || x.reward == 1) && (y.reward == 0 || y.reward == 1)
		switch {
		case x.reward > y.reward:
			onlyA++
		case x.reward < y.reward:
			onlyB++
		}
	}
	if c.Pairs == 0 {
		return nil, fmt.Errorf("%w: %d and %d samples are scored", ErrNothingToCompare, len(first), len(second))
	}
	c.Tasks = len(tasks)
	for _, s := range []*Side{&c.A, &c.B} {
		s.Mean = s.sum.Over(float64(c.Pairs))
		s.Unpaired -= c.Pairs
	}
	names := slices.Sorted(maps.Keys(tasks))
	var list [][]figures.Pair
	for _, name := range names {
		list = append(list, tasks[name])
	}
	o := figures.Options{Seed: seed}
	c.Difference, _ = figures.Difference(list, o)
	c.Difference.Denominator = "pairs of scored samples"
	if binary {
		c.Tests = append(c.Tests, Test{Name: "mcnemar-exact", P: figures.McNemar(onlyA, onlyB), OnlyA: &onlyA, OnlyB: &onlyB})
	}
	c.Tests = append(c.Tests, Test{Name: "paired-bootstrap", P: figures.PairedBootstrap(list, o)})
	c.moves(names, list)
	return c, nil
}

func (s *Side) take(x short) {
	s.sum.Add(x.reward)
	s.Tokens += x.tokens
	s.Seconds += x.seconds
	if x.priced {
		s.CostUSD = ptr(*cmp.Or(s.CostUSD, new(float64)) + x.cost)
	}
}

func read(samples iter.Seq2[Sample, error]) (map[place]short, int, error) {
	m, n := map[place]short{}, 0
	for s, err := range samples {
		if err != nil {
			return nil, n, err
		}
		n++
		if s.Scored() {
			x := short{reward: *s.Reward, seconds: s.Seconds, tokens: s.Tokens}
			if s.Cost != nil {
				x.cost, x.priced = *s.Cost, true
			}
			m[place{s.Task, s.Number}] = x
		}
	}
	return m, n, nil
}

// moves lists the tasks whose mean differs, the largest change first.
func (c *Comparison) moves(names []string, tasks [][]figures.Pair) {
	for i, pairs := range tasks {
		m := Move{Task: names[i]}
		for _, p := range pairs {
			m.A, m.B = m.A+p.A/float64(len(pairs)), m.B+p.B/float64(len(pairs))
		}
		if math.Abs(m.A-m.B) > 1e-12 { // equal but for rounding
			c.Moves = append(c.Moves, m)
		}
	}
	size := func(m Move) float64 { return math.Abs(m.A - m.B) }
	slices.SortStableFunc(c.Moves, func(x, y Move) int { return cmp.Compare(size(y), size(x)) })
	for _, m := range c.Moves {
		c.Moved = append(c.Moved, m.Task)
	}
}
