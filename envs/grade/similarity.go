package grade

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"hermes/datasets"
	"hermes/envs"
	"hermes/internal/nearest"
	"hermes/trajectory"
)

// maxRunes bounds the texts whose edit distance is taken.
const maxRunes = 10_000

// similar tells how like the gold answer an answer is. In a list it is reported without
// counting unless it is given a weight: likeness is no correctness.
type similar struct {
	Field   string `yaml:"field"`
	Measure string `yaml:"measure"`
}

func measures() []string { return []string{"levenshtein", "f1", "rouge-l"} }

func (o *similar) check() error {
	if !slices.Contains(measures(), o.Measure) {
		return fmt.Errorf("measure %q: have %s%s", o.Measure, strings.Join(measures(), ", "), nearest.Hint(o.Measure, measures()))
	}
	return nil
}

func (o *similar) bind(row datasets.Row) (Grader, error) {
	golds, err := Gold{o.Field}.texts(row)
	if err != nil {
		return nil, err
	}
	return Func(func(_ context.Context, _ envs.World, ep envs.Episode) (trajectory.Score, error) {
		var s trajectory.Score
		for _, g := range golds {
			s.Reward = max(s.Reward, Similarity(o.Measure, strings.TrimSpace(g), Answer(ep)))
		}
		s.Detail = fmt.Sprintf("%s %.6f: %s", o.Measure, s.Reward, short(Answer(ep)))
		return s, nil
	}), nil
}

// Similarity is how alike two texts are, from 0 to 1. levenshtein: 1 - d/max over runes, of
// at most the first 10,000; f1: of the words without case, punctuation and articles (SQuAD);
// rouge-l: the F-measure of the longest common subsequence of words (Lin 2004; words are
// runs of a-z and 0-9 in lower case).
func Similarity(measure, gold, text string) float64 {
	switch measure {
	case "f1":
		return tokenF1(squad(gold), squad(text))
	case "rouge-l":
		a, b := rougeWords(gold), rougeWords(text)
		return harmonic(inOrder(len(a), len(b), func(i, j int) bool { return a[i] == b[j] }), len(a), len(b))
	}
	a, b := []rune(gold), []rune(text)
	a, b = a[:min(len(a), maxRunes)], b[:min(len(b), maxRunes)]
	longest := max(len(a), len(b))
	if longest == 0 {
		return 1
	}
	return 1 - float64(distance(a, b))/float64(longest)
}

var (
	noWord   = regexp.MustCompile(`[^a-z0-9]+`)
	articles = regexp.MustCompile(`\b(a|an|the)\b`)
)

func rougeWords(s string) []string {
	w := strings.Fields(noWord.ReplaceAllString(strings.ToLower(s), " "))
	return w[:min(len(w), maxRunes)]
}

func squad(s string) []string {
	s = strings.Map(func(r rune) rune {
		if strings.ContainsRune("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~", r) {
			return -1
		}
		return r
	}, strings.ToLower(s))
	return strings.Fields(articles.ReplaceAllString(s, " "))
}

func tokenF1(a, b []string) float64 {
	if len(a) == 0 && len(b) == 0 {
		return 1
	}
	count := map[string]int{}
	for _, w := range a {
		count[w]++
	}
	common := 0
	for _, w := range b {
		if count[w] > 0 {
			count[w]--
			common++
		}
	}
	return harmonic(common, len(a), len(b))
}

// harmonic is the F-measure of common among n wanted and m given.
func harmonic(common, n, m int) float64 {
	if common == 0 {
		return 0
	}
	p, r := float64(common)/float64(m), float64(common)/float64(n)
	return 2 * p * r / (p + r)
}
