package datasets

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"hermes/internal/nearest"
)

// BadRows says what becomes of rows that cannot be used.
type BadRows string

// The policies of --bad-rows.
const (
	Fail BadRows = "fail"
	Skip BadRows = "skip"
)

// maxListed bounds how many bad rows and doubled ids a report names.
const maxListed = 100

// Report is what validation found out. Rows counts the usable ones.
type Report struct {
	Rows       int64
	Bad        int64
	Errors     []*RowError // the first hundred, in order
	Duplicates []Duplicate // explicit ids that stand twice, the first hundred
	Mapping    Mapping
	Unused     []string // names given by --map or --prompt-key that no row has

	from  []string // the files
	shard Shard
}

// Duplicate is an id that two rows share.
type Duplicate struct {
	ID         string
	File       string
	Line       int64 // from 1; 0: see Row
	Row        int64
	OtherFile  string // of the first row with the id
	OtherLine  int64
	OtherIndex int64
}

func (d Duplicate) Error() string {
	return fmt.Sprintf("%s: id %q is given twice, first at %s", where(d.File, d.Line, d.Row), d.ID, where(d.OtherFile, d.OtherLine, d.OtherIndex))
}

func where(file string, line, row int64) string {
	if line > 0 {
		return fmt.Sprintf("%s:%d", file, line)
	}
	return fmt.Sprintf("%s: row %d", file, row)
}

// Err returns nil when a run may start: no doubled ids, some row, no bad rows unless
// they are skipped, and every name that was asked for occurs.
func (r Report) Err(policy BadRows) error {
	var errs []error
	for _, d := range r.Duplicates {
		errs = append(errs, d)
	}
	if policy != Skip {
		for _, e := range r.Errors {
			errs = append(errs, e)
		}
		if more := r.Bad - int64(len(r.Errors)); more > 0 {
			errs = append(errs, fmt.Errorf("and %d more bad rows", more))
		}
	}
	if r.Rows == 0 && len(errs) == 0 {
		errs = append(errs, r.empty())
	}
	if r.Rows > 0 && len(r.Unused) > 0 {
		errs = append(errs, fmt.Errorf("no row has the key %s", strings.Join(r.Unused, ", ")))
	}
	return errors.Join(errs...)
}

// empty says of which files no row can be used, and why.
func (r Report) empty() error {
	names := strings.Join(r.from, ", ")
	switch {
	case r.Bad > 0:
		return fmt.Errorf("%s: no usable rows: all %d are bad", names, r.Bad)
	case r.shard.N > 1:
		return fmt.Errorf("%s: no usable rows in shard %d/%d", names, r.shard.I, r.shard.N)
	}
	return fmt.Errorf("%s: no usable rows: nothing is in it", names)
}

// Validate reads every row and finds doubled ids, in memory of 8 to 16 bytes a row: a
// first pass keeps 64-bit hashes, a second confirms by text what they suspect. The
// error is for data that cannot be read at all; bad rows are in the report.
func (d *Dataset) Validate(ctx context.Context) (Report, error) {
	rep := Report{Mapping: newMapping(d.o), shard: d.o.Shard}
	for i := range d.files {
		rep.from = append(rep.from, d.files[i].name)
	}
	ids, suspects := newIDSet(), map[uint64]bool{}
	used := map[string]bool{}
	dec := newDecoder(d.o)
	dec.lent = true
	err := d.each(ctx, func(r raw) error {
		row, err := dec.row(r)
		if err != nil {
			rep.bad(err)
			return nil
		}
		if !d.o.Shard.holds(row.ID) {
			return nil
		}
		rep.Rows++
		rep.Mapping.add(&row)
		if row.Task == d.o.PromptKey {
			used[row.Task] = true
		}
		if row.Explicit {
			if h := ids.hash(row.ID); !ids.add(h) && len(suspects) < 1<<16 {
				suspects[h] = true
			}
		}
		return nil
	})
	if err != nil {
		return rep, err
	}
	if d.o.PromptKey != "" && !used[d.o.PromptKey] {
		rep.Unused = append(rep.Unused, fmt.Sprintf("%q (--prompt-key)%s", d.o.PromptKey, nearest.Hint(d.o.PromptKey, rep.Mapping.keys())))
	}
	for _, from := range sortedKeys(d.o.Map) {
		if !dec.renamed[from] {
			rep.Unused = append(rep.Unused, fmt.Sprintf("%q (--map)%s", from, nearest.Hint(from, rep.Mapping.keys())))
		}
	}
	if len(suspects) > 0 {
		err = d.confirm(ctx, ids, suspects, &rep)
	}
	return rep, err
}

func (r *Report) bad(err error) {
	r.Bad++
	var e *RowError
	if errors.As(err, &e) && len(r.Errors) < maxListed {
		r.Errors = append(r.Errors, e)
	}
}

// confirm reads the rows again and compares the ids whose hashes met.
func (d *Dataset) confirm(ctx context.Context, ids *idSet, suspects map[uint64]bool, rep *Report) error {
	type first struct {
		file      string
		line, row int64
	}
	seen := map[string]first{}
	dec := newDecoder(d.o)
	dec.lent = true
	return d.each(ctx, func(r raw) error {
		row, err := dec.row(r)
		if err != nil || !row.Explicit || !suspects[ids.hash(row.ID)] || !d.o.Shard.holds(row.ID) {
			return nil
		}
		at, twice := seen[row.ID]
		if !twice {
			seen[strings.Clone(row.ID)] = first{row.File, row.Line, row.Index}
			return nil
		}
		rep.Duplicates = append(rep.Duplicates, Duplicate{ID: strings.Clone(row.ID), File: row.File, Line: row.Line, Row: row.Index,
			OtherFile: at.file, OtherLine: at.line, OtherIndex: at.row})
		if len(rep.Duplicates) >= maxListed {
			return errStop
		}
		return nil
	})
}
