package rollouts

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"hermes/datasets"
	"hermes/rollout/journal"
	"hermes/rollout/rundir"
	"hermes/trajectory"
)

// rowsError says that rows of which a run holds finished samples are gone or were changed.
type rowsError struct {
	dir           string
	gone, changed []string
}

func (e *rowsError) Error() string {
	var parts []string
	tell := func(ids []string, what string) {
		switch n := len(ids); {
		case n == 1:
			parts = append(parts, fmt.Sprintf("row %q is %s", ids[0], what))
		case n > 1:
			parts = append(parts, fmt.Sprintf("row %q and %d more are %s", ids[0], n-1, what))
		}
	}
	tell(e.gone, "no longer among them")
	tell(e.changed, "of other content now")
	return fmt.Sprintf("%s holds finished samples of rows that this dataset has not: %s; --amend accepts new rows and more rollouts, and keeps the old ones: put them back as they were, "+
		"give a changed row its own id, or choose another --run", e.dir, strings.Join(parts, ", "))
}

// planRows compares the rows with those of which the run holds finished samples. Rows without
// an id are known by their content: those that moved keep the ids that they had, so that they
// are the same samples. Nil where rows have no extent to compare: they are served.
func (r *Run) planRows(ctx context.Context, served bool) func(rundir.Manifest, *rundir.Manifest, *journal.Journal) error {
	if r.Report.Rows == 0 || served {
		return nil
	}
	return func(have rundir.Manifest, want *rundir.Manifest, j *journal.Journal) error {
		same := have.Extent.Dataset == want.Extent.Dataset && have.Extent.Limit == want.Extent.Limit && have.Extent.Shard == want.Extent.Shard
		if same && !have.Extent.Matched {
			return nil
		}
		m, err := r.matchRows(ctx, j)
		if err != nil {
			return err
		}
		if m.rowsError != nil {
			m.dir = r.Job.Dir
			return m.rowsError
		}
		r.moved = m.moved
		want.Extent.Matched = want.Extent.Matched || len(m.moved) > 0
		want.Extent.Planned = r.Report.Rows * int64(r.Rollouts)
		return nil
	}
}

// match is what became of the rows of a run.
type match struct {
	*rowsError
	moved map[string]string
}

// known is a row of which a final record is in force.
type known struct {
	content string
	record  journal.Offset
	seen    bool
}

func (r *Run) matchRows(ctx context.Context, j *journal.Journal) (m match, err error) {
	rows := map[string]*known{}
	for e, err := range j.Records(ctx, 0) {
		if err != nil {
			return m, err
		}
		if e.Kind != journal.KindFinal || !e.Current {
			continue
		}
		rec, err := e.Record()
		if err != nil {
			return m, err
		}
		if rows[rec.Row] == nil {
			rows[rec.Row] = &known{content: rec.RowContent, record: e.At}
		}
	}
	var changed []string
	fresh := map[string][]string{} // by content, the ids of rows without one that the run does not know
	for row, err := range r.Rows(ctx, r.Data) {
		if err != nil {
			return m, err
		}
		switch k := rows[row.ID]; {
		case k != nil:
			k.seen = true
			same, err := r.sameRow(j, k, row)
			if err != nil {
				return m, err
			}
			if !same {
				changed = append(changed, row.ID)
			}
		case !row.Explicit:
			content, _ := datasets.ContentOfID(row.ID)
			fresh[content] = append(fresh[content], row.ID)
		}
	}
	var gone []string
	for id, k := range rows {
		if !k.seen {
			gone = append(gone, id)
		}
	}
	slices.SortFunc(gone, byPlace)
	m.moved = map[string]string{}
	gone = slices.DeleteFunc(gone, func(id string) bool {
		content, given := datasets.ContentOfID(id)
		free := fresh[content]
		if len(free) == 0 || !given || r.Shard != "" { // shards are cut by id: who moved may be another's
			return false
		}
		m.moved[free[0]], fresh[content] = id, free[1:]
		return true
	})
	if len(gone)+len(changed) > 0 {
		m.rowsError = &rowsError{gone: gone, changed: changed}
	}
	return m, nil
}

// byPlace orders ids by the index in them, those without one by their text.
func byPlace(a, b string) int {
	x, _, _ := strings.Cut(a, "-")
	y, _, _ := strings.Cut(b, "-")
	i, erri := strconv.ParseInt(x, 10, 64)
	k, errk := strconv.ParseInt(y, 10, 64)
	if erri != nil || errk != nil {
		i, k = 0, 0
	}
	return cmp.Or(cmp.Compare(i, k), strings.Compare(a, b))
}

// sameRow compares a row with the one of a record. Records of older versions do not name the
// content; then the task must be in the conversation, unless an environment words it.
func (r *Run) sameRow(j *journal.Journal, k *known, row datasets.Row) (bool, error) {
	if !row.Explicit {
		return true, nil // its id names its content
	}
	if k.content != "" {
		return k.content == row.Content(), nil
	}
	if r.Env != nil {
		return true, nil
	}
	e, err := j.At(k.record)
	if err != nil {
		return false, err
	}
	rec, err := e.Record()
	if err != nil {
		return false, err
	}
	var said strings.Builder
	for _, m := range rec.Trace.Visible() {
		if m.Role == trajectory.User {
			said.WriteString(m.Content())
		}
	}
	for _, m := range row.Prompt {
		if m.Role == trajectory.User && !strings.Contains(said.String(), m.Content()) {
			return false, nil
		}
	}
	return true, nil
}
