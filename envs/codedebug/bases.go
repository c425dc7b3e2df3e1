package codedebug

import (
	"math/rand/v2"
	"slices"
	"strings"
)

// base is a correct function in Python, with calls of it. Solve is a second
// implementation, which says what a call must return: lists as []any, numbers as int.
type base struct {
	name   string
	source string
	edges  [][]any // arguments that every row's hidden tests hold
	draw   func(r *rand.Rand) []any
	solve  func(args []any) any
}

func ints(list ...int) []any {
	out := make([]any, len(list))
	for i, v := range list {
		out[i] = v
	}
	return out
}

func numbers(r *rand.Rand, least, most, low, high int) []any {
	out := make([]any, least+r.IntN(most-least+1))
	for i := range out {
		out[i] = low + r.IntN(high-low+1)
	}
	return out
}

func sortedInts(list []any) []any {
	out := slices.Clone(list)
	slices.SortFunc(out, func(a, b any) int { return a.(int) - b.(int) })
	return out
}

func text(r *rand.Rand, letters string, least, most int) string {
	var b strings.Builder
	for range least + r.IntN(most-least+1) {
		b.WriteByte(letters[r.IntN(len(letters))])
	}
	return b.String()
}

func args(a ...any) []any { return append([]any{}, a...) }

// builtin lists the functions. A new one is a function in functions.go and a line here, and
// `go test -update` finds which of its mutants are good.
func builtin() []base {
	return []base{
		firstIndexBase(),
		mergeSortedBase(),
		runLengthsBase(),
		toRomanBase(),
		balancedBase(),
		rotateBase(),
		primesBelowBase(),
		longestRiseBase(),
		wordCountsBase(),
		movingSumsBase(),
		toBaseBase(),
		mergeSpansBase(),
		editDistanceBase(),
		bestLoadBase(),
		flattenBase(),
		spiralBase(),
	}
}
