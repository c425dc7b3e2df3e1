package procedural

import (
	"errors"
	"fmt"
	"maps"
	"math/big"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"hermes/internal/late"
)

// linearSystems with 2 to 5 unknowns and one solution in whole numbers; an answer is
// judged by putting it in.
func linearSystems(r *rand.Rand, level int) Puzzle {
	n := 2 + (level-1)/3
	names := strings.Split("x y z u v", " ")[:n]
	signed := func(span int) int { return r.IntN(2*span+1) - span }
	a := make([][]int, n)
	for singular := true; singular; singular = determinant(a) == 0 {
		for i := range a {
			a[i] = make([]int, n)
			for j := range a[i] {
				a[i][j] = signed(2 + level)
			}
		}
	}
	x, b := make([]int, n), make([]int, n)
	var gold, text []string
	for j := range x {
		x[j] = signed(5 * level)
		gold = append(gold, fmt.Sprintf("%s = %d", names[j], x[j]))
	}
	for i := range a {
		for j := range x {
			b[i] += a[i][j] * x[j]
		}
		text = append(text, fmt.Sprintf("%s = %d", terms(a[i], names), b[i]))
	}
	return Puzzle{
		Question: fmt.Sprintf("Solve this system of equations. Give the value of each unknown in the form \"%s = 1, %s = 2\".\n\n%s", names[0], names[1], strings.Join(text, "\n")),
		Answer:   strings.Join(gold, ", "),
		Check: func(answer string) error {
			said, err := pairs(answer, names)
			if err != nil {
				return err
			}
			for i := range a {
				sum := new(big.Rat)
				for j, name := range names {
					v, err := rational(said[name])
					if err != nil {
						return err
					}
					sum.Add(sum, new(big.Rat).Mul(v, big.NewRat(int64(a[i][j]), 1)))
				}
				if sum.Cmp(big.NewRat(int64(b[i]), 1)) != 0 {
					return fmt.Errorf("equation %d does not hold", i+1)
				}
			}
			return nil
		},
	}
}

// terms writes a sum without the names whose factor is 0.
func terms(factors []int, names []string) string {
	text := ""
	for i, k := range factors {
		sign := " + "
		if k < 0 {
			sign = " - "
		}
		if text == "" {
			sign = strings.Trim(sign, " +")
		}
		switch m := max(k, -k); {
		case m == 0:
		case m == 1 && names[i] != "":
			text += sign + names[i]
		default:
			text += sign + strconv.Itoa(m) + names[i]
		}
	}
	if text == "" {
		return "0"
	}
	return text
}

// determinant expands along the first row; a has at most 5 rows.
func determinant(a [][]int) int {
	if len(a) == 0 {
		return 1
	}
	sum := 0
	for j, k := range a[0] {
		if k == 0 {
			continue
		}
		var minor [][]int
		for _, row := range a[1:] {
			minor = append(minor, slices.Delete(slices.Clone(row), j, j+1))
		}
		if j%2 == 1 {
			k = -k
		}
		sum += k * determinant(minor)
	}
	return sum
}

// polynomialEquations of degree 2 to 5 whose real solutions are whole; from level 5 on
// some factors have none.
func polynomialEquations(r *rand.Rand, level int) Puzzle {
	span := 3 + level
	roots := map[int]bool{}
	poly := []int{1}
	if level > 2 {
		poly[0] = 1 + r.IntN(1+level/2)
	}
	for range 2 + (level-1)/4 {
		root := r.IntN(2*span+1) - span
		roots[root] = true
		poly = times(poly, []int{-root, 1})
	}
	if level >= 5 && r.IntN(2) == 0 { // x² + bx + c without real solutions
		b := r.IntN(5) - 2
		poly = times(poly, []int{b*b/4 + 1 + r.IntN(level), b, 1})
	}
	want := slices.Sorted(maps.Keys(roots))
	return Puzzle{
		Question: fmt.Sprintf("Find all real solutions of the equation %s = 0. They are whole numbers. Give each of them once, separated by commas.", polynomial(poly)),
		Answer:   join(want, ", "),
		Check: func(answer string) error {
			got := map[int]bool{}
			for _, word := range separate(equals.ReplaceAllString(answer, " ")) {
				if word == "and" || word == "or" {
					continue
				}
				v, err := rational(word)
				if err != nil {
					return err
				}
				if !v.IsInt() || !v.Num().IsInt64() || !roots[int(v.Num().Int64())] {
					return fmt.Errorf("%s is no solution", clip(v.RatString()))
				}
				got[int(v.Num().Int64())] = true
			}
			if len(got) != len(roots) {
				return errors.New("a solution is missing")
			}
			return nil
		},
	}
}

// equals is what may stand before a solution: x =, x_1 =, x ∈.
var equals = late.Regexp(`\bx(?:_?\{?\d\}?|[₀-₉])?\s*(?:=|∈|\\in\b)`)

// times multiplies polynomials; the factor of the lowest power comes first.
func times(a, b []int) []int {
	out := make([]int, len(a)+len(b)-1)
	for i, x := range a {
		for j, y := range b {
			out[i+j] += x * y
		}
	}
	return out
}

func polynomial(p []int) string {
	var factors []int
	var names []string
	for i := len(p) - 1; i >= 0; i-- {
		factors = append(factors, p[i])
		switch i {
		case 0:
			names = append(names, "")
		case 1:
			names = append(names, "x")
		default:
			names = append(names, fmt.Sprintf("x^%d", i))
		}
	}
	return terms(factors, names)
}

// chineseRemainder: the smallest number that leaves given remainders. The divisors share
// factors from level 5 on.
func chineseRemainder(r *rand.Rand, level int) Puzzle {
	count, product := 2+(level-1)/3, 1
	var divisors []int
	for len(divisors) < count {
		m := 3 + r.IntN(4+5*level)
		fits := !slices.Contains(divisors, m)
		for _, d := range divisors {
			fits = fits && (level >= 5 || gcd(m, d) == 1)
		}
		if fits {
			divisors = append(divisors, m)
			product = product / gcd(product, m) * m
		}
	}
	n := r.IntN(product)
	var text []string
	for _, m := range divisors {
		text = append(text, fmt.Sprintf("the remainder %d when it is divided by %d", n%m, m))
	}
	return Puzzle{
		Question: "What is the smallest whole number, 0 or greater, that leaves " + strings.Join(text, ", ") + "?",
		Answer:   strconv.Itoa(n),
		Check:    number(n),
	}
}

func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}
