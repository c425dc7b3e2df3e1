package build

import (
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"

	"hermes/datasets"
	"hermes/envs"
	"hermes/envs/grade"
	"hermes/rollout/policy"
)

// graderSample is how many rows are looked at to choose a grader.
const graderSample = 100

// Grader reads what --grader names; with auto it chooses by the first rows and says so.
func Grader(text string, all iter.Seq2[datasets.Row, error], say func(string)) (grade.Spec, error) {
	if text != "auto" {
		s, err := grade.Load(text)
		if err != nil {
			err = fmt.Errorf("--grader: %w", err)
		}
		return s, err
	}
	var some []datasets.Row
	for row, err := range all {
		if err != nil {
			return grade.Spec{}, err
		}
		if some = append(some, row); len(some) == graderSample {
			break
		}
	}
	s, why, err := grade.Auto(some)
	if err != nil {
		return s, fmt.Errorf("--grader auto: %w", err)
	}
	say("hermes: grader " + why)
	return s, nil
}

// CheckGrader binds every row. It tells of the first rows that cannot be graded and how
// many there are, of a judge that is asked and is not there, and of one with a name that
// nobody asks. judges are the names of those that are there, "" that of the one without.
func CheckGrader(s grade.Spec, all iter.Seq2[datasets.Row, error], judges []string) error {
	var bad []string
	asked := map[string]bool{"": true} // what rows bring may ask it
	n, total := 0, 0
	for row, err := range all {
		if err != nil {
			return err
		}
		total++
		for _, name := range s.Judges(row) {
			if asked[name] = true; !slices.Contains(judges, name) {
				return fmt.Errorf("--grader %s: no judge; give --model-role %s=MODEL[@URL]", s.Kind, policy.JudgeRole(name))
			}
		}
		if _, err := s.Bind(row); err != nil && !errors.Is(err, envs.ErrUnscored) {
			if n++; len(bad) < 3 {
				bad = append(bad, err.Error())
			}
		}
	}
	for _, name := range judges {
		if !asked[name] && total > 0 {
			return fmt.Errorf("--model-role judge_%s: the grader %s does not ask it", name, s.Kind)
		}
	}
	if n > 0 {
		return fmt.Errorf("--grader: %d of %d rows cannot be graded: %s", n, total, strings.Join(bad, "; "))
	}
	return nil
}
