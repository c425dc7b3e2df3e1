package listing

import (
	"cmp"
	"iter"
	"math"
)

// Columns names the columns by which a list can be sorted.
const Columns = "log, id, reward, turns, tokens, cost, seconds, outcome or book"

// Column is the order of a column, nil where there is none. Empty is the order of the log.
func Column(name string) func(a, b *Row) int {
	switch name {
	case "", "log":
		return func(a, b *Row) int { return cmp.Compare(a.At, b.At) }
	case "id":
		return func(a, b *Row) int { return cmp.Or(cmp.Compare(a.ID(), b.ID()), cmp.Compare(a.Sample, b.Sample)) }
	case "reward":
		return func(a, b *Row) int { return cmp.Compare(a.Reward, b.Reward) }
	case "turns":
		return func(a, b *Row) int { return cmp.Compare(a.Turns, b.Turns) }
	case "tokens":
		return func(a, b *Row) int { return cmp.Compare(a.Tokens, b.Tokens) }
	case "cost":
		return func(a, b *Row) int { return cmp.Compare(a.Cost, b.Cost) }
	case "seconds":
		return func(a, b *Row) int { return cmp.Compare(a.Seconds, b.Seconds) }
	case "outcome":
		return func(a, b *Row) int { return cmp.Compare(a.Outcome, b.Outcome) }
	case "book":
		return func(a, b *Row) int { return cmp.Compare(a.Book, b.Book) }
	}
	return nil
}

// Task is what a list knows of the samples of one task together.
type Task struct {
	ID      string
	Samples int
	Scored  int
	Passed  int // rewards of 1 or more
	Failed  int // by our fault
	Low     float64
	High    float64
	Sum     float64
	Tokens  int64
	Seconds float64
	Text    string // how the task begins
}

// Mean is the mean reward of the scored samples, NaN where there are none.
func (t *Task) Mean() float64 {
	if t.Scored == 0 {
		return math.NaN()
	}
	return t.Sum / float64(t.Scored)
}

// Mentions reports whether a word, which must be in lower case, is in the task's id or text.
func (t *Task) Mentions(word string) bool {
	return containsFold(t.ID, word) || containsFold(t.Text, word)
}

// Tasks puts the rows in force together by task, in the order of the log. take says which
// rows count.
func (l *List) Tasks(take func(*Row) bool) []Task {
	var out []Task
	for i, n := range l.tasks(take) {
		if n == len(out) {
			out = append(out, Task{ID: l.Rows[i].ID(), Text: l.Rows[i].Task(), Low: math.NaN(), High: math.NaN()})
		}
		out[n].add(&l.Rows[i])
	}
	return out
}

// CountTasks counts the tasks of the rows in force.
func (l *List) CountTasks() int {
	most := 0
	for _, n := range l.tasks(func(*Row) bool { return true }) {
		most = max(most, n+1)
	}
	return most
}

// tasks yields the rows in force that count, and the number of the task of each, from 0 on in
// the order of the log. Ids are found by their hashes: a map of a million texts takes seconds.
func (l *List) tasks(take func(*Row) bool) iter.Seq2[int, int] {
	return func(yield func(i, n int) bool) {
		type task struct {
			n     int32
			first int32 // the first row of the task
		}
		known := map[uint32]task{}
		count := int32(0)
		for i := range l.Rows {
			w := &l.Rows[i]
			if w.Old || !take(w) {
				continue
			}
			id := l.ids[i]
			t, ok := known[id]
			for ok && !w.sameID(&l.Rows[t.first]) { // another id has this hash: its place is the next free one
				id++
				t, ok = known[id]
			}
			if !ok {
				t = task{count, int32(i)}
				known[id] = t
				count++
			}
			if !yield(i, int(t.n)) {
				return
			}
		}
	}
}

func (t *Task) add(w *Row) {
	t.Samples++
	t.Tokens += w.Tokens
	t.Seconds += w.Seconds
	if w.Outcome.Failure() {
		t.Failed++
	}
	if math.IsNaN(w.Reward) {
		return
	}
	if t.Scored == 0 {
		t.Low, t.High = w.Reward, w.Reward
	}
	t.Scored++
	t.Sum += w.Reward
	t.Low, t.High = min(t.Low, w.Reward), max(t.High, w.Reward)
	if w.Reward >= 1 {
		t.Passed++
	}
}
