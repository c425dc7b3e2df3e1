package procedural

import (
	"errors"
	"fmt"
	"math/big"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"hermes/internal/late"
)

// chainSum: 2·level+1 terms of up to level digits.
func chainSum(r *rand.Rand, level int) Puzzle {
	limit := int64(1)
	for range min(level+1, 15) {
		limit *= 10
	}
	sum := r.Int64N(limit)
	text := strconv.FormatInt(sum, 10)
	for range 2*level + 1 {
		n := r.Int64N(limit)
		if r.IntN(2) == 0 {
			sum += n
			text += fmt.Sprintf(" + %d", n)
		} else {
			sum -= n
			text += fmt.Sprintf(" - %d", n)
		}
	}
	return Puzzle{Question: "Compute: " + text, Answer: strconv.FormatInt(sum, 10), Check: number(int(sum))}
}

// baseConversion between bases 2 and 16.
func baseConversion(r *rand.Rand, level int) Puzzle {
	n := r.Int64N(int64(1)<<(6*level)) + 1
	from, to := 2+r.IntN(15), 2+r.IntN(14)
	if to >= from {
		to++
	}
	return Puzzle{
		Question: fmt.Sprintf("Write the number %s, given in base %d, in base %d. Digits above 9 are lower-case letters.", strconv.FormatInt(n, from), from, to),
		Answer:   strconv.FormatInt(n, to),
		Check: func(answer string) error {
			if digits(answer, to) != strconv.FormatInt(n, to) {
				return fmt.Errorf("%q is not the number in base %d", clip(answer), to)
			}
			return nil
		},
	}
}

var inBase = late.Regexp(`^([0-9a-z]+)(?:_\{?(\d+)\}?|\s*\(?base (\d+)\)?)$`)

// digits takes the digits of a number out of 0xff, FF, ff_16, ff (base 16).
func digits(answer string, base int) string {
	answer = strings.ToLower(named.ReplaceAllString(strings.TrimSpace(answer), ""))
	if m := inBase.FindStringSubmatch(answer); m != nil && m[2]+m[3] == strconv.Itoa(base) {
		answer = m[1]
	}
	if prefix, ok := map[int]string{2: "0b", 8: "0o", 16: "0x"}[base]; ok {
		answer = strings.TrimPrefix(answer, prefix)
	}
	return answer
}

// primeFactorization of a product of 2 to level+1 primes; any order is right.
// largestProduct keeps products within int64, and within what can be factored by thought.
const largestProduct = 1_000_000_000_000

func primeFactorization(r *rand.Rand, level int) Puzzle {
	n := int64(1)
	for range 2 + r.IntN(level) {
		p := primeBelow(r, 10*level+5)
		if n > largestProduct/p {
			break
		}
		n *= p
	}
	factors := factorize(n)
	return Puzzle{
		Question: fmt.Sprintf("Factor %d into primes. Write them with × between, each as often as it occurs.", n),
		Answer:   strings.Join(factors, " × "),
		Check: func(answer string) error {
			got := big.NewInt(1)
			if left, right, ok := strings.Cut(answer, "="); ok && strings.TrimSpace(left) == strconv.FormatInt(n, 10) {
				answer = right
			}
			for _, word := range strings.FieldsFunc(answer, func(c rune) bool { return strings.ContainsRune("×*x·⋅ ,[]()\t\n", c) }) {
				p, err := strconv.ParseInt(word, 10, 64)
				if err != nil || p < 2 || !big.NewInt(p).ProbablyPrime(20) {
					return fmt.Errorf("%q is no prime", clip(word))
				}
				got.Mul(got, big.NewInt(p))
			}
			if got.Cmp(big.NewInt(n)) != 0 {
				return fmt.Errorf("the product is %s, not %d", clip(got.String()), n)
			}
			return nil
		},
	}
}

func primeBelow(r *rand.Rand, limit int) int64 {
	for {
		if p := int64(2 + r.IntN(limit)); big.NewInt(p).ProbablyPrime(20) {
			return p
		}
	}
}

func factorize(n int64) []string {
	var out []string
	for p := int64(2); n > 1; p++ {
		for ; n%p == 0; n /= p {
			out = append(out, strconv.FormatInt(p, 10))
		}
	}
	return out
}

// simpleEquations: a·x + b = c·x + d with a whole solution; any way to write the number
// is right.
func simpleEquations(r *rand.Rand, level int) Puzzle {
	span := int64(5 * level * level)
	signed := func() int64 { return r.Int64N(2*span+1) - span }
	x := signed()
	a := signed()
	b := signed()
	c := signed()
	for a == 0 || a == c {
		a = signed()
	}
	d := a*x + b - c*x
	return Puzzle{
		Question: fmt.Sprintf("Solve for x: %dx %s = %dx %s", a, plus(b), c, plus(d)),
		Answer:   strconv.FormatInt(x, 10),
		Check: func(answer string) error {
			v, err := rational(lone(answer))
			if err != nil {
				return err
			}
			side := func(k, m int64) *big.Rat {
				s := new(big.Rat).Mul(new(big.Rat).SetInt64(k), v)
				return s.Add(s, new(big.Rat).SetInt64(m))
			}
			if side(a, b).Cmp(side(c, d)) != 0 {
				return fmt.Errorf("x = %s does not solve it", v.RatString())
			}
			return nil
		},
	}
}

func plus(n int64) string {
	if n < 0 {
		return fmt.Sprintf("- %d", -n)
	}
	return fmt.Sprintf("+ %d", n)
}

// countdown: reach a target with the given numbers, each at most once. The target is made
// by combining all of them, so a solution exists.
func countdown(r *rand.Rand, level int) Puzzle {
	count := 3 + level/2
	numbers := make([]int64, count)
	for i := range numbers {
		numbers[i] = 1 + r.Int64N(int64(10+5*level))
	}
	value, text := numbers[0], strconv.FormatInt(numbers[0], 10)
	for _, n := range numbers[1:] {
		switch op := r.IntN(3); {
		case op == 0 && value < 1000 && n > 1:
			value, text = value*n, fmt.Sprintf("(%s) * %d", text, n)
		case op == 1 && value > n:
			value, text = value-n, fmt.Sprintf("(%s) - %d", text, n)
		default:
			value, text = value+n, fmt.Sprintf("(%s) + %d", text, n)
		}
	}
	given := slices.Clone(numbers)
	r.Shuffle(len(given), func(i, j int) { given[i], given[j] = given[j], given[i] })
	return Puzzle{
		Question: fmt.Sprintf("Using the numbers %s, each at most once, with + - * / and parentheses, write an expression that equals %d.", join(given, ", "), value),
		Answer:   text,
		Check: func(answer string) error {
			got, used, err := evaluate(answer)
			if err != nil {
				return err
			}
			left := slices.Clone(given)
			for _, n := range used {
				i := slices.Index(left, n)
				if i < 0 {
					return fmt.Errorf("%d is not there (any more)", n)
				}
				left = slices.Delete(left, i, i+1)
			}
			if got.Cmp(new(big.Rat).SetInt64(value)) != 0 {
				return fmt.Errorf("it equals %s, not %d", clip(got.RatString()), value)
			}
			return nil
		},
	}
}

func join[T any](list []T, sep string) string {
	var words []string
	for _, v := range list {
		words = append(words, fmt.Sprint(v))
	}
	return strings.Join(words, sep)
}

// expression reads sums, products and parentheses over whole numbers.
type expression struct {
	rest string
	used []int64
	deep int
}

// evaluate computes an expression exactly and lists the numbers in it.
func evaluate(text string) (*big.Rat, []int64, error) {
	if len(text) > 500 {
		return nil, nil, errors.New("an expression of more than 500 characters")
	}
	if left, _, ok := strings.Cut(text, "="); ok {
		text = left
	}
	e := &expression{rest: strings.NewReplacer("[", "(", "]", ")", "×", "*", "·", "*", "⋅", "*", "÷", "/", "−", "-").Replace(text)}
	v, err := e.sum()
	if e.blank(); err == nil && e.rest != "" {
		err = fmt.Errorf("%q does not belong into an expression", clip(e.rest))
	}
	return v, e.used, err
}

// blank skips white space; what it parts is not one number.
func (e *expression) blank() { e.rest = strings.TrimLeft(e.rest, " \t\r\n") }

func (e *expression) next(ops string) (byte, bool) {
	if e.blank(); e.rest == "" || strings.IndexByte(ops, e.rest[0]) < 0 {
		return 0, false
	}
	op := e.rest[0]
	e.rest = e.rest[1:]
	return op, true
}

func (e *expression) sum() (*big.Rat, error) {
	v, err := e.product()
	for err == nil {
		op, ok := e.next("+-")
		if !ok {
			return v, nil
		}
		var w *big.Rat
		w, err = e.product()
		if err == nil {
			if op == '+' {
				v = new(big.Rat).Add(v, w)
			} else {
				v = new(big.Rat).Sub(v, w)
			}
		}
	}
	return nil, err
}

func (e *expression) product() (*big.Rat, error) {
	v, err := e.factor()
	for err == nil {
		op, ok := e.next("*/")
		if !ok {
			return v, nil
		}
		var w *big.Rat
		w, err = e.factor()
		if err == nil {
			switch {
			case op == '*':
				v = new(big.Rat).Mul(v, w)
			case w.Sign() == 0:
				err = errors.New("a division by zero")
			default:
				v = new(big.Rat).Quo(v, w)
			}
		}
	}
	return nil, err
}

func (e *expression) factor() (*big.Rat, error) {
	if _, ok := e.next("("); ok {
		e.deep++
		if e.deep > 100 {
			return nil, errors.New("too many parentheses")
		}
		v, err := e.sum()
		if err != nil {
			return nil, err
		}
		if _, ok := e.next(")"); !ok {
			return nil, errors.New("a parenthesis is not closed")
		}
		return v, nil
	}
	n := 0
	for n < len(e.rest) && e.rest[n] >= '0' && e.rest[n] <= '9' {
		n++
	}
	v, err := strconv.ParseInt(e.rest[:n], 10, 64)
	if err != nil {
		return nil, fmt.Errorf("want a number before %q", clip(e.rest))
	}
	e.rest = e.rest[n:]
	e.used = append(e.used, v)
	return new(big.Rat).SetInt64(v), nil
}
