package eval

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"hermes/datasets"
	"hermes/envs/grade"
	"hermes/internal/build"
	"hermes/internal/settings"
)

// chooseGrader settles what judges: the command line's, else the suite's. The samples bring
// their own.
func (e *Eval) chooseGrader(ctx context.Context, h build.Host) error {
	if e.Grader == "" && e.Suite != nil && e.Suite.Grader != nil {
		text, err := graderText(e.Suite.Grader)
		if err != nil {
			return err
		}
		e.Grader = text
	}
	if e.Grader == "" && strings.HasPrefix(e.Datasets[0], "samples:") {
		e.Grader = "row"
	}
	if e.Grader == "" {
		return e.candidates(ctx, h)
	}
	return nil
}

// graderText is a suite's grader as --grader takes it: a name, or JSON.
func graderText(n *yaml.Node) (string, error) {
	if n.Kind == yaml.ScalarNode {
		return n.Value, nil
	}
	var v any
	if err := n.Decode(&v); err != nil {
		return "", fmt.Errorf("grader: %w", err)
	}
	raw, err := json.Marshal(v)
	return string(raw), err
}

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

// first reads the first rows of the dataset.
func (e *Eval) first(ctx context.Context, h build.Host, n int64) (rows []datasets.Row, err error) {
	if slices.Contains(e.Datasets, "-") {
		return nil, errors.New("rows from stdin cannot be looked at twice: name a grader with --grader")
	}
	o, err := settings.RowFlags{PromptKey: e.PromptKey, Limit: n, Map: e.Map}.RowOptions(0)
	if err != nil {
		return nil, err
	}
	o.Hub = build.Hub(h.Env, e.Offline)
	d, err := build.OpenRows(ctx, o, e.Datasets...)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	for row, err := range d.Rows(ctx) {
		if err != nil {
			return rows, err
		}
		rows = append(rows, row)
	}
	return rows, ctx.Err()
}
