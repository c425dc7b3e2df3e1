package procedural

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
)

// span is the largest size of the numbers in the rule of a sequence.
const span = 5

// numberSequence asks for the next numbers of a sequence. The question shows the form of its
// rule, not the factors. The numbers that are shown allow one continuation.
func numberSequence(r *rand.Rand, level int) Puzzle {
	form, ask := "a(n) = p*a(n-1) + t", 1+level/4
	shape, width := 0, 1 // how many earlier numbers the rule looks at
	switch {
	case level > 7:
		form = "a(n) = p*a(n-1) + q*a(n-2) + s*n + t"
		shape = 2
		width = 2
	case level > 3:
		form = "a(n) = p*a(n-1) + q*a(n-2) + t"
		shape = 1
		width = 2
	}
	for {
		rule := sequence{shape: shape}
		for i := range rule.k {
			rule.k[i] = r.IntN(2*span+1) - span
		}
		all := make([]int, width)
		for i := range all {
			all[i] = r.IntN(2*level+5) - level
		}
		shown := width + 4 + rule.shape
		all = rule.extend(all, shown+ask)
		if all == nil || constant(all) {
			continue
		}
		rest := all[shown:]
		if !rule.only(all[:shown], rest) {
			continue
		}
		return Puzzle{
			Question: fmt.Sprintf("A sequence follows a rule of the form %s, where the unknown factors and summands are whole numbers from -%d to %d, and the first number is a(1). It begins: %s. Give %s.",
				form, span, span, join(all[:shown], ", "), []string{"the next number", "the next two numbers, separated by a comma", "the next three numbers, separated by commas"}[ask-1]),
			Answer: join(rest, ", "), Check: exactly(rest),
		}
	}
}

func constant(list []int) bool { return slices.Max(list) == slices.Min(list) }

// sequence is a rule: k holds p, q, s and t, of which a shape uses some.
type sequence struct {
	shape int // 0: p*a(n-1)+t, 1: with q*a(n-2), 2: with s*n
	k     [4]int
}

// extend continues a sequence to a length; nil where it grows too large.
func (s sequence) extend(begin []int, length int) []int {
	all := slices.Clone(begin)
	for len(all) < length {
		n := len(all) + 1
		v := s.k[0]*all[n-2] + s.k[3]
		if s.shape > 0 {
			v += s.k[1] * all[n-3]
		}
		if s.shape > 1 {
			v += s.k[2] * n
		}
		if v > 1_000_000 || v < -1_000_000 {
			return nil
		}
		all = append(all, v)
	}
	return all
}

// only tells whether every rule of the shape that gives what is shown goes on with rest.
func (s sequence) only(shown, rest []int) bool {
	width := min(s.shape+1, 2)
	size := func(used bool) (int, int) {
		if used {
			return -span, span
		}
		return 0, 0
	}
	q0, q1 := size(s.shape > 0)
	n0, n1 := size(s.shape > 1)
	for p := -span; p <= span; p++ {
		for q := q0; q <= q1; q++ {
			for n := n0; n <= n1; n++ {
				// The first number after the given ones tells the summand.
				t := shown[width] - sequence{s.shape, [4]int{p, q, n, 0}}.next(shown[:width])
				other := sequence{s.shape, [4]int{p, q, n, t}}
				if t < -span || t > span {
					continue
				}
				if begin := other.extend(shown[:width], len(shown)); begin == nil || !slices.Equal(begin, shown) {
					continue
				}
				if all := other.extend(shown, len(shown)+len(rest)); all == nil || !slices.Equal(all[len(shown):], rest) {
					return false // nil: it grows beyond what a sequence may hold, which rest does not
				}
			}
		}
	}
	return true
}

// next is the number after begin.
func (s sequence) next(begin []int) int {
	all := s.extend(begin, len(begin)+1)
	if all == nil {
		return 1 << 40 // beyond every summand
	}
	return all[len(begin)]
}

// gridStep is one way to change a grid.
type gridStep struct {
	text string
	do   func(g [][]int) [][]int
}

// gridSteps are those that a rule may be made of.
func gridSteps() []gridStep {
	return []gridStep{
		{"turn the grid by 90 degrees clockwise", func(g [][]int) [][]int {
			return remade(len(g[0]), len(g), func(y, x int) int { return g[len(g)-1-x][y] })
		}},
		{"mirror it, left becomes right", func(g [][]int) [][]int {
			return remade(len(g), len(g[0]), func(y, x int) int { return g[y][len(g[0])-1-x] })
		}},
		{"mirror it, top becomes bottom", func(g [][]int) [][]int {
			return remade(len(g), len(g[0]), func(y, x int) int { return g[len(g)-1-y][x] })
		}},
		{"exchange rows and columns", func(g [][]int) [][]int {
			return remade(len(g[0]), len(g), func(y, x int) int { return g[x][y] })
		}},
		{"move each row one place down, the last becomes the first", func(g [][]int) [][]int {
			return remade(len(g), len(g[0]), func(y, x int) int { return g[(y+len(g)-1)%len(g)][x] })
		}},
		{"move each column one place to the right, the last becomes the first", func(g [][]int) [][]int {
			return remade(len(g), len(g[0]), func(y, x int) int { return g[y][(x+len(g[0])-1)%len(g[0])] })
		}},
		{"exchange 1 and 2", func(g [][]int) [][]int {
			return remade(len(g), len(g[0]), func(y, x int) int { return []int{0, 2, 1, 3}[g[y][x]] })
		}},
		{"replace 3 by 0", func(g [][]int) [][]int {
			return remade(len(g), len(g[0]), func(y, x int) int { return g[y][x] % 3 })
		}},
		{"let all numbers but 0 fall down their column as far as they can", func(g [][]int) [][]int {
			out := remade(len(g), len(g[0]), func(int, int) int { return 0 })
			for x := range g[0] {
				bottom := len(g) - 1
				for y := len(g) - 1; y >= 0; y-- {
					if g[y][x] != 0 {
						out[bottom][x] = g[y][x]
						bottom--
					}
				}
			}
			return out
		}},
	}
}

func remade(h, w int, at func(y, x int) int) [][]int {
	g := make([][]int, h)
	for y := range g {
		g[y] = make([]int, w)
		for x := range g[y] {
			g[y][x] = at(y, x)
		}
	}
	return g
}

// gridRules: examples of what a hidden rule of 1 to 3 steps does to grids, to be done to
// another one. All rules that fit the examples agree on it.
func gridRules(r *rand.Rand, level int) Puzzle {
	steps := gridSteps()
	depth, size := 1+(level-1)/4, 3+level/3
	draw := func() [][]int {
		h, w := 2+r.IntN(size-1), 2+r.IntN(size-1)
		return remade(h, w, func(int, int) int { return max(0, r.IntN(5)-1) })
	}
	for {
		var rule []int
		for range depth {
			rule = append(rule, r.IntN(len(steps)))
		}
		var examples [][2][][]int
		for range 3 {
			g := draw()
			examples = append(examples, [2][][]int{g, apply(steps, rule, g)})
		}
		test := draw()
		want := apply(steps, rule, test)
		if sameGrid(want, test) || !agreed(steps, depth, examples, test, want) {
			continue
		}
		var may, shown []string
		for i, s := range steps {
			may = append(may, fmt.Sprintf("%d. %s", i+1, s.text))
		}
		for i, e := range examples {
			shown = append(shown, fmt.Sprintf("Example %d, before:\n%s\nafter:\n%s", i+1, rows(e[0]), rows(e[1])))
		}
		return Puzzle{
			Question: fmt.Sprintf("A rule changes grids by %d of these steps at most, in a fixed order, where a step may occur more than once:\n%s\n\n%s\n\nFind the rule and do it to this grid:\n%s\n\nGive the grid that comes out, one row a line, the numbers separated by blanks.",
				depth, strings.Join(may, "\n"), strings.Join(shown, "\n\n"), rows(test)),
			Answer: rows(want), Check: gridCheck(want),
		}
	}
}

// gridCheck wants the numbers of a grid in its rows.
func gridCheck(want [][]int) func(string) error {
	return func(answer string) error {
		var got []string
		for line := range strings.Lines(strings.ReplaceAll(answer, "],", "]\n")) {
			row, err := whole(line)
			if err != nil {
				return err
			}
			if len(row) > 0 {
				got = append(got, join(row, " "))
			}
		}
		if strings.Join(got, "\n") != rows(want) {
			return fmt.Errorf("%q is not the grid", clip(answer))
		}
		return nil
	}
}

func rows(g [][]int) string {
	var out []string
	for _, row := range g {
		out = append(out, join(row, " "))
	}
	return strings.Join(out, "\n")
}

func sameGrid(a, b [][]int) bool { return slices.EqualFunc(a, b, slices.Equal) }

func apply(steps []gridStep, rule []int, g [][]int) [][]int {
	for _, i := range rule {
		g = steps[i].do(g)
	}
	return g
}

// agreed tells whether all rules of up to depth steps that fit the examples make the same
// of the test.
func agreed(steps []gridStep, depth int, examples [][2][][]int, test, want [][]int) bool {
	now := make([][][]int, len(examples))
	for i, e := range examples {
		now[i] = e[0]
	}
	var try func(now [][][]int, test [][]int, left int) bool
	try = func(now [][][]int, test [][]int, left int) bool {
		if left == 0 {
			return true
		}
		for _, s := range steps {
			next := make([][][]int, len(now))
			fits := true
			for i := range now {
				next[i] = s.do(now[i])
				fits = fits && sameGrid(next[i], examples[i][1])
			}
			t := s.do(test)
			if fits && !sameGrid(t, want) || !try(next, t, left-1) {
				return false
			}
		}
		return true
	}
	return try(now, test, depth)
}
