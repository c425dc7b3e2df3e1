package pool

import (
	"math"
	"runtime"
	"sync"
	"time"

	"hermes/backends"
)

// A rollout that has tools for a box waits for its model first, and while it does this
// machine's processors are often idle. Where boxes cost nothing but processor time, they are
// made then: as many as rollouts wait that may ask for one, times the share of those that
// did ask, and few at a time. A box that its rollout did not need is the next one's.

// expected are the rollouts that may ask for a box of a kind.
type expected struct {
	now    int     // that wait
	opened float64 // that asked for one, the older the less
	not    float64 // that did not
}

// manyExpected is from how many on the older ones count half.
const manyExpected = 1000

// note counts a rollout that waits no longer.
func (e *expected) note(opened bool) {
	e.now--
	if opened {
		e.opened++
	} else {
		e.not++
	}
	if e.opened+e.not > manyExpected {
		e.opened /= 2
		e.not /= 2
	}
}

// wanted is how many boxes are to be there for them.
func (e *expected) wanted() int {
	share := (e.opened + 1) / (e.opened + e.not + 1)
	return int(math.Ceil(float64(e.now) * share))
}

// Expect implements [backends.Expecter]. Nothing is made ahead by a driver whose boxes are not
// cheap.
func (p *Pool) Expect(s backends.Spec) (over func(opened bool)) {
	if !p.driver.Traits().Cheap || backends.Narrow(p.driver, s.Network) != nil {
		return func(bool) {}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	key := keyOf(s)
	k := p.kind(key, s)
	k.used = time.Now()
	k.expected.now++
	p.ahead()
	var once sync.Once
	return func(opened bool) {
		once.Do(func() {
			p.mu.Lock()
			defer p.mu.Unlock()
			k.expected.note(opened)
		})
	}
}

// ready is how many idle boxes of a kind are kept. The pool is locked.
func (p *Pool) ready(k *kind) int {
	n := k.expected.wanted()
	if time.Since(k.used) < p.opt.IdleTime {
		n += p.opt.Warm
	}
	return n
}

// ahead has boxes made that no one waits for yet. Those for rollouts that only may ask are
// made while fewer are being made than there are processors. The pool is locked.
func (p *Pool) ahead() {
	if p.closed || p.drain {
		return
	}
	making := 0
	for _, k := range p.kinds {
		making += k.creating
	}
	for _, k := range p.kinds {
		for p.mayCreate(k) && p.room(k.spec.Limits.Memory) {
			there := len(k.idle) + k.creating
			warm := there < p.opt.Warm && time.Since(k.used) < p.opt.IdleTime
			may := there < p.ready(k) && making < runtime.GOMAXPROCS(0)
			if !warm && !may {
				break
			}
			p.create(k, k.spec)
			making++
		}
	}
}
