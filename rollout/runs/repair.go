package runs

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"hermes/rollout/journal"
	"hermes/rollout/listing"
	"hermes/rollout/rundir"
	"hermes/rollout/sink"
	"hermes/trajectory"
	"hermes/trajectory/stats"
)

// Lost is a record, a stored answer or a place of unknown content that damage took.
type Lost struct {
	ID     string         `json:"id,omitempty"` // of the dataset's row, where view.index knows it
	Sample int            `json:"sample,omitempty"`
	Key    trajectory.Key `json:"key,omitzero"`
	What   string         `json:"what"`           // turn, attempt, final, reopen, cursor, unknown
	File   string         `json:"file,omitempty"` // of the journal; From and To are bytes of it as it was written
	From   int64          `json:"from"`
	To     int64          `json:"to"`
	// Pending says that the sample is to be done again.
	Pending bool `json:"pending"`
}

// Repaired is what Repair did.
type Repaired struct {
	Frames     int              `json:"frames"` // that are whole
	Lost       []Lost           `json:"lost"`
	Files      []string         `json:"files"` // of the journal, that were written again
	Aside      []string         `json:"aside"` // their damaged forms
	Statistics stats.Statistics `json:"statistics"`
}

// Repair keeps every record of a damaged log that is whole, makes the samples whose records
// are lost pending, and the projections again. A run without damage is left as it is.
func Repair(ctx context.Context, dir string) (r Repaired, err error) {
	m, err := rundir.Read(journal.OS{}, dir)
	if err != nil {
		return r, err
	}
	lease, err := rundir.Acquire(ctx, dir, rundir.LeaseOptions{})
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, lease.Release()) }()
	rows, _, err := listing.Read(dir, m.Created)
	if err != nil {
		rows = &listing.List{} // it only helps to name what is lost
	}
	place := filepath.Join(dir, "journal")
	done, err := journal.Repair(ctx, place, journal.Options{})
	if err != nil {
		return r, err
	}
	r.Frames, r.Files, r.Aside = done.Frames, done.Files, done.Aside
	j, err := journal.Open(place, journal.Options{})
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, j.Close()) }()
	r.Lost = named(j, rows, done.Lost)
	if len(r.Files)+len(r.Lost) == 0 {
		r.Statistics, err = sink.Count(ctx, j, m)
		return r, err
	}
	r.Statistics, err = sink.Rebuild(ctx, j, dir, m, sink.Options{})
	return r, err
}

// named lists what is lost by rows and samples, where the list of the run's records, which
// was made before the damage, knows them. Records that only the list knows were at places
// of which nothing can be read.
func named(j *journal.Journal, rows *listing.List, losses []journal.Loss) (list []Lost) {
	known := map[trajectory.Key]bool{}
	row := func(l *Lost) {
		if i, ok := rows.Last(l.Key); ok {
			l.ID, l.Sample = rows.Rows[i].ID(), int(rows.Rows[i].Sample)
		}
		l.Pending = l.What == journal.KindFinal.String() && !j.Done(l.Key)
	}
	for _, x := range losses {
		l := Lost{Key: x.Key, What: x.Kind.String(), File: x.File, From: x.From, To: x.To}
		switch x.Kind {
		case 0:
			l.What = "unknown"
		case journal.KindFinal, journal.KindAttempt, journal.KindTurn, journal.KindReopen:
			row(&l)
			known[x.Key] = known[x.Key] || x.Kind != journal.KindTurn
		}
		list = append(list, l)
	}
	for i := range rows.Rows {
		w := &rows.Rows[i]
		if w.Old || w.Book == listing.Retried || known[w.Key] || j.Done(w.Key) {
			continue
		}
		if h, _ := j.Last(w.Key); h.Kind == journal.KindReopen && int(w.Attempt) <= h.Attempt {
			continue // it was taken back since
		}
		l := Lost{Key: w.Key, What: journal.KindFinal.String(), From: int64(w.At)}
		row(&l)
		list = append(list, l)
	}
	return list
}

func (l Lost) String() string {
	text := l.What
	switch {
	case l.ID != "":
		text += fmt.Sprintf(" of %s/%d", l.ID, l.Sample)
	case l.Key != trajectory.Key{}:
		text += " of " + l.Key.String()
	}
	if l.File != "" {
		text += fmt.Sprintf(" (bytes %d to %d of %s)", l.From, l.To, filepath.Base(l.File))
	}
	if l.Pending {
		text += ", pending again"
	}
	return text
}
