package configs

import (
	"errors"
	"fmt"
	"strings"
)

// Error is a mistake in the configuration: the user's to correct, before anything has
// started. It is told in one line that begins with the place.
type Error struct {
	File string // file or variable name
	Line int    // from 1; 0: the file has no lines, or the whole file is meant
	Msg  string // names the key and what is wrong; never the value of a secret
}

func (e *Error) Error() string {
	if e.Line > 0 {
		return fmt.Sprintf("%s:%d: %s", e.File, e.Line, e.Msg)
	}
	return e.File + ": " + e.Msg
}

// IsError reports whether err is, or wraps, a mistake in the configuration.
func IsError(err error) bool {
	var e *Error
	return errors.As(err, &e)
}

// Nearest returns the candidate that word was probably meant to be, or "". Case,
// underscores and hyphens make no difference.
func Nearest(word string, candidates []string) string {
	best, score := "", 2+len(word)/3
	for _, c := range candidates {
		d := distance(plain(word), plain(c))
		if d < score || d == score && best != "" && c < best {
			best, score = c, d
		}
	}
	return best
}

// didYouMean is the end of a message about an unknown word, or "".
func didYouMean(word string, candidates []string) string {
	if n := Nearest(word, candidates); n != "" {
		return " (did you mean " + n + "?)"
	}
	return ""
}

func plain(s string) string { return strings.ReplaceAll(strings.ToLower(s), "_", "-") }

// distance counts the insertions, deletions, replacements and swaps of neighbours that
// turn a into b.
func distance(a, b string) int {
	x, y := []rune(a), []rune(b)
	if len(x) > 64 || len(y) > 64 {
		return max(len(x), len(y))
	}
	rows := make([][]int, len(x)+1)
	for i := range rows {
		rows[i] = make([]int, len(y)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(x); i++ {
		for j := 1; j <= len(y); j++ {
			cost := 1
			if x[i-1] == y[j-1] {
				cost = 0
			}
			d := min(rows[i-1][j]+1, rows[i][j-1]+1, rows[i-1][j-1]+cost)
			if i > 1 && j > 1 && x[i-1] == y[j-2] && x[i-2] == y[j-1] {
				d = min(d, rows[i-2][j-2]+1)
			}
			rows[i][j] = d
		}
	}
	return rows[len(x)][len(y)]
}
