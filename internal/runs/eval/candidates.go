package eval

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"hermes/envs/grade"
	"hermes/internal/build"
)

// candidates refuses an evaluation without a grader, and shows how the gold answers would
// be read by those that fit.
func (e *Eval) candidates(ctx context.Context, h build.Host) error {
	rows, err := e.first(ctx, h, 3)
	if err != nil {
		return fmt.Errorf("no grader is named, and the rows cannot be read: %w", err)
	}
	var kinds []string
	reads := map[string][]string{}
	for _, row := range rows {
		for _, c := range grade.Candidates(row) {
			if !slices.Contains(kinds, c.Kind) {
				kinds = append(kinds, c.Kind)
			}
			reads[c.Kind] = append(reads[c.Kind], fmt.Sprintf("%.80q", c.Reads))
		}
	}
	if len(kinds) == 0 {
		return fmt.Errorf("no grader is named, and the first rows have nothing to be judged by: give --grader, one of %s, or a file", strings.Join(grade.Names(), ", "))
	}
	lines := []string{"no grader is named; --grader NAME (or auto). Those that fit would read the first gold answers as:"}
	for _, k := range kinds {
		lines = append(lines, fmt.Sprintf("  %s: %s", k, strings.Join(reads[k], ", ")))
	}
	return errors.New(strings.Join(lines, "\n"))
}
