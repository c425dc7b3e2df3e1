package maths_test

import (
	"fmt"
	"math/big"
	"math/rand/v2"
	"strings"
	"testing"

	"hermes/envs/grade/maths"
)

// notations writes a fraction in the forms that models do.
func notations(n, d int64) []string {
	r := big.NewRat(n, d)
	num, den := r.Num().String(), r.Denom().String()
	abs, sign := strings.TrimPrefix(num, "-"), ""
	if r.Sign() < 0 {
		sign = "-"
	}
	list := []string{
		fmt.Sprintf(`\boxed{%s\frac{%s}{%s}}`, sign, abs, den),
		fmt.Sprintf(`\boxed{\dfrac{%s}{%s}}`, num, den),
		fmt.Sprintf(`The answer is %s/%s.`, num, den),
		fmt.Sprintf(`<answer>%s/%s</answer>`, num, den),
		fmt.Sprintf("**Answer:** $%s\\frac{%s}{%s}$", sign, abs, den),
		fmt.Sprintf(`{"answer": "%s/%s"}`, num, den),
		fmt.Sprintf(`so $x = \frac{%d}{%d}$`, 3*n, 3*d),
		fmt.Sprintf("答案是%s/%s", num, den),
		strings.ReplaceAll(fmt.Sprintf("`%s/%s`", num, den), "-", "–"),
	}
	if r.IsInt() {
		list = append(list, num, "The answer is **"+num+"**.", strings.Replace(num, "-", "−", 1), fmt.Sprintf(`\boxed{\color{red}{%s}}`, num), num+".0")
	}
	for places := range 5 { // decimals that end
		text := r.FloatString(places)
		if exact, ok := new(big.Rat).SetString(text); ok && exact.Cmp(r) == 0 && places > 0 {
			list = append(list, text, fmt.Sprintf(`$%s$`, text), text+"e0",
				fmt.Sprintf(`%s \times 10^{3}`, new(big.Rat).Quo(r, big.NewRat(1000, 1)).FloatString(places+3)))
			break
		}
	}
	return list
}

// The same value is right in any two notations, another value in none.
func TestValuesInNotations(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 11))
	draw := func() (int64, int64) {
		return r.Int64N(2001) - 1000, []int64{1, 1, 2, 3, 4, 5, 7, 8, 9, 20, 125, 999}[r.IntN(12)]
	}
	for range 400 {
		a, b := draw()
		c, d := draw()
		xs, ys := notations(a, b), notations(c, d)
		x := xs[r.IntN(len(xs))]
		again := xs[r.IntN(len(xs))]
		y := ys[r.IntN(len(ys))]
		if got := maths.Equal(x, again, maths.Options{}); !got.Equal {
			t.Errorf("%d/%d: %q is not %q (read %q and %q)", a, b, x, again, got.Gold, got.Answer)
		}
		same := big.NewRat(a, b).Cmp(big.NewRat(c, d)) == 0
		if got := maths.Equal(x, y, maths.Options{}); got.Equal != same {
			t.Errorf("%d/%d and %d/%d: %q and %q: %v (read %q and %q)", a, b, c, d, x, y, got.Equal, got.Gold, got.Answer)
		}
		if got := maths.Equal(x, strings.Replace(x, "swer is", "swer is not", 1), maths.Options{}); got.Equal && strings.Contains(x, "swer is") {
			t.Errorf("%q is right although it is denied", x)
		}
	}
}

// Fractions with the same digits in the same order, cut elsewhere, are other values.
func TestSameDigitsOtherValues(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 5))
	for range 300 {
		digits := fmt.Sprint(10_000 + r.IntN(90_000))
		i, j := 1+r.IntN(4), 1+r.IntN(4)
		x, ok1 := new(big.Rat).SetString(digits[:i] + "/" + digits[i:])
		y, ok2 := new(big.Rat).SetString(digits[:j] + "/" + digits[j:])
		if !ok1 || !ok2 {
			continue // a denominator of 0
		}
		for _, form := range []string{`\frac{%s}{%s}`, `\sqrt{%s}%s`, `%s^{%s}`, `\sqrt[%s]{%s}`, `x_{%s}+%s`, `\binom{%s}{%s}`} {
			a, b := fmt.Sprintf(form, digits[:i], digits[i:]), fmt.Sprintf(form, digits[:j], digits[j:])
			if strings.HasPrefix(form, `\frac`) {
				if got := maths.Equal(a, `\boxed{`+b+`}`, maths.Options{}); got.Equal != (x.Cmp(y) == 0) {
					t.Errorf("%s and %s: %v", a, b, got.Equal)
				}
				continue
			}
			if got := maths.Equal(a, `\boxed{`+b+`}`, maths.Options{}); got.Equal && i != j && !strings.HasPrefix(form, `\binom`) &&
				!strings.HasPrefix(form, `\sqrt`) {
				t.Errorf("%s and %s are called equal", a, b)
			}
		}
	}
}

// A permutation of the letters of a word is another word.
func TestWordsAreNoProducts(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 9))
	for _, word := range []string{"below", "silent", "Monday", "increasing", "odd", "none", "north", "circle"} {
		for range 20 {
			letters := []byte(word)
			r.Shuffle(len(letters), func(i, j int) { letters[i], letters[j] = letters[j], letters[i] })
			if got := maths.Equal(word, string(letters), maths.Options{}); got.Equal != (string(letters) == word) {
				t.Errorf("%s and %s: %v", word, letters, got.Equal)
			}
		}
	}
}
