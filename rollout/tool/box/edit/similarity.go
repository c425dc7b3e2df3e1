package edit

// ratioMost bounds the characters that ratio compares.
const ratioMost = 200

// Ratio says how alike two texts are, from 0 to 1: twice the characters in common blocks
// (the longest first, then left and right of it) over all characters. Only the first 200
// characters of each count.
func Ratio(a, b string) float64 { return ratio([]rune(a), []rune(b)) }

func ratio(a, b []rune) float64 {
	a, b = a[:min(len(a), ratioMost)], b[:min(len(b), ratioMost)]
	if len(a)+len(b) == 0 {
		return 1
	}
	row := make([]int, len(b)+1)
	return 2 * float64(common(a, b, row)) / float64(len(a)+len(b))
}

func common(a, b []rune, row []int) int {
	if len(a) == 0 || len(b) == 0 {
		return 0
	}
	i, j, n := longest(a, b, row)
	if n == 0 {
		return 0
	}
	return n + common(a[:i], b[:j], row) + common(a[i+n:], b[j+n:], row)
}

// longest finds the first longest common block.
func longest(a, b []rune, row []int) (ai, bi, n int) {
	row = row[:len(b)+1]
	clear(row)
	for i := range a {
		diagonal := 0
		for j := range b {
			next := row[j+1]
			if a[i] == b[j] {
				row[j+1] = diagonal + 1
				if row[j+1] > n {
					n = row[j+1]
					ai, bi = i-n+1, j-n+1
				}
			} else {
				row[j+1] = 0
			}
			diagonal = next
		}
	}
	return ai, bi, n
}

// alike is ratio >= least, without the work where the lengths or the letters already rule
// it out.
func alike(a, b string, least float64) (float64, bool) {
	ra, rb := []rune(a), []rune(b)
	ra, rb = ra[:min(len(ra), ratioMost)], rb[:min(len(rb), ratioMost)]
	all := float64(len(ra) + len(rb))
	if all > 0 && (2*float64(min(len(ra), len(rb))) < least*all || 2*float64(letters(ra, rb)) < least*all) {
		return 0, false
	}
	r := ratio(ra, rb)
	return r, r >= least
}

// letters counts the characters that both have, at any place (in 256 classes): never
// less than the characters in common blocks.
func letters(a, b []rune) (n int) {
	var have [256]int
	for _, r := range a {
		have[r&255]++
	}
	for _, r := range b {
		if have[r&255] > 0 {
			have[r&255]--
			n++
		}
	}
	return n
}
