package grade

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"hermes/datasets"
	"hermes/internal/nearest"
)

// options are what a kind is given besides the row. bind must not change them.
type options interface {
	bind(row datasets.Row) (Grader, error)
}

type keyed interface {
	key(row datasets.Row, answer string) (string, bool)
}

// kind is one grader by name. fresh returns its options with their defaults.
type kind struct {
	name    string
	aliases []string
	reports bool // a figure to look at: without its own weight it counts nothing in a list
	fresh   func() options
}

// kinds lists the graders. A new one is its own file and one line here.
func kinds() []kind {
	return []kind{
		{name: "row", fresh: func() options { return &rowOwn{} }},
		{name: "none", fresh: func() options { return &noGrader{} }},
		{name: "exact", fresh: func() options { return &exactText{Steps: []string{"trim"}} }},
		{name: "normalised", aliases: []string{"normalized"}, fresh: func() options { return &exactText{Steps: allSteps()} }},
		{name: "contains", fresh: func() options { return &containsText{} }},
		{name: "regex", aliases: []string{"regexp"}, fresh: func() options { return &pattern{} }},
		{name: "number", fresh: func() options { return &numeric{Rel: 1e-6} }},
		{name: "choice", fresh: func() options { return &multipleChoice{} }},
		{name: "math", fresh: func() options { return &mathematics{Relations: true} }},
		{name: "json", fresh: func() options { return &jsonEqual{} }},
		{name: "schema", fresh: func() options { return &jsonSchema{} }},
		{name: "similarity", reports: true, fresh: func() options { return &similar{Measure: "levenshtein"} }},
		{name: "command", aliases: []string{"checker"}, fresh: func() options { return &command{} }},
		{name: "tests", fresh: func() options { return &unitTests{} }},
		{name: "calls", fresh: func() options { return &wantedCalls{Arguments: "subset"} }},
		{name: "bfcl", fresh: func() options { return &functionCalls{} }},
		{name: "bfcl-greedy", fresh: func() options { return &functionCalls{Greedy: true} }},
		{name: "sequence", fresh: func() options { return &actions{How: "subsequence", Arguments: "subset"} }},
		{name: "state", fresh: func() options { return &stateChecks{} }},
		{name: "rubric", aliases: []string{"judge"}, fresh: func() options { return &rubric{} }},
		{name: "pairwise", fresh: func() options { return &pairwise{} }},
		{name: "panel", fresh: func() options { return &panel{Votes: 1, Rule: "mean"} }},
		{name: "weighted", aliases: []string{"mean"}, fresh: func() options { return &combined{rule: weighted} }},
		{name: "best", aliases: []string{"any"}, fresh: func() options { return &combined{rule: best} }},
		{name: "worst", aliases: []string{"all"}, fresh: func() options { return &combined{rule: worst} }},
		{name: "product", fresh: func() options { return &combined{rule: product} }},
	}
}

// Names lists the graders by name.
func Names() []string {
	var out []string
	for _, k := range kinds() {
		out = append(out, k.name)
	}
	return out
}

func find(name string) (kind, bool) {
	all := kinds()
	i := slices.IndexFunc(all, func(k kind) bool { return k.name == name || slices.Contains(k.aliases, name) })
	if i < 0 {
		return kind{}, false
	}
	return all[i], true
}

func known(name string) bool { _, ok := find(name); return ok }

// ErrUnknown says that no grader has a name.
var ErrUnknown = errors.New("no grader")

func unknown(name string) error {
	return fmt.Errorf("%w %.60q%s; have %s, or a file", ErrUnknown, name, nearest.Hint(name, Names()), strings.Join(Names(), ", "))
}

// distance is Levenshtein's: how many insertions, deletions and substitutions part a and b.
func distance[T comparable](a, b []T) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range a {
		diagonal := row[0]
		row[0] = i + 1
		for j := range b {
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
