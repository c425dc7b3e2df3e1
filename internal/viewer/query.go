package viewer

import (
	"context"
	"fmt"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"hermes/rollout/listing"
	"hermes/trajectory"
)

// mostRows bounds one page of the list.
const mostRows = 500

// query chooses rows of a list.
type query struct {
	words            []string // all must stand in a row, in lower case
	book, tool, task string
	outcome          trajectory.Outcome
	least, most      float64 // reward; NaN: any
	old              bool    // also what a later record of the sample replaced
	sort             string
	down             bool
	offset, pageSize int
}

func parseQuery(v url.Values) (query, error) {
	q := query{words: strings.Fields(strings.ToLower(v.Get("q"))), book: v.Get("book"), tool: v.Get("tool"), task: v.Get("task"), outcome: trajectory.Outcome(v.Get("outcome")),
		least: math.NaN(), most: math.NaN(), old: v.Get("old") != "", sort: v.Get("sort"), down: v.Get("desc") != "", pageSize: 100}
	for name, to := range map[string]*float64{"min": &q.least, "max": &q.most} {
		if text := v.Get(name); text != "" {
			f, err := strconv.ParseFloat(text, 64)
			if err != nil {
				return q, fmt.Errorf("%s %q: want a number", name, text)
			}
			*to = f
		}
	}
	for name, to := range map[string]*int{"offset": &q.offset, "limit": &q.pageSize} {
		if text := v.Get(name); text != "" {
			n, err := strconv.Atoi(text)
			if err != nil || n < 0 {
				return q, fmt.Errorf("%s %q: want a number, 0 or more", name, text)
			}
			*to = n
		}
	}
	q.pageSize = min(q.pageSize, mostRows)
	if q.sort != "" && listing.Column(q.sort) == nil {
		return q, fmt.Errorf("sort %q: want %s", q.sort, listing.Columns)
	}
	return q, nil
}

// takes reports whether a row is among those asked for.
func (q *query) takes(w *listing.Row) bool {
	switch {
	case w.Old && !q.old,
		q.book != "" && w.Book != q.book && !strings.HasPrefix(w.Book, q.book+"."),
		q.outcome != "" && w.Outcome != q.outcome,
		q.tool != "" && !w.Called(q.tool),
		q.task != "" && w.ID() != q.task,
		!math.IsNaN(q.least) && !(w.Reward >= q.least),
		!math.IsNaN(q.most) && !(w.Reward <= q.most):
		return false
	}
	for _, word := range q.words {
		if !w.Mentions(word) && (len(word) < 8 || !strings.HasPrefix(w.Key.String(), word)) {
			return false
		}
	}
	return true
}

// find is one page of what a query finds, and how many there are in all.
func (x *index) find(q query) (rows []listing.Row, total int) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	var found []*listing.Row
	for i := range x.list.Rows {
		if q.takes(&x.list.Rows[i]) {
			found = append(found, &x.list.Rows[i])
		}
	}
	total = len(found)
	if q.sort != "" && q.sort != "log" || q.down {
		found = first(found, q.offset+q.pageSize, directed(listing.Column(q.sort), q.down))
	}
	from, to := q.bounds(len(found))
	for _, w := range found[from:to] {
		rows = append(rows, *w)
	}
	return rows, total
}

// bounds is where a page begins and ends in a list of n.
func (q *query) bounds(n int) (from, to int) {
	from = min(q.offset, n)
	return from, min(from+q.pageSize, n)
}

// directed is an order, or its reverse.
func directed[T any](by func(a, b T) int, down bool) func(a, b T) int {
	if !down {
		return by
	}
	return func(a, b T) int { return by(b, a) }
}

// first are the first n of a list in an order, equal ones as they came: what a stable sort of
// the whole list would begin with, without sorting it. It keeps at most 2n, and changes list.
func first[T any](list []T, n int, by func(a, b T) int) []T {
	if n == 0 {
		return nil
	}
	if n >= len(list)/4 {
		slices.SortStableFunc(list, by)
		return list[:min(n, len(list))]
	}
	best := list[:0] // never beyond the element that is looked at
	cut := func() {
		slices.SortStableFunc(best, by)
		best = best[:min(n, len(best))]
	}
	sorted := false
	for _, x := range list {
		if sorted && by(best[n-1], x) <= 0 {
			continue
		}
		best = append(best, x)
		if len(best) == 2*n {
			cut()
			sorted = true
		}
	}
	cut()
	return best
}

// of finds the row of a record in force, and all rows of its sample and of its group.
func (x *index) of(k trajectory.Key) (w listing.Row, attempts, group []listing.Row, ok bool) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	i, ok := x.list.Last(k)
	if !ok {
		return listing.Row{}, nil, nil, false
	}
	w = x.list.Rows[i]
	for _, n := range x.list.Of(i) {
		switch o := &x.list.Rows[n]; {
		case o.Key == k:
			attempts = append(attempts, *o)
		case !o.Old:
			group = append(group, *o)
		}
	}
	return w, attempts, group, true
}

// scanTime is how long one request reads records.
const scanTime = time.Second

// scan searches the whole text of the records of the rows from a place on, until enough
// are found or a second is over. next is where to go on; -1: all were read.
func (s *opened) scan(ctx context.Context, q query, from int) (found []listing.Row, next int, err error) {
	words := q.words
	q.words = nil
	end := time.Now().Add(scanTime)
	for i := from; ; i++ {
		s.index.mu.RLock()
		if i >= len(s.index.list.Rows) {
			s.index.mu.RUnlock()
			return found, -1, nil
		}
		w := s.index.list.Rows[i]
		s.index.mu.RUnlock()
		if !q.takes(&w) {
			continue
		}
		if len(found) >= q.pageSize || time.Now().After(end) && i > from {
			return found, i, nil
		}
		if err := ctx.Err(); err != nil {
			return nil, i, err
		}
		e, err := s.Journal.At(w.At)
		if err != nil {
			return nil, i, err
		}
		rec, err := e.Record()
		if err != nil {
			return nil, i, err
		}
		if mentions(rec, words) {
			found = append(found, w)
		}
	}
}

// mentions reports whether all words stand in what was said in a record.
func mentions(r *trajectory.Record, words []string) bool {
	if r.Trace == nil {
		return len(words) == 0
	}
	left := slices.Clone(words)
	look := func(m trajectory.Message) {
		texts := []string{m.Content(), m.Reasoning, m.Name}
		for _, c := range m.Calls {
			texts = append(texts, c.Name, c.Arguments)
		}
		for _, t := range texts {
			if len(left) == 0 {
				return
			}
			t = strings.ToLower(t)
			left = slices.DeleteFunc(left, func(w string) bool { return strings.Contains(t, w) })
		}
	}
	for m := range messages(r.Trace) {
		look(m)
	}
	return len(left) == 0
}
