package runs

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"hermes/internal/expr"
	"hermes/internal/printable"
	"hermes/rollout/journal"
	"hermes/rollout/listing"
	"hermes/rollout/sink"
	"hermes/trajectory"
)

// Listing is the list of the run's records as its log is now: the kept one, where it is that
// of the log, and what came since. Nothing is written.
func (r *Run) Listing(ctx context.Context) (*listing.List, error) {
	l, _, err := listing.Read(r.Dir, r.Manifest.Created)
	if err != nil || !r.Fits(l) {
		l = &listing.List{} // it is made out of the log
	}
	for e, err := range r.Journal.Records(ctx, l.Next) {
		if err != nil {
			return nil, err
		}
		if err := Extend(l, r.sorter, e); err != nil {
			return nil, err
		}
	}
	return l, ctx.Err()
}

// Fits reports whether a list is one of the run's log: no longer, and of the same records.
func (r *Run) Fits(l *listing.List) bool {
	if l.Next > r.Journal.Synced() {
		return false
	}
	if len(l.Rows) == 0 {
		return true
	}
	last := l.Rows[len(l.Rows)-1]
	e, err := r.Journal.At(last.At)
	return err == nil && e.Key == last.Key && int32(e.Attempt) == last.Attempt
}

// RowOf makes the row of an entry of the log. ok is false where the entry holds no record.
func RowOf(c *sink.Sorter, e journal.Entry) (w listing.Row, ok bool, err error) {
	if e.Kind != journal.KindFinal && e.Kind != journal.KindAttempt {
		return w, false, nil
	}
	rec, err := e.Record()
	if err != nil {
		return w, false, err
	}
	if e.Kind == journal.KindAttempt {
		return listing.Of(e.At, rec, listing.Retried, rec.Reason), true, nil
	}
	in, err := c.Enter(e.At, rec)
	if err != nil {
		return w, false, err
	}
	return listing.Of(e.At, rec, in.Name(), in.Why), true, nil
}

// Extend takes the next entry of the log into a list.
func Extend(l *listing.List, c *sink.Sorter, e journal.Entry) error {
	w, ok, err := RowOf(c, e)
	switch {
	case err != nil:
		return err
	case ok:
		l.Add(w, e.Next)
	case e.Kind == journal.KindReopen:
		l.Reopen(e.Key, e.Next)
	default:
		l.Next = e.Next
	}
	return nil
}

// Selection chooses samples of a run. The zero value takes all that are in force.
type Selection struct {
	Book    string // accepted, rejected, failed, or with its part: rejected.truncated
	Outcome string
	Reward  string // a comparison: <0.5, >=1, or a number
	Task    string // the id of the row
	Where   string // a condition as those of --accept; the records are read for it
	Sort    string // a column of the list; "": the order of the log
	Desc    bool   // the largest first
	Limit   int    // 0: all
}

// Select returns the chosen rows of the run, and how many samples it has.
func (r *Run) Select(ctx context.Context, s Selection) (rows []listing.Row, of int, err error) {
	takes, err := s.row()
	if err != nil {
		return nil, 0, err
	}
	var where sink.Condition
	if s.Where != "" {
		where, err = sink.ParseCondition(s.Where)
		if err != nil {
			return nil, 0, fmt.Errorf("%w: where %q: %w", ErrSelection, s.Where, err)
		}
	}
	by := listing.Column(s.Sort)
	if by == nil {
		return nil, 0, fmt.Errorf("%w: sort %q: want %s", ErrSelection, s.Sort, listing.Columns)
	}
	l, err := r.Listing(ctx)
	if err != nil {
		return nil, 0, err
	}
	for i := range l.Rows {
		w := &l.Rows[i]
		if w.Old {
			continue
		}
		of++
		if !takes(w) {
			continue
		}
		if where != nil {
			rec, err := r.at(w.At)
			if err != nil {
				return nil, 0, err
			}
			if !where(rec) {
				continue
			}
		}
		rows = append(rows, *w)
	}
	slices.SortStableFunc(rows, func(a, b listing.Row) int {
		if s.Desc {
			return by(&b, &a)
		}
		return by(&a, &b)
	})
	if s.Limit > 0 {
		rows = rows[:min(len(rows), s.Limit)]
	}
	return rows, of, ctx.Err()
}

func (r *Run) at(at journal.Offset) (*trajectory.Record, error) {
	e, err := r.Journal.At(at)
	if err != nil {
		return nil, err
	}
	return e.Record()
}

// row compiles what can be decided by the list alone.
func (s Selection) row() (func(w *listing.Row) bool, error) {
	op, want, err := comparison(s.Reward)
	if err != nil {
		return nil, err
	}
	return func(w *listing.Row) bool {
		return (s.Book == "" || w.Book == s.Book || strings.HasPrefix(w.Book, s.Book+".")) &&
			(s.Outcome == "" || string(w.Outcome) == s.Outcome) && (s.Task == "" || w.ID() == s.Task) &&
			(op == "" || !math.IsNaN(w.Reward) && expr.Compare(w.Reward, op, want))
	}, nil
}

// comparison reads what a reward is compared with.
func comparison(text string) (op string, want float64, err error) {
	if text == "" {
		return "", 0, nil
	}
	number := strings.TrimLeft(text, "<>=! ")
	op = strings.TrimSpace(strings.TrimSuffix(text, number))
	if op == "" {
		op = "=="
	}
	want, err = strconv.ParseFloat(strings.TrimSpace(number), 64)
	if err != nil || !slices.Contains([]string{"<", "<=", ">", ">=", "==", "=", "!="}, op) {
		return "", 0, fmt.Errorf("%w: reward %q: want a comparison such as '<0.5', '>=1' or 0", ErrSelection, text)
	}
	return op, want, nil
}

// sampleLine is a sample as WriteSamples writes it.
type sampleLine struct {
	ID      string             `json:"id"`
	Sample  int                `json:"sample"`
	Key     trajectory.Key     `json:"key"`
	Attempt int                `json:"attempt"`
	Outcome trajectory.Outcome `json:"outcome"`
	Book    string             `json:"book"`
	Reward  *float64           `json:"reward"`
	Turns   int                `json:"turns"`
	Tokens  int64              `json:"tokens"`
	Cost    *float64           `json:"cost_usd"`
	Seconds float64            `json:"seconds"`
	Reason  string             `json:"reason,omitempty"`
	Task    string             `json:"task"`   // its beginning
	Answer  string             `json:"answer"` // its beginning
}

// flushEvery is how many lines are aligned with each other.
const flushEvery = 500

// WriteSamples writes rows for people, or as JSON lines.
func WriteSamples(w io.Writer, rows []listing.Row, asJSON bool) error {
	known := func(f float64) *float64 {
		if math.IsNaN(f) {
			return nil
		}
		return &f
	}
	t := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	if !asJSON && len(rows) > 0 {
		fmt.Fprintln(t, "SAMPLE\tREWARD\tBOOK\tOUTCOME\tTURNS\tTOKENS\tTIME\tREASON OR ANSWER")
	}
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	for i, r := range rows {
		x := r.Texts()
		if asJSON {
			err := e.Encode(sampleLine{ID: x.ID, Sample: int(r.Sample), Key: r.Key, Attempt: int(r.Attempt), Outcome: r.Outcome, Book: r.Book, Reward: known(r.Reward),
				Turns: int(r.Turns), Tokens: r.Tokens, Cost: known(r.Cost), Seconds: r.Seconds, Reason: x.Reason, Task: x.Task, Answer: x.Answer})
			if err != nil {
				return err
			}
			continue
		}
		reward := "-"
		if p := known(r.Reward); p != nil {
			reward = strconv.FormatFloat(*p, 'g', 4, 64)
		}
		line := []string{x.ID + "/" + strconv.Itoa(int(r.Sample)), reward, r.Book, string(r.Outcome), strconv.Itoa(int(r.Turns)), strconv.FormatInt(r.Tokens, 10),
			fmt.Sprintf("%.1f s", r.Seconds), clip(cmp.Or(x.Reason, x.Answer), 80)}
		for i := range line {
			line[i] = printable.Line(line[i])
		}
		fmt.Fprintln(t, strings.Join(line, "\t"))
		if i%flushEvery == flushEvery-1 {
			if err := t.Flush(); err != nil {
				return err
			}
		}
	}
	return t.Flush()
}
