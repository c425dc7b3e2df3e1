package grade

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"hermes/backends"
	"hermes/datasets"
	"hermes/envs"
)

// noGrader keeps every sample without a score.
type noGrader struct{}

func (*noGrader) bind(datasets.Row) (Grader, error) { return nil, envs.ErrUnscored }

// rowOwn judges by the first of: checker (a command in the box), expected_tools, expected
// (text that is in the answer, /pattern/, or a list of texts of which one suffices),
// answer, ground_truth, solution (a number, or words that stand in the answer), rubric (by
// a model). A row with none of them is not scored.
type rowOwn struct{}

func (*rowOwn) bind(row datasets.Row) (Grader, error) {
	s := row.Scoring
	switch {
	case len(s.Checker) > 0:
		return checker(s.Checker)
	case len(s.ExpectedTools) > 0:
		want, err := wanted(s.ExpectedTools)
		if err != nil {
			return nil, err
		}
		return Calls(want, false), nil
	case len(s.Expected) > 0:
		return expected(s.Expected)
	}
	for _, raw := range []json.RawMessage{s.Answer, s.GroundTruth, s.Solution} {
		if len(raw) > 0 {
			return answer(plain(raw))
		}
	}
	if len(s.Rubric) > 0 {
		return (&rubric{}).bind(row)
	}
	return nil, envs.ErrUnscored
}

func (*rowOwn) needsBox(row datasets.Row) bool { return len(row.Scoring.Checker) > 0 }

func (*rowOwn) time(row datasets.Row) time.Duration {
	if len(row.Scoring.Checker) > 0 {
		return time.Minute
	}
	return 0
}

func (*rowOwn) judges(row datasets.Row) []string {
	s := row.Scoring
	if len(s.Rubric) > 0 && len(s.Checker)+len(s.ExpectedTools)+len(s.Expected)+len(s.Answer)+len(s.GroundTruth)+len(s.Solution) == 0 {
		return []string{""}
	}
	return nil
}

// key reads answers as numbers where the gold answer is one.
func (*rowOwn) key(row datasets.Row, text string) (string, bool) {
	for _, raw := range []json.RawMessage{row.Scoring.Answer, row.Scoring.GroundTruth, row.Scoring.Solution} {
		if len(raw) > 0 && isGoldNumber(plain(raw)) {
			return (&numeric{}).key(row, text)
		}
	}
	return (&exactText{Steps: allSteps()}).key(row, text)
}

func checker(raw json.RawMessage) (Grader, error) {
	shell, argv, err := words(raw)
	if err != nil {
		return nil, err
	}
	return Command(backends.Cmd{Shell: shell, Argv: argv}), nil
}

func expected(raw json.RawMessage) (Grader, error) {
	var list []string
	if text, ok := asText(raw); ok {
		list = []string{text}
	} else if err := json.Unmarshal(raw, &list); err != nil || len(list) == 0 {
		return nil, fmt.Errorf("expected %s: want text or a list of texts", clip(raw))
	}
	var gs []Grader
	for _, text := range list {
		if strings.TrimSpace(text) == "" {
			return nil, fmt.Errorf("expected %s: an empty text is in every answer", clip(raw))
		}
		if len(text) > 2 && strings.HasPrefix(text, "/") && strings.HasSuffix(text, "/") {
			g, err := Regexp(text[1 : len(text)-1])
			if err != nil {
				return nil, err
			}
			gs = append(gs, g)
			continue
		}
		gs = append(gs, Contains(text))
	}
	return highest(gs), nil
}

// answer reads gold as a number where it is one or ends in "#### N", else as text.
func answer(text string) (Grader, error) {
	if isGoldNumber(text) {
		return Number(text)
	}
	if strings.TrimSpace(text) == "" {
		return nil, errors.New("the answer is empty")
	}
	return mentions(text), nil
}

func isGoldNumber(text string) bool {
	if strings.Contains(text, "####") {
		return true
	}
	text = strings.TrimSpace(text)
	if digits, _, _ := strings.Cut(strings.TrimPrefix(text, "-"), "."); grouped.MatchString(digits) {
		text = strings.ReplaceAll(text, ",", "")
	}
	return text != "" && json.Valid([]byte(text)) && strings.ContainsAny(text[:1], "-0123456789")
}
