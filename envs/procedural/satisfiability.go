package procedural

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// literal is a variable, or its negation.
type literal struct {
	name int
	want bool
}

// satisfiability: clauses of three literals each over 4 to 13 variables, about 4.2 clauses
// a variable, where few assignments are left. One is planted; every one that fits is right.
func satisfiability(r *rand.Rand, level int) Puzzle {
	n := 3 + level
	names := strings.Split("a b c d e f g h i j k l m", " ")[:n]
	planted := make([]bool, n)
	for i := range planted {
		planted[i] = r.IntN(2) == 0
	}
	clauses := make([][]literal, n*42/10)
	var text, gold []string
	for i := range clauses {
		for good := false; !good; {
			clauses[i], good = nil, false
			for _, v := range r.Perm(n)[:3] {
				l := literal{v, r.IntN(2) == 0}
				clauses[i] = append(clauses[i], l)
				good = good || planted[v] == l.want
			}
		}
		var words []string
		for _, l := range clauses[i] {
			word := names[l.name]
			if !l.want {
				word = "not " + word
			}
			words = append(words, word)
		}
		text = append(text, "("+strings.Join(words, " or ")+")")
	}
	for i, v := range planted {
		gold = append(gold, fmt.Sprintf("%s = %v", names[i], v))
	}
	return Puzzle{
		Question: fmt.Sprintf("Find values for %s, each true or false, so that all of these hold. Give all values in the form \"a = true, b = false\".\n\n%s",
			strings.Join(names, ", "), strings.Join(text, "\n")),
		Answer: strings.Join(gold, ", "),
		Check: func(answer string) error {
			said, err := pairs(answer, names)
			if err != nil {
				return err
			}
			truth := make([]bool, n)
			for i, name := range names {
				switch strings.ToLower(said[name]) {
				case "true", "1", "t", "yes":
					truth[i] = true
				case "false", "0", "f", "no":
				default:
					return fmt.Errorf("%s = %q: want true or false", name, clip(said[name]))
				}
			}
			for i, c := range clauses {
				holds := false
				for _, l := range c {
					holds = holds || truth[l.name] == l.want
				}
				if !holds {
					return fmt.Errorf("%s does not hold", text[i])
				}
			}
			return nil
		},
	}
}
