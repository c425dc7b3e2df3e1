package procedural

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"

	"hermes/internal/late"
)

// anagramWords are groups of English words of the same letters.
const anagramWords = `listen silent enlist tinsel|stressed desserts|night thing|elbow below|angel angle glean|stale least slate steal tales|cider cried|earth heart hater|
dusty study|save vase|state taste|brag grab|cat act|arc car|bored robed|inch chin|stop post spot pots tops|rescue secure|master stream|dealer leader|retains stainer|
parsley players|reward drawer|caller recall|danger garden gander|lemon melon|ocean canoe|plates staple petals|praised despair|priest stripe|diaper repaid|section notices|
teacher cheater|thicken kitchen|united untied|viewer review|wolf flow fowl|early layer relay|alert alter later|ideals ladies sailed|rail liar lair|meat team mate tame`

// groupAnagrams in any order, written as lists or line by line. From level 6 on the words
// are made up, and many differ in one letter alone.
func groupAnagrams(r *rand.Rand, level int) Puzzle {
	var groups [][]string
	if level < 6 {
		all := strings.Split(strings.ReplaceAll(anagramWords, "\n", ""), "|")
		for _, i := range r.Perm(len(all))[:2+level] {
			groups = append(groups, strings.Fields(all[i]))
		}
	} else {
		groups = scrambled(r, level)
	}
	words := slices.Concat(groups...)
	r.Shuffle(len(words), func(i, j int) { words[i], words[j] = words[j], words[i] })
	var gold []string
	for _, g := range groups {
		gold = append(gold, strings.Join(g, ", "))
	}
	return Puzzle{
		Question: "Group these words so that the words of each group consist of the same letters: " + strings.Join(words, ", ") + ". Give one line for each group, its words separated by commas.",
		Answer:   strings.Join(gold, "\n"), Check: anagramCheck(words),
	}
}

// scrambled makes words up: the letters of each group are those of the one before, except
// for one.
func scrambled(r *rand.Rand, level int) [][]string {
	letters := []byte("aeinorstlc"[:5+r.IntN(3)])
	var groups [][]string
	seen := map[string]bool{}
	for len(groups) < level {
		letters[r.IntN(len(letters))] = "abcdefghiklmnoprstu"[r.IntN(19)]
		key := sortedLetters(string(letters))
		if seen[key] {
			continue
		}
		seen[key] = true
		g := map[string]bool{}
		for try := 0; len(g) < 2+r.IntN(2) || len(g) < 2 && try < 100; try++ {
			r.Shuffle(len(letters), func(i, j int) { letters[i], letters[j] = letters[j], letters[i] })
			g[string(letters)] = true
		}
		groups = append(groups, slices.Sorted(maps.Keys(g)))
	}
	return groups
}

func sortedLetters(word string) string {
	b := []byte(word)
	slices.Sort(b)
	return string(b)
}

// label is what may stand before a group: "1.", "-", "group 2:".
var label = late.Regexp(`^\s*(?:[-*•]\s+|\d+[.):]\s*|group\s+\w+\s*:\s*)`)

// anagramCheck wants all words, each once, grouped by their letters.
func anagramCheck(words []string) func(string) error {
	groups := map[string]int{} // words of each group
	for _, w := range words {
		groups[sortedLetters(w)]++
	}
	return func(answer string) error {
		if len(answer) > longest {
			return fmt.Errorf("%d characters", len(answer))
		}
		// "], [" ends a group as a line does.
		rows := strings.FieldsFunc(strings.ToLower(answer), func(c rune) bool { return c == ']' || c == '\n' })
		seen, done := map[string]bool{}, map[string]bool{}
		for _, row := range rows {
			group := separate(label.ReplaceAllString(row, ""))
			if len(group) == 0 {
				continue
			}
			key := sortedLetters(group[0])
			if done[key] || len(group) != groups[key] {
				return fmt.Errorf("%q is no whole group", clip(row))
			}
			done[key] = true
			for _, w := range group {
				if seen[w] || sortedLetters(w) != key || !slices.Contains(words, w) {
					return fmt.Errorf("%q does not belong there", clip(w))
				}
				seen[w] = true
			}
		}
		if len(done) != len(groups) {
			return fmt.Errorf("%d of %d groups", len(done), len(groups))
		}
		return nil
	}
}
