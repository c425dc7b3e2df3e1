package wire

import (
	"context"
	"math"
	"slices"
	"sync"
	"time"
)

// limiter bounds the requests that are in flight at one replica. It starts at its
// ceiling, halves when the server refuses, and comes back quickly to just below what was
// refused: the bound. Beyond the bound it feels its way, one more after a long quiet
// time, then two, then four; a refusal there costs one request and makes the next quiet
// time longer. So a hidden limit is found by a few halvings and then met all the time,
// where halving and adding alone would saw between a half and the whole of it.
//
// A server whose queue never refuses is known by the length of that queue, see
// [limiter.observe]; where that cannot be read, by how long answers take to begin.
//
// A server that refuses at random, whatever it has to do, is known by the requests that
// it refuses below what a cut has just left it, see [chance]: there it is given its
// share of refusals, and only more than those are taken as a word about its load.
//
// A place knows its level, the requests in flight when it was taken: about as many as
// the server has, so that a refusal at a level says that its limit lies below.
type limiter struct {
	mu      sync.Mutex
	ceiling int
	limit   float64
	bound   float64 // the most that is thought to be taken
	base    float64 // below this, refusals of requests from before the last cut do not lower the bound
	quiet   int     // successes at the bound since the last cut or probe
	hold    int     // quiet successes before a probe
	step    float64 // of the next probe
	flying  int
	epoch   int // of the last cut: answers to older requests do not cut again
	until   time.Time
	waiting []*waiter
	timer   *time.Timer
	waits   waits
	chance  chance
	row     int // refusals since the last answer

	watched bool // the server's queue can be read: that decides, not successes
	seen    bool // it was longer than nothing
}

// The quiet time before a probe, in successes: short after a cut, because the bound is a
// guess then; after a probe that was refused long enough to keep refusals far below one
// in a hundred.
const (
	firstHold  = 24
	failedHold = 200
	mostHold   = 12_800
)

// place is what a request in flight knows of its beginning.
type place struct{ epoch, level int }

type waiter struct {
	turn  chan struct{}
	place place
}

func newLimiter(ceiling int) *limiter {
	full := float64(ceiling)
	return &limiter{ceiling: ceiling, limit: full, bound: full, base: 1, hold: firstHold, step: 1, chance: chance{calm: full}}
}

// raise changes the ceiling, up or down. What was learned of the server stays, unless it
// was the ceiling alone that bound.
func (l *limiter) raise(ceiling int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	full, free := float64(ceiling), l.bound >= float64(l.ceiling)
	l.ceiling = ceiling
	l.bound = min(l.bound, full)
	if free {
		l.bound = full
	}
	l.limit = min(l.limit, full)
	if free && !l.watched {
		l.limit = full
	}
	l.base = min(l.base, l.limit)
	l.chance.calm = min(l.chance.calm, full)
	if free {
		l.chance.calm = full
	}
	l.wake()
}

// acquire waits for a place, which goes to release.
func (l *limiter) acquire(ctx context.Context) (place, error) {
	l.mu.Lock()
	if len(l.waiting) == 0 && l.open() {
		defer l.mu.Unlock()
		return l.enter(), nil
	}
	w := &waiter{turn: make(chan struct{})}
	l.waiting = append(l.waiting, w)
	l.arm()
	l.mu.Unlock()
	select {
	case <-w.turn:
		return w.place, nil
	case <-ctx.Done():
		l.leave(w)
		return place{}, ctx.Err()
	}
}

func (l *limiter) open() bool {
	return l.flying < max(1, int(l.limit)) && !time.Now().Before(l.until)
}

func (l *limiter) enter() place {
	l.flying++
	return place{l.epoch, l.flying}
}

// leave takes a waiter out; if its turn had come, the place goes to the next.
func (l *limiter) leave(w *waiter) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if i := slices.Index(l.waiting, w); i >= 0 {
		l.waiting = slices.Delete(l.waiting, i, i+1)
		return
	}
	l.flying--
	l.wake()
}

// wake lets in as many waiters as there are places.
func (l *limiter) wake() {
	for len(l.waiting) > 0 && l.open() {
		w := l.waiting[0]
		w.place = l.enter()
		close(w.turn)
		l.waiting[0] = nil
		l.waiting = l.waiting[1:]
	}
	l.arm()
}

// arm sets the timer that wakes the waiters when a pause ends.
func (l *limiter) arm() {
	pause := time.Until(l.until)
	if l.timer != nil || len(l.waiting) == 0 || pause <= 0 {
		return
	}
	l.timer = time.AfterFunc(pause, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.timer = nil
		l.wake()
	})
}

// stop ends the timer.
func (l *limiter) stop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.timer != nil {
		l.timer.Stop()
		l.timer = nil
	}
}

// release gives a place back and learns from what became of the request. late is how
// long the answer took to begin, as a share of the time after which it is given up.
func (l *limiter) release(p place, err *Error, late float64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.flying--
	switch {
	case err == nil:
		l.row = 0
		l.chance.answered(p.epoch == l.epoch)
		l.succeeded(p)
		l.delayed(p, late)
	case err.overload:
		l.row++
		if l.chance.refused(p.epoch == l.epoch) {
			break
		}
		if p.epoch == l.epoch && l.limit > l.bound {
			l.probed(p) // the probe alone was too much: no other request need wait
			break
		}
		l.refused(p)
		// One that is asked to wait does so; all others only where nothing else comes back.
		if t := time.Now().Add(err.After); l.row >= pauseRow && err.After > 0 && t.After(l.until) {
			l.until = t
		}
	}
	l.wake()
}

// pauseRow is how many refusals in a row make everybody wait as long as the server asks.
const pauseRow = 3

// succeeded grows: back to the bound by one for each success, which doubles the limit in
// each window; beyond it by probes.
func (l *limiter) succeeded(p place) {
	switch {
	case l.limit < l.bound:
		l.limit = min(l.bound, l.limit+1)
	case l.watched || l.bound >= float64(l.ceiling):
	case l.limit > l.bound && float64(p.level) > l.bound: // within a probe
		l.quiet++
		if l.quiet >= int(l.limit) {
			l.bound, l.quiet = l.limit, 0
			l.hold, l.step = firstHold, 2*l.step
			l.limit = min(float64(l.ceiling), l.bound+l.step)
		}
	case l.limit == l.bound && p.level >= int(l.bound):
		l.quiet++
		if l.quiet >= l.hold {
			l.limit, l.quiet = min(float64(l.ceiling), l.bound+l.step), 0
		}
	}
}

// probed ends a probe that was refused.
func (l *limiter) probed(p place) {
	l.base = l.bound
	l.bound = max(l.base, float64(p.level-1))
	l.limit = l.bound
	l.hold, l.step, l.quiet = max(failedHold, min(2*l.hold, mostHold)), 1, 0
	l.epoch++
	l.chance.begin()
}

// refused halves, once for all that were in flight. The others only tell how far the
// limit may come back.
func (l *limiter) refused(p place) {
	if p.epoch != l.epoch {
		l.bound = max(l.base, min(l.bound, float64(p.level-1)))
		l.limit = min(l.limit, l.bound)
		return
	}
	if l.chance.suspect(p.level <= int(l.base), l.bound) {
		l.bound = min(l.chance.calm, float64(l.ceiling))
		l.limit, l.quiet = l.bound, 0
		l.epoch++
		return
	}
	again := l.epoch > 0 && l.quiet < int(l.bound) // the bound did not hold for a window
	l.cut(0.5)
	l.bound = max(l.base, float64(p.level-1))
	if again {
		l.bound = math.Ceil((l.base + l.bound) / 2)
	}
}

func (l *limiter) cut(factor float64) {
	l.limit = max(1, min(l.limit, l.bound)*factor)
	l.base, l.bound = l.limit, l.limit
	l.hold = firstHold
	l.step = 1
	l.quiet = 0
	l.epoch++
	l.waits = waits{least: l.waits.least}
	l.chance.begin()
}

// waits are those of the answers since the last cut, as shares of what is allowed.
type waits struct {
	n     int
	sum   float64
	least float64 // of all since the beginning
}

// patience is the share of the time allowed that answers may take to begin, on average.
const patience = 1.0 / 3

// delayed guards servers of which nothing can be read: they take everything, and what
// waits too long in their queue would be given up by us. Where the answers of a window
// began late on average, though one of them began soon, the limit shrinks in proportion.
func (l *limiter) delayed(p place, late float64) {
	if late <= 0 || l.watched || p.epoch != l.epoch {
		return
	}
	w := &l.waits
	if w.least == 0 || late < w.least {
		w.least = late
	}
	w.n++
	w.sum += late
	if w.n < max(4, int(l.limit)/2) {
		return
	}
	mean := w.sum / float64(w.n)
	*w = (waits{least: w.least})
	if mean > patience && mean > 3*w.least {
		l.cut(max(0.5, patience/mean))
	}
}

// observe tells the length of the server's own queue and whether it preempted requests.
// The limit is kept where the queue begins: the server never idles and no request waits
// long. From the first call on the limit is led by this.
func (l *limiter) observe(queue float64, preempted bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	defer l.wake()
	if !l.watched {
		l.watched = true
		if l.flying == 0 { // before the first request: feel the way up instead of flooding it
			l.limit = min(l.limit, firstWatched)
			l.bound = l.limit
		}
	}
	slack := math.Floor(l.limit / 40)
	busy := l.flying >= int(l.limit)
	switch {
	case preempted:
		l.cut(0.75)
		l.seen, l.step = true, 1
	case queue > slack:
		l.limit = min(l.limit, max(1, l.limit/2, float64(l.flying)-queue+slack))
		l.bound = l.limit
		l.quiet = 0
		l.step = 1
		l.seen = true
	case busy && !l.seen:
		l.limit = min(float64(l.ceiling), 2*l.limit)
		l.bound = l.limit
	case busy:
		l.quiet++
		if l.quiet >= calm {
			l.limit = min(float64(l.ceiling), l.limit+l.step)
			l.bound = max(l.bound, l.limit)
			l.quiet, l.step = 0, 2*l.step
		}
	}
}

// calm is how often in a row the queue is seen empty before the limit grows.
const calm = 4

// firstWatched is how many requests a server gets before its queue was read with them.
const firstWatched = 16

// rising reports whether the limit is still on its way up from a careful start.
func (l *limiter) rising() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.watched && !l.seen && l.limit < float64(l.ceiling)
}

// isWatched reports whether the server's queue is known. Then an answer that does not begin in
// time is an accident and no sign of a full queue.
func (l *limiter) isWatched() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.watched
}

// unwatched says that the queue cannot be read any more.
func (l *limiter) unwatched() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.watched = false
}

// most is how many requests may ever be in flight.
func (l *limiter) most() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ceiling
}
