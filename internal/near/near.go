// Package near finds the name that was probably meant.
package near

import (
	"slices"
	"strings"
)

// Name returns the name that was probably meant, or "". Case, dashes and a few wrong
// letters are forgiven; ties go to the first in alphabetical order.
func Name(name string, names []string) string {
	best, bestDist := "", 0
	n := plain(name)
	for _, c := range slices.Sorted(slices.Values(names)) {
		d := distance(n, plain(c))
		if d > max(1, max(len(n), len(c))/3) && !(len(n) >= 4 && strings.Contains(plain(c), n)) {
			continue
		}
		if best == "" || d < bestDist {
			best, bestDist = c, d
		}
	}
	return best
}

func plain(name string) string {
	if len(name) > 64 {
		name = name[:64]
	}
	name = strings.NewReplacer("-", "_", " ", "_").Replace(strings.ToLower(name))
	return strings.TrimSuffix(name, "_tool")
}

// distance is the Levenshtein distance in bytes.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
