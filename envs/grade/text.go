package grade

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"hermes/datasets"
	"hermes/envs"
	"hermes/envs/grade/written"
	"hermes/internal/late"
	"hermes/internal/nearest"
	"hermes/trajectory"
)

// read is a verdict on the answer's text alone.
type read func(answer string) (ok bool, detail string)

// judged makes a grader of a verdict on text.
func judged(r read) Grader {
	return Func(func(_ context.Context, _ envs.World, ep envs.Episode) (trajectory.Score, error) {
		return verdict(r(Answer(ep))), nil
	})
}

// Contains looks for gold in the answer, regardless of case.
func Contains(gold string) Grader {
	want := strings.ToLower(strings.TrimSpace(gold))
	return judged(func(got string) (bool, string) {
		return strings.Contains(strings.ToLower(got), want), "answer " + short(got)
	})
}

// mentions looks for gold in the answer as whole words, regardless of case: "no" does not
// stand in "I do not know". Words that are denied each time ("not Paris") are not there.
func mentions(gold string) Grader {
	want := strings.ToLower(norm.NFC.String(strings.TrimSpace(gold)))
	return judged(func(got string) (bool, string) {
		return affirmed(strings.ToLower(norm.NFC.String(got)), want), "answer " + short(got)
	})
}

// highest takes the best of several graders, the first of those that are equal.
func highest(gs []Grader) Grader {
	if len(gs) == 1 {
		return gs[0]
	}
	return Func(func(ctx context.Context, w envs.World, ep envs.Episode) (trajectory.Score, error) {
		var top trajectory.Score
		for i, g := range gs {
			s, err := g.Grade(ctx, w, ep)
			if err != nil {
				return s, err
			}
			if i == 0 || s.Reward > top.Reward {
				top = s
			}
		}
		return top, nil
	})
}

// allSteps are what text can be stripped of before it is compared.
func allSteps() []string { return []string{"trim", "case", "punctuation", "articles", "spaces"} }

// normal puts text into NFC and takes the steps, in the order of allSteps.
func normal(text string, steps []string) string {
	text = norm.NFC.String(text)
	for _, step := range allSteps() {
		if !slices.Contains(steps, step) {
			continue
		}
		switch step {
		case "trim":
			text = strings.TrimSpace(text)
		case "case":
			text = strings.ToLower(text)
		case "punctuation":
			text = strings.Map(func(r rune) rune {
				if unicode.IsPunct(r) || unicode.IsSymbol(r) {
					return -1
				}
				return r
			}, text)
		case "articles":
			text = strings.Join(slices.DeleteFunc(strings.Split(text, " "), func(w string) bool {
				return strings.EqualFold(w, "a") || strings.EqualFold(w, "an") || strings.EqualFold(w, "the")
			}), " ")
		case "spaces":
			text = strings.Join(strings.Fields(text), " ")
		}
	}
	return text
}

// exactText compares texts after the steps named. Several gold answers: one suffices.
type exactText struct {
	Field string   `yaml:"field"`
	Steps []string `yaml:"steps"`
}

func (o *exactText) check() error {
	for _, s := range o.Steps {
		if !slices.Contains(allSteps(), s) {
			return fmt.Errorf("step %q: have %s%s", s, strings.Join(allSteps(), ", "), nearest.Hint(s, allSteps()))
		}
	}
	return nil
}

func (o *exactText) bind(row datasets.Row) (Grader, error) {
	golds, err := Gold{o.Field}.texts(row)
	if err != nil {
		return nil, err
	}
	for i := range golds {
		golds[i] = normal(golds[i], o.Steps)
	}
	how := strings.Join(o.Steps, "+")
	return judged(func(got string) (bool, string) {
		return slices.Contains(golds, normal(got, o.Steps)), "answer (" + how + ") " + short(normal(got, o.Steps))
	}), nil
}

func (o *exactText) binary() bool { return true }

func (o *exactText) key(_ datasets.Row, answer string) (string, bool) {
	k := normal(answer, o.Steps)
	return k, k != ""
}

// containsText looks for a gold answer in the answer.
type containsText struct {
	Field string `yaml:"field"`
	Text  string `yaml:"text"` // instead of a field
	Case  bool   `yaml:"case"` // upper and lower case differ
	Words bool   `yaml:"words"`
	All   bool   `yaml:"all"` // of several gold answers, every one
}

func (o *containsText) bind(row datasets.Row) (Grader, error) {
	golds := []string{o.Text}
	if o.Text == "" {
		var err error
		golds, err = (Gold{o.Field}).texts(row)
		if err != nil {
			return nil, err
		}
	}
	fold := func(s string) string {
		s = norm.NFC.String(s)
		if !o.Case {
			s = strings.ToLower(s)
		}
		return s
	}
	return judged(func(got string) (bool, string) {
		text, found := fold(got), 0
		for _, g := range golds {
			if within(text, strings.TrimSpace(fold(g)), o.Words) {
				found++
			}
		}
		return found == len(golds) || found > 0 && !o.All, "answer " + short(got)
	}), nil
}

func (o *containsText) binary() bool { return true }

// within looks for want, as whole words if asked.
func within(text, want string, words bool) bool { return place(text, want, words, 0) >= 0 }

// affirmed looks for want as whole words that are not denied.
func affirmed(text, want string) bool {
	for from := 0; ; {
		i := place(text, want, true, from)
		if i < 0 || !written.Denied(text[:i]) {
			return i >= 0
		}
		from = i + 1
	}
}

// place is where want is at or after from; -1: nowhere.
func place(text, want string, words bool, from int) int {
	for {
		i := strings.Index(text[from:], want)
		if i < 0 {
			return -1
		}
		i += from
		first, _ := utf8.DecodeRuneInString(want)
		last, _ := utf8.DecodeLastRuneInString(want)
		before, _ := utf8.DecodeLastRuneInString(text[:i])
		after, _ := utf8.DecodeRuneInString(text[i+len(want):])
		whole := !(spelling(before) && spelling(first)) && !(spelling(last) && spelling(after))
		if !words || whole && !(unicode.IsDigit(first) && inNumber.MatchString(text[max(0, i-2):i])) && !(unicode.IsDigit(last) && goesOn.MatchString(text[i+len(want):])) {
			return i
		}
		from = i + 1
	}
}

// inNumber ends with, goesOn begins with, what makes another number of a number beside it: 1.5, -5.
var (
	inNumber = late.Regexp(`(?:\d[.,]|(?:^|[^\w)\]])[-−])$`)
	goesOn   = late.Regexp(`^(?:[.,]\d|\s?[%‰])`)
)

// spelling tells whether r is part of a word: two such signs side by side belong to one.
// Scripts that set no blanks between words tell nothing.
func spelling(r rune) bool {
	return (unicode.IsLetter(r) || unicode.IsDigit(r)) &&
		!unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar)
}
