package procedural

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"hermes/internal/late"
)

// zebraPuzzles: people in a row of houses, who differ in everything, and clues that leave
// exactly one arrangement. Clues that are not needed are taken out from level 4 on; from
// level 6 on none names a house.
func zebraPuzzles(r *rand.Rand, level int) Puzzle {
	houses, kinds := 3+min((level-1)/3, 2), 2+(level+1)/4
	var z zebra
	for k, words := range zebraWords()[:kinds] {
		r.Shuffle(len(words.values), func(i, j int) { words.values[i], words.values[j] = words.values[j], words.values[i] })
		z.kinds = append(z.kinds, words)
		z.kinds[k].values = words.values[:houses]
	}
	z.houses = houses
	truth := make([][]int, kinds) // the house of each value
	for k := range truth {
		truth[k] = r.Perm(houses)
	}
	for len(z.clues) == 0 || z.arrangements() != 1 {
		for range 1 + houses {
			z.clues = append(z.clues, z.clue(r, truth, level >= 6))
		}
	}
	if level >= 4 {
		for i := len(z.clues) - 1; i >= 0; i-- {
			less := zebra{kinds: z.kinds, houses: houses, clues: slices.Delete(slices.Clone(z.clues), i, i+1)}
			if less.arrangements() == 1 {
				z.clues = less.clues
			}
		}
	}
	r.Shuffle(len(z.clues), func(i, j int) { z.clues[i], z.clues[j] = z.clues[j], z.clues[i] })
	return z.puzzle(truth)
}

// zebraKind is one way in which the people differ: a text for each value.
type zebraKind struct {
	name, says string // says is a format: "the person who drinks %s"
	values     []string
}

func zebraWords() []zebraKind {
	return []zebraKind{
		{"name", "%s", strings.Fields("Ada Bo Cleo Dov Eve")},
		{"drink", "the person who drinks %s", strings.Fields("tea milk juice cocoa water")},
		{"pet", "the person who keeps the %s", strings.Fields("cat dog horse snail parrot")},
		{"colour", "the person in the %s house", strings.Fields("red blue green white yellow")},
	}
}

type zebra struct {
	kinds  []zebraKind
	houses int
	clues  []clue
}

// clue relates two values, or a value and a house.
type clue struct {
	how        int // 0 the same house, 1 directly left of, 2 next to, 3 somewhere left of, 4 in house b
	kind, a    int
	other, b   int
	impossible bool // not: the opposite holds (of 0 and 4)
}

func (z *zebra) clue(r *rand.Rand, truth [][]int, hard bool) clue {
	for {
		c := clue{how: r.IntN(5), kind: r.IntN(len(z.kinds)), a: r.IntN(z.houses), other: r.IntN(len(z.kinds)), b: r.IntN(z.houses), impossible: r.IntN(4) == 0}
		if c.how == 4 {
			c.other = c.kind
			if hard {
				continue
			}
		} else if c.kind == c.other && (c.a == c.b || c.how == 0) {
			continue
		}
		if c.how != 0 && c.how != 4 {
			c.impossible = false
		}
		if c.holds(truth) {
			return c
		}
	}
}

// holds tells whether the clue fits; where[k][v] is the house of value v of kind k.
func (c clue) holds(where [][]int) bool {
	x := where[c.kind][c.a]
	if c.how == 4 {
		return (x == c.b) != c.impossible
	}
	y := where[c.other][c.b]
	switch c.how {
	case 0:
		return (x == y) != c.impossible
	case 1:
		return x+1 == y
	case 2:
		return x+1 == y || y+1 == x
	}
	return x < y
}

// arrangements counts those that fit, up to 2: it places one value after the other and
// asks every clue as soon as both of its values are placed.
func (z *zebra) arrangements() int {
	where := make([][]int, len(z.kinds))
	for k := range where {
		where[k] = make([]int, z.houses)
	}
	order, place := z.order()
	ready := make([][]clue, len(order))
	for _, c := range z.clues {
		at := max(place[c.first(z)], place[c.second(z)])
		ready[at] = append(ready[at], c)
	}
	taken := make([]int, len(z.kinds))
	var count func(at int) int
	count = func(at int) int {
		if at == len(ready) {
			return 1
		}
		k := order[at] / z.houses
		v := order[at] % z.houses
		found := 0
	next:
		for house := range z.houses {
			if taken[k]&(1<<house) != 0 {
				continue
			}
			where[k][v] = house
			for _, c := range ready[at] {
				if !c.holds(where) {
					continue next
				}
			}
			taken[k] |= 1 << house
			found += count(at + 1)
			taken[k] &^= 1 << house
			if found > 1 {
				break
			}
		}
		return found
	}
	return count(0)
}

// first and second are the values that a clue is about, counted over all kinds.
func (c clue) first(z *zebra) int { return c.kind*z.houses + c.a }

func (c clue) second(z *zebra) int {
	if c.how == 4 {
		return c.first(z)
	}
	return c.other*z.houses + c.b
}

// order puts those values next that have the most clues with the ones before them, so
// that clues rule out early; place is where each one came to stand.
func (z *zebra) order() (order, place []int) {
	n := len(z.kinds) * z.houses
	weight, place := make([]int, n), slices.Repeat([]int{-1}, n)
	for _, c := range z.clues {
		weight[c.first(z)]++
		weight[c.second(z)]++
	}
	for range n {
		best := -1
		for v := range n {
			if place[v] < 0 && (best < 0 || weight[v] > weight[best]) {
				best = v
			}
		}
		place[best] = len(order)
		order = append(order, best)
		for _, c := range z.clues {
			switch best {
			case c.first(z):
				weight[c.second(z)] += 10
			case c.second(z):
				weight[c.first(z)] += 10
			}
		}
	}
	return order, place
}

func (z *zebra) text(c clue) string {
	who := func(kind, value int) string {
		return fmt.Sprintf(z.kinds[kind].says, z.kinds[kind].values[value])
	}
	not := ""
	if c.impossible {
		not = "not "
	}
	a := who(c.kind, c.a)
	if c.how == 4 {
		return fmt.Sprintf("%s does %slive in house %d.", a, not, c.b+1)
	}
	b := who(c.other, c.b)
	return fmt.Sprintf([]string{"%s is %s%s.", "%s lives directly left of %s%s.", "%s lives next to %s%s.", "%s lives somewhere left of %s%s."}[c.how], a, not, b)
}

func (z *zebra) puzzle(truth [][]int) Puzzle {
	var about, names, clues, rows []string
	for _, k := range z.kinds {
		names = append(names, k.name)
		sorted := slices.Sorted(slices.Values(k.values))
		about = append(about, fmt.Sprintf("%s (%s)", k.name, strings.Join(sorted, ", ")))
	}
	for i, c := range z.clues {
		text := strings.Replace(z.text(c), "does live", "lives", 1)
		clues = append(clues, fmt.Sprintf("%d. %s%s", i+1, strings.ToUpper(text[:1]), text[1:]))
	}
	for house := range z.houses {
		words := []string{}
		for k, kind := range z.kinds {
			words = append(words, kind.values[slices.Index(truth[k], house)])
		}
		rows = append(rows, fmt.Sprintf("%d: %s", house+1, strings.Join(words, ", ")))
	}
	said := func(answer string) string { return houseRows(answer, names) }
	want := said(strings.Join(rows, "\n"))
	return Puzzle{
		Question: fmt.Sprintf("%d people live in a row of houses, numbered from 1 on the left to %d on the right, one in each. They all differ in %s.\n\n%s\n\nGive one line for each house, from 1 to %d, in the form \"1: %s\".",
			z.houses, z.houses, strings.Join(about, "; "), strings.Join(clues, "\n"), z.houses, strings.Join(names, ", ")),
		Answer: strings.Join(rows, "\n"),
		Check: func(answer string) error {
			if got := said(answer); got != want {
				return fmt.Errorf("%q is not so", clip(got))
			}
			return nil
		},
	}
}

var (
	// numbered begins what is said of a house: "2:", "House 2 -", "| 2 |".
	numbered = late.Regexp(`(?:\bhouse\s+|\b)(\d+)\b`)
	lettered = late.Regexp(`[a-z]+`)
)

// houseRows keeps the words that are said of each house, by its number where it has one,
// else by its line. The names of the kinds (drink: tea) and the word house say nothing.
func houseRows(answer string, kinds []string) string {
	answer = strings.ToLower(answer)
	words := func(part string) string {
		list := slices.DeleteFunc(lettered.FindAllString(part, -1), func(w string) bool { return w == "house" || slices.Contains(kinds, w) })
		slices.Sort(list)
		return strings.Join(list, " ")
	}
	var houses []string
	begins := numbered.FindAllStringSubmatchIndex(answer, -1)
	if begins == nil {
		for line := range strings.Lines(answer) {
			if w := words(line); w != "" {
				houses = append(houses, fmt.Sprintf("%d %s", len(houses)+1, w))
			}
		}
		return strings.Join(houses, "; ")
	}
	if w := words(answer[:begins[0][0]]); w != "" {
		houses = append(houses, w)
	}
	for i, m := range begins {
		end := len(answer)
		if i+1 < len(begins) {
			end = begins[i+1][0]
		}
		houses = append(houses, answer[m[2]:m[3]]+" "+words(answer[m[1]:end]))
	}
	slices.Sort(houses)
	return strings.Join(houses, "; ")
}
