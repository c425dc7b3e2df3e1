package procedural

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
)

const (
	womenNames = "Ada Beth Cleo Dora Emma Fay Gina Hana Iris June Kate Lena Mia Nora Olga Pia Ruth Sara Tina Una Vera Wilma Xenia Yara Zoe Amy Bea Cora Dina Ella Flora Greta Hope Ina Jill Kira Lucy Maud Nell Opal"
	menNames   = "Adam Ben Carl Dan Earl Finn Gus Hugo Ivan Jack Karl Leo Max Nick Otto Paul Rolf Sam Tom Udo Vito Walt Xaver Yan Zeno Abel Bert Cyril Dirk Emil Fred Georg Hank Ingo Jon Kurt Luis Mark Ned Oscar"
)

// relative is a person of a made family; -1: unknown or none.
type relative struct {
	name           string
	female         bool
	mother, father int
	spouse         int
}

// familyRelationships over 2 to 5 generations: what one person is to another. From level 4
// on never husband, wife, parent or child.
func familyRelationships(r *rand.Rand, level int) Puzzle {
	for {
		f, text := newFamily(r, level)
		byWord := map[string][][2]int{}
		for a := range f {
			for b := range f {
				word := f.relation(a, b)
				near := slices.Contains(strings.Fields("husband wife mother father son daughter"), word)
				if word != "" && (level < 4 || !near) {
					byWord[word] = append(byWord[word], [2]int{a, b})
				}
			}
		}
		words := slices.Sorted(maps.Keys(byWord))
		if len(words) == 0 {
			continue
		}
		word := words[r.IntN(len(words))]
		pair := byWord[word][r.IntN(len(byWord[word]))]
		r.Shuffle(len(text), func(i, j int) { text[i], text[j] = text[j], text[i] })
		return Puzzle{
			Question: fmt.Sprintf("In this family (f) stands for female and (m) for male. %s What is %s to %s? Answer with the one word for it; in-laws are written with hyphens.",
				strings.Join(text, " "), f[pair[0]].name, f[pair[1]].name),
			Answer: word,
			Check: func(answer string) error {
				return oneWord(word)(strings.ReplaceAll(strings.TrimSpace(answer), " ", "-"))
			},
		}
	}
}

type family []relative

// newFamily makes a couple, their children, who marry, and so on, and says so.
func newFamily(r *rand.Rand, level int) (f family, text []string) {
	women, men := strings.Fields(womenNames), strings.Fields(menNames)
	r.Shuffle(len(women), func(i, j int) { women[i], women[j] = women[j], women[i] })
	r.Shuffle(len(men), func(i, j int) { men[i], men[j] = men[j], men[i] })
	add := func(female bool, mother, father int) int {
		names := &men
		if female {
			names = &women
		}
		f = append(f, relative{name: (*names)[0], female: female, mother: mother, father: father, spouse: -1})
		*names = (*names)[1:]
		return len(f) - 1
	}
	now := []int{add(true, -1, -1)}
	for range 2 + (level-1)/3 {
		var next []int
		for _, a := range now {
			if len(next) >= 5 {
				break // the names would not last
			}
			b := add(!f[a].female, -1, -1)
			f[a].spouse, f[b].spouse = b, a
			mother, father := a, b
			if !f[a].female {
				mother, father = b, a
			}
			var kids []string
			for range 1 + r.IntN(2+level/5) {
				c := add(r.IntN(2) == 0, mother, father)
				kids, next = append(kids, f.called(c)), append(next, c)
			}
			text = append(text, fmt.Sprintf("%s is married to %s; the list of their children: %s.", f.called(a), f.called(b), strings.Join(kids, ", ")))
		}
		now = next
	}
	return f, text
}

func (f family) called(i int) string {
	if f[i].female {
		return f[i].name + " (f)"
	}
	return f[i].name + " (m)"
}

// relation is the word for what a is to b; "" where there is none without doubt.
func (f family) relation(a, b int) string {
	pick := func(female, male string) string {
		if f[a].female {
			return female
		}
		return male
	}
	parents := func(i int) []int {
		if i < 0 || f[i].mother < 0 {
			return nil
		}
		return []int{f[i].mother, f[i].father}
	}
	grand := func(i int) (out []int) {
		for _, p := range parents(i) {
			out = append(out, parents(p)...)
		}
		return out
	}
	siblings := func(x, y int) bool {
		return x != y && x >= 0 && y >= 0 && f[x].mother >= 0 && f[x].mother == f[y].mother
	}
	sibling := func(x int, of []int) bool {
		return slices.ContainsFunc(of, func(y int) bool { return siblings(x, y) })
	}
	var great []int
	for _, p := range grand(b) {
		great = append(great, parents(p)...)
	}
	var down []int
	for _, p := range grand(a) {
		down = append(down, parents(p)...)
	}
	switch {
	case a == b:
		return ""
	case f[a].spouse == b:
		return pick("wife", "husband")
	case slices.Contains(parents(b), a):
		return pick("mother", "father")
	case slices.Contains(parents(a), b):
		return pick("daughter", "son")
	case siblings(a, b):
		return pick("sister", "brother")
	case slices.Contains(grand(b), a):
		return pick("grandmother", "grandfather")
	case slices.Contains(grand(a), b):
		return pick("granddaughter", "grandson")
	case slices.Contains(great, a):
		return pick("great-grandmother", "great-grandfather")
	case slices.Contains(down, b):
		return pick("great-granddaughter", "great-grandson")
	case sibling(a, parents(b)):
		return pick("aunt", "uncle")
	case sibling(b, parents(a)):
		return pick("niece", "nephew")
	case slices.ContainsFunc(parents(a), func(p int) bool { return sibling(p, parents(b)) }):
		return "cousin"
	case slices.Contains(parents(f[b].spouse), a):
		return pick("mother-in-law", "father-in-law")
	case slices.Contains(parents(f[a].spouse), b):
		return pick("daughter-in-law", "son-in-law")
	case siblings(f[a].spouse, b) || siblings(a, f[b].spouse):
		return pick("sister-in-law", "brother-in-law")
	}
	return ""
}
