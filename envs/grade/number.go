package grade

import (
	"fmt"
	"math"
	"math/big"
	"regexp"
	"strconv"
	"strings"

	"hermes/datasets"
)

var (
	numbers = regexp.MustCompile(`(?:[-+−]\s?)?\$?(?:\d[\d,]*(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?(?:/\d+)?\s?(?:\\?%)?`)
	boxed   = regexp.MustCompile(`\\boxed\{([^{}]*)\}`)
)

// maxExponent bounds what 1e… may grow to.
const maxExponent = 400

// Number compares the last number of the answer (after "####", in \boxed{}, or anywhere)
// with that of gold, as exact rationals: 1,000 equals 1000.0.
func Number(gold string) (Grader, error) { return near(gold, 0, 0) }

// near is Number with the tolerance max(abs, rel × |gold|).
func near(gold string, abs, rel float64) (Grader, error) {
	want, ok := number(gold)
	if !ok {
		return nil, fmt.Errorf("grader number: %.80q has no number", gold)
	}
	tolerance := new(big.Rat).Mul(rational(rel), new(big.Rat).Abs(want))
	if a := rational(abs); a.Cmp(tolerance) > 0 {
		tolerance = a
	}
	return judged(func(text string) (bool, string) {
		got, ok := number(text)
		if !ok {
			return false, "no number in " + short(text)
		}
		apart := new(big.Rat).Sub(got, want)
		return apart.Abs(apart).Cmp(tolerance) <= 0, "read " + short(got.RatString())
	}), nil
}

func rational(f float64) *big.Rat {
	r := new(big.Rat).SetFloat64(f)
	if r == nil {
		return new(big.Rat)
	}
	return r
}

// number is the last number of a text: after the last ####, in the last \boxed{}, or
// anywhere. Thousands may be set apart by commas; 50% is a half, 3/4 three quarters.
func number(text string) (*big.Rat, bool) {
	if at := strings.LastIndex(text, "####"); at >= 0 {
		text = text[at+4:]
	} else if m := boxed.FindAllStringSubmatch(text, -1); m != nil {
		text = m[len(m)-1][1]
	}
	all := numbers.FindAllString(text, -1)
	if len(all) == 0 {
		return nil, false
	}
	return parseNumber(all[len(all)-1])
}

func parseNumber(text string) (*big.Rat, bool) {
	text = strings.NewReplacer(",", "", "$", "", "+", "", "−", "-", " ", "", "\\", "").Replace(text)
	text, percent := strings.CutSuffix(text, "%")
	if len(text) > 4096 {
		return nil, false
	}
	if i := strings.IndexAny(text, "eE"); i >= 0 {
		exp := strings.SplitN(text[i+1:], "/", 2)[0]
		if n, err := strconv.Atoi(exp); err != nil || max(n, -n) > maxExponent {
			return nil, false
		}
	}
	r := new(big.Rat)
	over, under, fraction := strings.Cut(text, "/")
	if _, ok := r.SetString(strings.TrimSuffix(over, ".")); !ok {
		return nil, false
	}
	if fraction {
		d, ok := new(big.Rat).SetString(under)
		if !ok || d.Sign() == 0 {
			return nil, false
		}
		r.Quo(r, d)
	}
	if percent {
		r.Quo(r, big.NewRat(100, 1))
	}
	return r, true
}

// numeric compares numbers within max(abs, rel × |gold|).
type numeric struct {
	Field string  `yaml:"field"`
	Abs   float64 `yaml:"abs"`
	Rel   float64 `yaml:"rel"`
}

func (o *numeric) check() error {
	for name, f := range map[string]float64{"abs": o.Abs, "rel": o.Rel} {
		if !(f >= 0) || math.IsInf(f, 0) {
			return fmt.Errorf("%s %g: want 0 or more", name, f)
		}
	}
	return nil
}

func (o *numeric) bind(row datasets.Row) (Grader, error) {
	golds, err := Gold{o.Field}.texts(row)
	if err != nil {
		return nil, err
	}
	var gs []Grader
	for _, gold := range golds {
		g, err := near(gold, o.Abs, o.Rel)
		if err != nil {
			return nil, fmt.Errorf("row %s: %w", row.ID, err)
		}
		gs = append(gs, g)
	}
	return highest(gs), nil
}

func (o *numeric) binary() bool { return true }

func (o *numeric) key(_ datasets.Row, answer string) (string, bool) {
	r, ok := number(answer)
	if !ok {
		return "", false
	}
	return r.RatString(), true
}
