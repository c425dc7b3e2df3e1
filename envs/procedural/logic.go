package procedural

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// knightsKnaves with exactly one solution: statements are drawn until all assignments
// but one contradict them.
func knightsKnaves(r *rand.Rand, level int) Puzzle {
	people := []string{"Ada", "Bo", "Cleo", "Dov", "Eve", "Finn", "Gus", "Hana"}[:min(2+(level+1)/2, 7)]
	for {
		var said []statement
		for i := range people {
			said = append(said, draw(r, i, len(people)))
		}
		truth, n := solutions(said, len(people))
		if n != 1 {
			continue
		}
		var text, answer []string
		for i, s := range said {
			text = append(text, fmt.Sprintf("%s says: %q", people[i], s.text(people)))
			kind := "knave"
			if truth>>i&1 == 1 {
				kind = "knight"
			}
			answer = append(answer, people[i]+" is a "+kind)
		}
		want := kinds(strings.Join(answer, ", "))
		return Puzzle{
			Question: fmt.Sprintf("Knights always tell the truth, knaves always lie; each of %s is one of them. %s. Who is what? Answer in the form \"%s is a knight, %s is a knave, …\", everybody in this order.",
				strings.Join(people, ", "), strings.Join(text, ". "), people[0], people[1]),
			Answer: strings.Join(answer, ", "),
			Check: func(answer string) error {
				if got := kinds(answer); got != want {
					return fmt.Errorf("%q is not so", clip(answer))
				}
				return nil
			},
		}
	}
}

// kinds keeps the words that matter, in their order.
func kinds(text string) string {
	var words []string
	for _, w := range strings.FieldsFunc(strings.ToLower(text), func(c rune) bool { return c < 'a' || c > 'z' }) {
		if w != "is" && w != "a" && w != "and" {
			words = append(words, w)
		}
	}
	return strings.Join(words, " ")
}

// statement is about two people: what the first is, joined with what the second is.
type statement struct {
	a, b   int
	ka, kb bool // a knight?
	join   int  // 0: a alone, 1: and, 2: or, 3: the same kind
}

func draw(r *rand.Rand, self, n int) statement {
	s := statement{a: r.IntN(n), b: r.IntN(n), ka: r.IntN(2) == 0, kb: r.IntN(2) == 0, join: r.IntN(4)}
	if s.a == self {
		s.a = (self + 1) % n
	}
	if s.b == s.a {
		s.b = (s.a + 1) % n
	}
	return s
}

// holds tells whether the statement is true where the bits of truth say who is a knight.
func (s statement) holds(truth int) bool {
	a, b := truth>>s.a&1 == 1, truth>>s.b&1 == 1
	switch s.join {
	case 1:
		return a == s.ka && b == s.kb
	case 2:
		return a == s.ka || b == s.kb
	case 3:
		return a == b
	}
	return a == s.ka
}

func (s statement) text(people []string) string {
	kind := func(knight bool) string {
		if knight {
			return "a knight"
		}
		return "a knave"
	}
	switch s.join {
	case 1:
		return fmt.Sprintf("%s is %s and %s is %s", people[s.a], kind(s.ka), people[s.b], kind(s.kb))
	case 2:
		return fmt.Sprintf("%s is %s or %s is %s", people[s.a], kind(s.ka), people[s.b], kind(s.kb))
	case 3:
		return fmt.Sprintf("%s and %s are the same", people[s.a], people[s.b])
	}
	return fmt.Sprintf("%s is %s", people[s.a], kind(s.ka))
}

// solutions tries all assignments; truth is one that fits.
func solutions(said []statement, n int) (truth, count int) {
	for t := range 1 << n {
		fits := true
		for i, s := range said {
			fits = fits && s.holds(t) == (t>>i&1 == 1)
		}
		if fits {
			truth, count = t, count+1
		}
	}
	return truth, count
}
