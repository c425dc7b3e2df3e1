package grade

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"hermes/datasets"
	"hermes/internal/late"
)

// Candidate is a grader that a row could be graded by, with how it reads the gold answer.
type Candidate struct {
	Kind  string `json:"kind"`
	Field string `json:"field"`
	Reads string `json:"reads"`
}

// Candidates proposes graders for a row, the most fitting first.
func Candidates(row datasets.Row) []Candidate {
	var out []Candidate
	add := func(kind, field, reads string) { out = append(out, Candidate{kind, field, short(reads)}) }
	s := row.Scoring
	if len(s.Checker) > 0 {
		add("command", "checker", plain(s.Checker))
	}
	if len(s.ExpectedTools) > 0 {
		if want, err := wanted(s.ExpectedTools); err == nil {
			names := make([]string, len(want))
			for i, w := range want {
				names[i] = w.Name
			}
			add("calls", "expected_tools", strings.Join(names, ", "))
		}
	}
	for _, k := range []struct{ kind, field string }{{"tests", "tests"}, {"state", "checks"}, {"sequence", "actions"}, {"bfcl", "ground_truth"}, {"schema", "schema"}} {
		if raw := lookup(row, k.field); len(raw) > 0 {
			if s, err := Parse(k.kind); err == nil {
				if _, err := s.Bind(row); err == nil {
					add(k.kind, k.field, plain(raw))
				}
			}
		}
	}
	raw, name, err := Gold{}.raw(row)
	if err == nil {
		for _, k := range guesses(row, plain(raw)) {
			spec := Spec{Kind: k}
			if known, ok := find(k); ok {
				spec.o = known.fresh()
			}
			if _, err := spec.Bind(row); err == nil {
				reads, ok := spec.Key(row, plain(raw))
				if !ok {
					reads = plain(raw)
				}
				add(k, name, reads)
			}
		}
	}
	if len(s.Rubric) > 0 {
		add("rubric", "rubric", plain(s.Rubric))
	}
	return out
}

var fraction = late.Regexp(`^[-+]?\d+\s?/\s?\d+$`)

// guesses are the graders that a gold answer looks made for.
func guesses(row datasets.Row, gold string) []string {
	text := strings.TrimSpace(gold)
	if _, ok := (&multipleChoice{}).gold(row, json.RawMessage(strconv.Quote(text))); ok && (len(text) == 1 || len((&multipleChoice{}).texts(row)) > 0) {
		if len((&multipleChoice{}).texts(row)) > 0 || text[0] >= 'A' {
			return []string{"choice", "exact"}
		}
	}
	switch {
	case text == "":
		return nil
	case isGoldNumber(text):
		return []string{"number", "math", "exact"}
	case fraction.MatchString(text):
		return []string{"math", "number", "exact"}
	case strings.ContainsAny(text[:1], "{[") && json.Valid([]byte(text)):
		return []string{"json", "math", "exact"}
	case strings.ContainsAny(text, `\\^_=<>$`) || strings.ContainsAny(text[:1], "(["):
		return []string{"math", "exact"}
	}
	return []string{"contains", "normalised", "exact"}
}

// Auto picks the first grader that fits every one of the rows, and says why.
func Auto(rows []datasets.Row) (Spec, string, error) {
	if len(rows) == 0 {
		return Spec{}, "", errors.New("grader auto: no rows to look at")
	}
	first := Candidates(rows[0])
	for _, c := range first {
		s, err := Parse(c.Kind)
		if err != nil {
			return Spec{}, "", err
		}
		fits := true
		for _, row := range rows {
			found := false
			for _, other := range Candidates(row) {
				found = found || other.Kind == c.Kind
			}
			fits = fits && found
			if !fits {
				break
			}
		}
		if fits {
			return s, fmt.Sprintf("%s: reads %s of the first row as %s", c.Kind, c.Field, c.Reads), nil
		}
	}
	if len(first) == 0 {
		_, _, err := Gold{}.raw(rows[0])
		return Spec{}, "", fmt.Errorf("grader auto: nothing to judge by: %w", err)
	}
	return Spec{}, "", fmt.Errorf("grader auto: no grader fits all of the %d rows looked at; name one", len(rows))
}
