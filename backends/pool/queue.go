package pool

import (
	"slices"
	"time"

	"hermes/backends"
)

// waiter is an Open under way.
type waiter struct {
	run, key string
	spec     backends.Spec
	serial   uint64
	began    time.Time
	ready    chan granted
}

// granted is what becomes of a waiter.
type granted struct {
	lease *lease
	err   error
}

func (g granted) sandbox() (backends.Sandbox, error) {
	if g.err != nil {
		return nil, g.err
	}
	return g.lease, nil
}

// queue orders waiters by start-time fair queueing: each box that a run gets moves the
// run's own clock on by one, and the run whose clock is behind is next. A run that comes
// new, or comes back, starts at the common clock, so it neither waits for those who came
// before it to have had all they want nor is paid for the time it was away. Within a run,
// and between equals, who came first is first.
type queue struct {
	serial uint64
	byRun  map[string][]*waiter
	clocks map[string]float64 // of runs
	clock  float64            // of the run that was served last
}

func newQueue() queue {
	return queue{byRun: map[string][]*waiter{}, clocks: map[string]float64{}}
}

func (q *queue) push(w *waiter) {
	q.serial++
	w.serial = q.serial
	if len(q.byRun[w.run]) == 0 {
		q.clocks[w.run] = max(q.clocks[w.run], q.clock)
	}
	q.byRun[w.run] = append(q.byRun[w.run], w)
}

// served moves the clock of a run on; back undoes it for a box that was not used.
func (q *queue) served(run string) {
	q.clock = max(q.clock, q.clocks[run])
	q.clocks[run]++
}

func (q *queue) back(run string) { q.clocks[run]-- }

// tidy forgets runs that would start at the common clock anyway.
func (q *queue) tidy() {
	for run, c := range q.clocks {
		if c <= q.clock && len(q.byRun[run]) == 0 {
			delete(q.clocks, run)
		}
	}
}

// remove reports whether the waiter was still in the queue.
func (q *queue) remove(w *waiter) bool {
	list := q.byRun[w.run]
	i := slices.Index(list, w)
	if i < 0 {
		return false
	}
	list = slices.Delete(list, i, i+1)
	if len(list) == 0 {
		delete(q.byRun, w.run)
	} else {
		q.byRun[w.run] = list
	}
	return true
}

func (q *queue) len() (n int) {
	for _, list := range q.byRun {
		n += len(list)
	}
	return n
}

// walk is one pass over the queue in the order of fairness.
type walk struct {
	q    *queue
	at   map[string]int     // waiters of a run that were passed over
	more map[string]float64 // boxes that they will get
}

func (q *queue) walk() *walk { return &walk{q, map[string]int{}, map[string]float64{}} }

// next is the first waiter that was not passed over, or nil.
func (w *walk) next() (best *waiter) {
	for run, list := range w.q.byRun {
		if w.at[run] >= len(list) {
			continue
		}
		c := list[w.at[run]]
		if best == nil {
			best = c
			continue
		}
		a, b := w.q.clocks[run]+w.more[run], w.q.clocks[best.run]+w.more[best.run]
		if a < b || a == b && c.serial < best.serial {
			best = c
		}
	}
	return best
}

// pass leaves a waiter where it is and goes on behind it; served says that a box for it
// is on its way.
func (w *walk) pass(x *waiter, served bool) {
	w.at[x.run]++
	if served {
		w.more[x.run]++
	}
}
