// Package nearest finds the name that was probably meant: in a flag, a run file, a call
// of a tool, the key of a row.
package nearest

import (
	"cmp"
	"slices"
	"strings"
	"unicode/utf8"
)

// longest bounds the work for names that a model or a file made up, in characters.
const longest = 64

// Name returns the candidate that word was probably meant to be, or "". Case, blanks,
// hyphens and underscores make no difference, and neither does "_tool" at the end. One letter
// in three may be wrong; a part of four letters or more is enough. Of equally near candidates
// the first in alphabetical order is taken.
func Name(word string, candidates []string) string {
	w := plain(word)
	best, least := "", 0
	for _, c := range slices.Sorted(slices.Values(candidates)) {
		p := plain(c)
		d := Distance(w, p)
		longer := max(utf8.RuneCountInString(w), utf8.RuneCountInString(p))
		far := d > max(1, longer/3) || d == longer // nothing in common
		part := len(w) >= 4 && strings.Contains(p, w)
		if far && !part {
			continue
		}
		if best == "" || d < least {
			best, least = c, d
		}
	}
	return best
}

// Hint is the end of a message about an unknown word: " (did you mean x?)", or "" where no
// candidate is near.
func Hint(word string, candidates []string) string {
	if n := Name(word, candidates); n != "" {
		return " (did you mean " + n + "?)"
	}
	return ""
}

// Names returns the n candidates that are nearest to word, the nearest first.
func Names(word string, candidates []string, n int) []string {
	w := plain(word)
	list := slices.Sorted(slices.Values(candidates))
	slices.SortStableFunc(list, func(a, b string) int { return cmp.Compare(Distance(w, plain(a)), Distance(w, plain(b))) })
	return list[:min(n, len(list))]
}

func plain(name string) string {
	name = strings.NewReplacer("-", "_", " ", "_").Replace(strings.ToLower(name[:min(len(name), longest)]))
	return strings.TrimSuffix(name, "_tool")
}

// Distance counts the insertions, deletions, replacements and swaps of neighbours that turn a
// into b, in characters (optimal string alignment). Only the first 64 characters are looked at.
func Distance(a, b string) int {
	x, y := []rune(a), []rune(b)
	x, y = x[:min(len(x), longest)], y[:min(len(y), longest)]
	var before []int // the row before the last
	last := make([]int, len(y)+1)
	for j := range last {
		last[j] = j
	}
	for i := range x {
		row := make([]int, len(y)+1)
		row[0] = i + 1
		for j := range y {
			cost := 1
			if x[i] == y[j] {
				cost = 0
			}
			row[j+1] = min(last[j+1]+1, row[j]+1, last[j]+cost)
			if i > 0 && j > 0 && x[i] == y[j-1] && x[i-1] == y[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
		before, last = last, row
	}
	return last[len(y)]
}
