package pool

import (
	"context"
	"errors"
	"fmt"
	"time"

	"hermes/backends"
)

// Bounds of what follows a failure.
const (
	firstDelay = 100 * time.Millisecond
	mostDelay  = 30 * time.Second
	fatalTime  = time.Minute // a box that cannot exist is not tried again before
)

// dispatch hands idle boxes to waiters and has missing ones made. No waiter is overtaken by
// one that came later and needs less. The pool is locked.
func (p *Pool) dispatch() {
	if p.closed {
		return
	}
	coming := map[string]int{} // boxes being made that no waiter was counted for yet
	for key, k := range p.kinds {
		coming[key] = k.creating
	}
	order := p.queue.walk()
	for w := order.next(); w != nil; w = order.next() {
		k := p.kind(w.key, w.spec)
		switch {
		case len(k.idle) > 0:
			p.queue.remove(w)
			p.grant(w, k)
		case coming[w.key] > 0:
			coming[w.key]--
			order.pass(w, true)
		case !p.mayCreate(k):
			order.pass(w, false)
		case p.room(w.spec.Limits.Memory):
			p.create(k, w.spec)
			order.pass(w, true)
		case p.used > 0 && p.used == len(p.stuck): // nothing will come free by itself
			p.queue.remove(w)
			w.ready <- granted{err: fmt.Errorf("%w: all %d places have boxes that could not be removed, the last: %w", ErrCapacity, p.used, p.stuck[p.used-1].why)}
		default:
			p.evict(w.key)
			return
		}
	}
	p.ahead()
}

// tidy forgets keys of which nothing is left to know. The pool is locked.
func (p *Pool) tidy() {
	waiting := map[string]bool{}
	for _, list := range p.queue.byRun {
		for _, w := range list {
			waiting[w.key] = true
		}
	}
	now := time.Now()
	for key, k := range p.kinds {
		if len(k.idle) == 0 && k.creating == 0 && !waiting[key] && k.expected.now == 0 && now.After(k.later) && now.Sub(k.used) >= p.opt.IdleTime {
			delete(p.kinds, key)
		}
	}
	p.queue.tidy()
}

// grant leases the newest idle box of a kind. The pool is locked.
func (p *Pool) grant(w *waiter, k *kind) {
	last := len(k.idle) - 1
	s := k.idle[last]
	k.idle = k.idle[:last]
	s.uses++
	l := newLease(p, s)
	p.leased[l] = struct{}{}
	p.queue.served(w.run)
	p.count.leases++
	p.count.waited += time.Since(w.began)
	w.ready <- granted{lease: l}
}

// refuse fails waiters. The pool is locked.
func (p *Pool) refuse(err error, which func(*waiter) bool) {
	var gone []*waiter
	for _, list := range p.queue.byRun {
		for _, w := range list {
			if which(w) {
				gone = append(gone, w)
			}
		}
	}
	for _, w := range gone {
		p.queue.remove(w)
		w.ready <- granted{err: err}
	}
}

// room reports whether one more box fits. The pool is locked.
func (p *Pool) room(memory int64) bool {
	return p.used < p.opt.Max && (p.opt.Memory == 0 || p.memory+memory <= p.opt.Memory)
}

// evict removes the idle box of another kind that was not used for the longest time, so
// that no kind can keep the others out. The pool is locked.
func (p *Pool) evict(but string) {
	if p.leaving > 0 {
		return // a place comes free already
	}
	var oldest *slot
	for key, k := range p.kinds {
		for _, s := range k.idle {
			if key != but && (oldest == nil || s.since.Before(oldest.since)) {
				oldest = s
			}
		}
	}
	if oldest == nil {
		return
	}
	p.unlist(oldest)
	p.count.evicted++
	p.leaving++
	p.work.Go(func() {
		p.remove(oldest)
		p.mu.Lock()
		defer p.mu.Unlock()
		p.leaving--
		p.dispatch()
	})
}

// mayCreate reports whether the breaker of a kind lets one more be made: after a failure
// only one, and not before its time. The pool is locked.
func (p *Pool) mayCreate(k *kind) bool {
	return k.fails == 0 || k.creating == 0 && !time.Now().Before(k.later)
}

// create has a box made. The pool is locked.
func (p *Pool) create(k *kind, s backends.Spec) {
	k.creating++
	p.used++
	p.memory += s.Limits.Memory
	p.work.Go(func() {
		began := time.Now()
		box, err := p.open(s)
		p.mu.Lock()
		defer p.mu.Unlock()
		k.creating--
		if err != nil {
			p.used--
			p.memory -= s.Limits.Memory
			if p.life.Err() == nil {
				p.failed(k, err)
			}
			p.dispatch()
			return
		}
		p.count.created++
		p.count.making += time.Since(began)
		k.fails = 0
		k.why = nil
		k.fatal = nil
		k.later = time.Time{}
		x := &slot{box: box, key: k.key, memory: s.Limits.Memory, born: time.Now()}
		p.rest(x)
		p.dispatch()
	})
}

// open makes a box when its turn has come.
func (p *Pool) open(s backends.Spec) (backends.Sandbox, error) {
	select {
	case p.gate <- struct{}{}:
		defer func() { <-p.gate }()
	case <-p.life.Done():
		return nil, context.Cause(p.life)
	}
	if err := p.pace(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(p.life, p.opt.OpenTime, fmt.Errorf("making a box took longer than %v", p.opt.OpenTime))
	defer cancel()
	box, err := p.driver.Open(ctx, s)
	if err != nil && ctx.Err() != nil && p.life.Err() == nil {
		err = fmt.Errorf("%w: %w", context.Cause(ctx), err)
	}
	return box, err
}

// pace waits for the next moment in which a box may be made.
func (p *Pool) pace() error {
	if p.opt.Rate == 0 {
		return nil
	}
	p.mu.Lock()
	now := time.Now()
	if p.next.Before(now) {
		p.next = now
	}
	wait := p.next.Sub(now)
	p.next = p.next.Add(time.Duration(float64(time.Second) / p.opt.Rate))
	p.mu.Unlock()
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-p.life.Done():
		return context.Cause(p.life)
	}
}

// failed notes that a box could not be made. A box that cannot exist fails all who wait
// for its like, at once and for a minute; a row of other failures fails them too and
// stops making for a while, after which one is tried. The pool is locked.
func (p *Pool) failed(k *kind, err error) {
	p.count.failed++
	k.fails++
	k.why = err
	delay := min(firstDelay<<min(k.fails-1, 20), mostDelay)
	delay = delay/2 + time.Duration(p.rand.Int64N(int64(delay)/2+1))
	mine := func(w *waiter) bool { return w.key == k.key }
	switch {
	case errors.Is(err, backends.ErrImage):
		delay, k.fatal = fatalTime, err
		p.refuse(err, mine)
	case errors.Is(err, backends.ErrUnavailable):
		p.refuse(err, mine)
	case k.fails >= p.opt.Breaker:
		delay = max(delay, p.opt.Cooldown)
		p.refuse(fmt.Errorf("%d boxes in a row could not be made: %w", k.fails, err), mine)
	}
	if k.fails == p.opt.Breaker {
		p.count.tripped++
		p.opt.Log.Warn("boxes cannot be made", "key", k.key, "image", k.spec.Image, "failures", k.fails, "err", err)
	}
	k.later = time.Now().Add(delay)
	if k.timer != nil {
		k.timer.Stop()
	}
	k.timer = time.AfterFunc(delay, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.dispatch()
	})
}
