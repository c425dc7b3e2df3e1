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
	summary string
	reports bool // a figure to look at: without a weight of its own it counts nothing in a list
	fresh   func() options
}

// kinds lists the graders. A new one is its own file and one line here.
func kinds() []kind {
	return []kind{
		{name: "row", summary: "as the row says: checker, expected_tools, expected, answer, ground_truth, solution, rubric", fresh: func() options { return &rowOwn{} }},
		{name: "none", summary: "no score", fresh: func() options { return &noGrader{} }},
		{name: "exact", summary: "the same text, white space at the ends trimmed", fresh: func() options { return &exactText{Steps: []string{"trim"}} }},
		{name: "normalised", aliases: []string{"normalized"}, summary: "the same text without case, punctuation, articles, further blanks", fresh: func() options { return &exactText{Steps: allSteps()} }},
		{name: "contains", summary: "the gold text stands in the answer, regardless of case", fresh: func() options { return &containsText{} }},
		{name: "regex", aliases: []string{"regexp"}, summary: "a pattern (RE2) is found in the answer", fresh: func() options { return &pattern{} }},
		{name: "number", summary: "the last number (after ####, in \\boxed{}, or anywhere)", fresh: func() options { return &numeric{Rel: 1e-6} }},
		{name: "choice", summary: "the letter of a multiple choice", fresh: func() options { return &multipleChoice{} }},
		{name: "math", summary: "what formulas mean: fractions, roots, sets, intervals, equations …", fresh: func() options { return &mathematics{Relations: true} }},
		{name: "json", summary: "the same JSON", fresh: func() options { return &jsonEqual{} }},
		{name: "schema", summary: "JSON that fits a JSON schema", fresh: func() options { return &jsonSchema{} }},
		{name: "similarity", summary: "how alike the texts are: levenshtein, f1, rouge-l; counts nothing without a weight", reports: true, fresh: func() options { return &similar{Measure: "levenshtein"} }},
		{name: "command", aliases: []string{"checker"}, summary: "a command in the agent's box", fresh: func() options { return &command{} }},
		{name: "tests", summary: "unit tests that the model has not seen, in the agent's box", fresh: func() options { return &unitTests{} }},
		{name: "calls", summary: "the expected tool calls were made", fresh: func() options { return &wantedCalls{Arguments: "subset"} }},
		{name: "bfcl", summary: "the expected calls by the rules of the Berkeley Function Calling Leaderboard", fresh: func() options { return &functionCalls{} }},
		{name: "bfcl-greedy", summary: "the same, with the leaderboard's own order bug", fresh: func() options { return &functionCalls{Greedy: true} }},
		{name: "sequence", summary: "the whole course of actions, in order", fresh: func() options { return &actions{How: "subsequence", Arguments: "subset"} }},
		{name: "state", summary: "checks of what is left in the agent's box", fresh: func() options { return &stateChecks{} }},
		{name: "rubric", aliases: []string{"judge"}, summary: "a model judges by a rubric, 0 to 1", fresh: func() options { return &rubric{} }},
		{name: "pairwise", summary: "a model prefers the answer to another one, asked in both orders", fresh: func() options { return &pairwise{} }},
		{name: "panel", summary: "several judges, or one several times", fresh: func() options { return &panel{Votes: 1, Rule: "mean"} }},
		{name: "weighted", aliases: []string{"mean"}, summary: "the weighted mean of several graders; what a list is", fresh: func() options { return &combined{rule: weighted} }},
		{name: "best", aliases: []string{"any"}, summary: "the highest of several graders", fresh: func() options { return &combined{rule: best} }},
		{name: "worst", aliases: []string{"all"}, summary: "the lowest of several graders", fresh: func() options { return &combined{rule: worst} }},
		{name: "product", summary: "the product of several graders", fresh: func() options { return &combined{rule: product} }},
	}
}

// Kind tells of one grader, for people.
type Kind struct{ Name, Summary string }

// Kinds lists the graders.
func Kinds() []Kind {
	var out []Kind
	for _, k := range kinds() {
		out = append(out, Kind{k.name, k.summary})
	}
	return out
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
