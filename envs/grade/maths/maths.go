// Package maths compares answers of mathematics: numbers, fractions, roots, percents,
// expressions with letters, equations, inequalities, intervals, sets, tuples, matrices,
// written in LaTeX or plainly.
//
// The answer is found in its text (a \boxed{}, "the answer is", the last formula or
// number), read into a tree and compared: exactly as rationals where that is possible,
// else numerically, expressions with letters at eight fixed rational points. Nothing of it
// is ever executed, and text of any kind is compared in bounded time and memory.
//
// The functions hold no state and are safe for concurrent use.
package maths

import (
	"strings"
	"unicode"
)

// Options tune [Equal]. The zero value is usable.
type Options struct {
	Targets   Targets // what is looked for; zero: formulas and plain numbers
	Places    int     // decimals that must agree where a decimal fraction is compared; 0: 6
	Loose     bool    // letters may have other names: f(x) is f(y)
	Relations bool    // -2 ≤ x ≤ 7 is [-2,7]
}

func (o Options) places() int {
	if o.Places <= 0 {
		return 6
	}
	return min(o.Places, 15)
}

// Result is a verdict with what was read.
type Result struct {
	Equal  bool
	Gold   string // as it was read; empty: nothing was found
	Answer string
}

// Equal tells whether the answer of a text is the gold answer.
func Equal(gold, answer string, o Options) Result {
	r := Result{Gold: extract(gold, o.Targets), Answer: extract(answer, o.Targets)}
	if r.Gold == "" || r.Answer == "" || len(r.Gold) > maxExpression || len(r.Answer) > maxExpression {
		return r
	}
	r.Equal = spelled(r.Gold) == spelled(r.Answer)
	for _, a := range readings(r.Gold) {
		for _, b := range readings(r.Answer) {
			if o.Loose {
				a, b = renamed(a), renamed(b)
			}
			c := &comparer{o: o}
			r.Equal = r.Equal || c.same(a, b)
		}
	}
	return r
}

// Read is the answer of a text in one spelling: equal texts have equal spellings, equal
// values may have several. ok is false where there is none.
func Read(text string, o Options) (spelling string, ok bool) {
	found := extract(text, o.Targets)
	if all := readings(found); len(all) > 0 {
		n := all[0]
		if m, ok := meant(n); ok {
			n = m
		}
		if v, ok := n.rat(0, new(meter)); ok && len(n.letters()) == 0 && !n.percent {
			return v.RatString(), true
		}
		return n.canon(), true
	}
	return spelled(found), found != ""
}

// readings parses an expression; 100,200 may be a number or a list, and so may 1,22, where
// the comma is no group of three.
func readings(s string) []*node {
	s = tidy(s)
	var out []*node
	texts := []string{ungroup(s)}
	if m := comma.FindStringSubmatch(strings.TrimSpace(s)); m != nil {
		texts = []string{m[1] + "." + m[2], s}
	} else if texts[0] != s {
		texts = append(texts, s)
	}
	for _, t := range texts {
		if n, err := parse(t); err == nil {
			out = append(out, n)
		}
	}
	return out
}

// spelled is text without what has no meaning.
func spelled(s string) string {
	s = strings.NewReplacer(`\left`, "", `\right`, "", `\mathrm`, "", `\textbf`, "", `\text`, "", `\mathbf`, "", `\dfrac`, `\frac`, `\tfrac`, `\frac`, `\!`, "", `\,`, "", `\$`, "", "$", "").Replace(s)
	return strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) || r == '{' || r == '}' {
			return -1
		}
		return r
	}, strings.TrimRight(strings.TrimSpace(s), "."))
}

// renamed gives the letters new names, in the order in which they are first seen.
func renamed(n *node) *node {
	names := n.letters()
	return n.swap(func(k *node) *node {
		for i, name := range names {
			if k.op == oSym && k.name == name {
				return sym("v" + string(rune('A'+i%26)) + strings.Repeat("'", i/26))
			}
		}
		return k
	})
}
