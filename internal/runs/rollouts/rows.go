package rollouts

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"hermes/backends"
	"hermes/datasets"
	"hermes/internal/build"
)

// openData opens and validates the rows, and says how they are read.
func (r *Run) openData(ctx context.Context) error {
	o, err := r.RowOptions(r.Seed)
	if err != nil {
		return err
	}
	o.Stdin, o.Hub = r.Host.In, build.Hub(r.Host.Env, r.Offline)
	if r.Env != nil {
		r.Data, err = r.Env.Rows(ctx, r.Env.Split, o)
	} else {
		r.Data, err = build.OpenRows(ctx, o, r.Datasets...)
	}
	if err != nil {
		return err
	}
	r.closers.Add(r.Data.Close)
	r.Report, err = r.Data.Validate(ctx)
	if err != nil {
		return err
	}
	if err := r.Report.Err(datasets.BadRows(r.BadRows)); err != nil {
		return err
	}
	fmt.Fprint(r.Host.Err, r.Report.Mapping.String())
	for _, e := range r.Report.Errors {
		fmt.Fprintf(r.Host.Err, "left out: %v\n", e)
	}
	if r.Env != nil {
		return r.checkTasks(ctx)
	}
	return r.openGrader(ctx)
}

// Rows yields the rows of a dataset as they are rolled out: without those that validation
// has reported already, and with the words of the oracle.
func (r *Run) Rows(ctx context.Context, data *datasets.Dataset) iter.Seq2[datasets.Row, error] {
	return func(yield func(datasets.Row, error) bool) {
		for row, err := range data.Rows(ctx) {
			var bad *datasets.RowError
			if errors.As(err, &bad) && datasets.BadRows(r.BadRows) == datasets.Skip {
				continue
			}
			if was, ok := r.moved[row.ID]; ok {
				row.ID = was
			}
			if err == nil && r.Parts.Oracle {
				row.Hermes.Script, err = r.Env.OracleScript(row)
			}
			if !yield(row, err) {
				return
			}
		}
	}
}

// checkTasks makes every task once, so that a row that the environment cannot use is
// found before anything is spent.
func (r *Run) checkTasks(ctx context.Context) error {
	for row, err := range r.Rows(ctx, r.Data) { // with an oracle it makes the tasks too
		if err == nil && !r.Parts.Oracle {
			_, err = r.tasks.Task(row)
		}
		if err != nil {
			return fmt.Errorf("environment %s: %w", r.Env.Name, err)
		}
	}
	return ctx.Err()
}

// rowNetworks refuses rows that want to reach what the operator does not let boxes reach,
// or boxes that reach less than can be kept from them.
func (r *Run) rowNetworks(ctx context.Context) error {
	if r.Report.Mapping.Hermes["network"] == 0 {
		return nil
	}
	for row, err := range r.Rows(ctx, r.Data) {
		if err != nil {
			return err
		}
		if err := backends.Narrow(r.Boxes.Backend, row.Hermes.Network); err != nil {
			return &datasets.RowError{File: row.File, Line: row.Line, Row: row.Index, Err: fmt.Errorf("key hermes: %w", err)}
		}
	}
	return nil
}

// rowToolsets adds what single rows ask for, so that a set that cannot be served is found
// before anything is spent.
func (r *Run) rowToolsets(ctx context.Context, names []string) ([]string, error) {
	names = slices.Clone(names)
	if r.Report.Mapping.Hermes["toolsets"] == 0 {
		return names, nil
	}
	for row, err := range r.Rows(ctx, r.Data) {
		if err != nil {
			return nil, err
		}
		for _, n := range row.Hermes.Toolsets {
			if !slices.Contains(names, n) {
				names = append(names, n)
			}
		}
	}
	return names, nil
}
