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
	"math"
	"math/cmplx"
	"strings"
	"unicode"
	"unicode/utf8"

	"hermes/envs/grade/written"
	"hermes/internal/late"
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
	if g := optionAlone.FindStringSubmatch(r.Gold); g != nil {
		if a := optionSaid.FindStringSubmatch(written.Final(written.Fold(answer))); a != nil {
			r.Answer, r.Equal = a[1]+a[2], a[1]+a[2] == g[1]
			return r
		}
	}
	if r.Gold == "" || r.Answer == "" || len(r.Gold) > maxExpression || len(r.Answer) > maxExpression {
		return r
	}
	if a, b := labelled.FindStringSubmatch(r.Gold), labelled.FindStringSubmatch(r.Answer); a != nil && b != nil {
		if a[1] != b[1] { // the choice counts, and what it says
			return r
		}
		r.Equal = Equal(a[2], b[2], o).Equal
		return r
	}
	if b := based.FindStringSubmatch(r.Gold); b != nil { // its base may be left out, or be a word
		digits, base, _ := strings.Cut(wordBase.Replace(strings.NewReplacer("{", "", "}", "", `\text`, "", " ", "").Replace(r.Answer)), "_")
		r.Equal = digits == b[1] && (base == "" || base == b[2])
		if r.Equal {
			return r
		}
	}
	if !strings.Contains(r.Gold, "=") {
		r.Answer = atPlace.ReplaceAllString(r.Answer, "")
	}
	golds, answers := readings(r.Gold), readings(r.Answer)
	if len(golds) == 0 || len(answers) == 0 || worded(r.Gold) || worded(r.Answer) { // text, where a value cannot be read
		r.Equal = spelled(r.Gold) == spelled(r.Answer)
		if worded(r.Gold) && worded(r.Answer) {
			return r
		}
	}
	rate, known, ok := rates(r.Gold, r.Answer)
	if !ok {
		return r
	}
	for _, a := range golds {
		for _, b := range answers {
			if o.Loose {
				a, b = renamed(a), renamed(b)
			}
			if known {
				a = product(a, &node{op: oNum, num: rate})
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
	if _, at, ok := compound(strings.TrimRight(s, "$ ")); ok {
		s = s[:at]
	}
	s = leading.ReplaceAllString(tidy(s), "")
	var out []*node
	if left, right, ok := rounded(s); ok {
		if l, err := parse(ungroup(left)); err == nil {
			if r, err := parse(ungroup(right)); err == nil && rounds(l, r, right) {
				out = append(out, r)
				if _, says := meant(l); !says || named(l) && len(l.letters()) > 0 {
					return out
				}
			}
		}
	}
	if m := labelled.FindStringSubmatch(s); m != nil { // (A) 12
		for _, t := range m[1:] {
			if n, err := parse(ungroup(t)); err == nil {
				out = append(out, n)
			}
		}
	}
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

// wordBase are the bases of numbers that are said in words.
var wordBase = strings.NewReplacer("two", "2", "three", "3", "four", "4", "five", "5", "six", "6", "seven", "7", "eight", "8", "nine", "9", "ten", "10", "twelve", "12", "sixteen", "16")

var (
	based   = late.Compile(`^\s*\$?([\dA-F]+)_(?:\{\s*)?(\d+)\s*\}?\$?\s*$`)
	atPlace = late.Compile(`^\s*[fghpqFGPQ]\s*\(\s*-?\d+\s*\)\s*=\s*`)
	// optionAlone is a gold answer that is an option, optionSaid all of an answer that names one:
	// "(A) 12", "A) 12", "The answer is \textbf{(A)}."
	optionAlone = late.Compile(`^\s*(?:\\(?:text|textbf|mathrm)\s*\{)?\s*\(?([A-H])\)?\s*\}?\s*$`)
	optionSaid  = late.Compile(`^\s*(?:(?i:the\s+|final\s+|correct\s+)*(?i:answer|option|choice)\s*(?i:is\s*)?:?\s*(?i:option\s*)?[$*]*(?:\\(?:text|textbf|mathrm)\s*\{\s*)?\(?([A-H])\)?\s*\}?[$*.\s]*|\(?([A-H])\)\s+[-\d$\\][^,;|&()A-H]{0,20})$`)
	about       = late.Compile(`\\(?:approx|simeq|doteq)(?:[^A-Za-z]|$)|≈|≃|≅`)
	leading     = late.Compile(`^\s*(?:=|≈|~|\\(?:approx|simeq|sim)(?:\s+|\b))+\s*`)
	labelled    = late.Compile(`^\s*\\text\w*\{\s*\(([A-H])\)\s*\}\s*(\S.*)$`)
	letters     = late.Compile(`^[A-Za-z]{3,}$`)
	wrapped     = late.Compile(`\\(?:mathrm|text(?:bf|it|rm|normal)?|mathbf|mbox)\s*\{([^{}]*)\}`)
)

// worded tells whether an expression is a word, no product of letters: below is not elbow.
func worded(s string) bool {
	s = strings.TrimRight(strings.TrimSpace(s), ".")
	return letters.MatchString(s) && (len(s) > 3 || strings.ContainsAny(strings.ToLower(s), "eio"))
}

// rounded parts an expression at its last sign of "about".
func rounded(s string) (left, right string, ok bool) {
	all := about.FindAllStringIndex(s, -1)
	if all == nil {
		return "", "", false
	}
	m := all[len(all)-1]
	_, size := utf8.DecodeRuneInString(s[m[0]:])
	to := m[0] + size
	for size == 1 && to < len(s) && (s[to] >= 'a' && s[to] <= 'z') {
		to++
	}
	return s[:m[0]], s[to:], true
}

// rounds tells whether r is what l is about: any value of a name, a number rounded to the
// places that r is written with.
func rounds(l, r *node, text string) bool {
	if m, ok := meant(l); ok {
		l = m
	}
	if named(l) && len(l.letters()) > 0 {
		return true
	}
	if !l.scalar() || !r.scalar() || len(l.letters())+len(r.letters()) > 0 {
		return false
	}
	_, places, _ := strings.Cut(strings.TrimRight(text, " .$"), ".")
	return cmplx.Abs(l.value(0)-r.value(0)) <= 0.51*math.Pow(10, -float64(len(places)))
}

// spelled is text without what has no meaning.
func spelled(s string) string {
	s = wrapped.ReplaceAllString(s, "$1")
	s = strings.NewReplacer(`\left`, "", `\right`, "", `\dfrac`, `\frac`, `\tfrac`, `\frac`, `\!`, "", `\,`, "", `\$`, "", "$", "").Replace(s)
	return strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) {
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
