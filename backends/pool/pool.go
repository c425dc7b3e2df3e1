// Package pool shares the boxes of a back-end between all that need one.
//
// A [Pool] is a back-end too: Open waits for a place, fairly between runs, and gives a
// lease on a box; closing the lease gives the box back, in every way that a rollout can
// end. A box that was used is destroyed, or reset and looked at when Options say so, and
// is never handed on unless it was found clean. Creating is limited, backs off when it
// fails, and stops for a while when it keeps failing. Idle boxes are probed. A failure to
// remove a box never reaches the rollout: it is tried again, counted, and reported by Close.
//
// A Pool and its leases are safe for concurrent use.
package pool

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"hermes/backends"
)

// ErrCapacity says that no place came free in the time that Options.Wait gives.
var ErrCapacity = errors.New("no box came free in time")

// RunLabel is the label of a Spec that names the run, between which places are shared.
const RunLabel = "run"

// Options tune a [Pool], from code or as `backends.pool` of a run file. The zero value is
// usable.
type Options struct {
	Max       int            `yaml:"max"`        // boxes at once: in use, idle, being made or removed; 0: the driver's Slots, or 64
	Memory    int64          `yaml:"memory"`     // sum of Limits.Memory of all boxes, in bytes; 0: not counted
	Warm      int            `yaml:"warm"`       // idle boxes kept ready for each key that was used lately
	IdleTime  time.Duration  `yaml:"idle-time"`  // after which an idle box is removed; 0: 5 minutes
	Uses      int            `yaml:"uses"`       // leases of one box; 0: 1. More need a Reset level
	Age       time.Duration  `yaml:"age"`        // after which a box is not used again; 0: 1 hour
	Reset     backends.Level `yaml:"reset"`      // between two leases of a box; "": it is destroyed
	Wait      time.Duration  `yaml:"wait"`       // most that Open waits; 0: until its context ends
	OpenTime  time.Duration  `yaml:"open-time"`  // most that making one box takes; 0: 5 minutes
	CloseTime time.Duration  `yaml:"close-time"` // most that removing or resetting one takes; 0: 30 seconds
	Creates   int            `yaml:"creates"`    // boxes being made at once; 0: 8
	Rate      float64        `yaml:"rate"`       // boxes made in a second; 0: no limit
	Breaker   int            `yaml:"breaker"`    // failures in a row that stop making boxes of a key; 0: 5
	Cooldown  time.Duration  `yaml:"cooldown"`   // until one more is tried; 0: 10 seconds
	Probe     time.Duration  `yaml:"probe"`      // between looks at idle boxes; 0: 30 seconds
	Sweep     time.Duration  `yaml:"sweep"`      // between sweeps for what dead owners left; 0: 5 minutes
	Seed      uint64         `yaml:"-"`          // of jitter
	Log       *slog.Logger   `yaml:"-"`          // nil: silent
}

// complete fills in defaults and refuses what cannot be meant.
func (o Options) complete(t backends.Traits) (Options, error) {
	for name, n := range map[string]int{"max": o.Max, "warm": o.Warm, "uses": o.Uses, "creates": o.Creates, "breaker": o.Breaker} {
		if n < 0 {
			return o, fmt.Errorf("pool: %s of %d is negative", name, n)
		}
	}
	if o.Memory < 0 || o.Rate < 0 {
		return o, fmt.Errorf("pool: memory of %d and rate of %g: negative", o.Memory, o.Rate)
	}
	if o.Uses > 1 && o.Reset == "" {
		return o, fmt.Errorf("pool: %d uses of a box need a reset level (have %s, %s)", o.Uses, backends.ResetFiles, backends.ResetFull)
	}
	if o.Reset != "" && o.Reset != backends.ResetFiles && o.Reset != backends.ResetFull {
		return o, fmt.Errorf("pool: no reset level %q (have %s, %s)", o.Reset, backends.ResetFiles, backends.ResetFull)
	}
	o.Max = cmp.Or(o.Max, t.Slots, 64)
	if t.Slots > 0 {
		o.Max = min(o.Max, t.Slots)
	}
	if o.Warm > o.Max {
		return o, fmt.Errorf("pool: %d warm boxes are more than its %d", o.Warm, o.Max)
	}
	o.Uses, o.Creates, o.Breaker = cmp.Or(o.Uses, 1), cmp.Or(o.Creates, 8), cmp.Or(o.Breaker, 5)
	o.IdleTime, o.Age = cmp.Or(o.IdleTime, 5*time.Minute), cmp.Or(o.Age, time.Hour)
	o.OpenTime, o.CloseTime = cmp.Or(o.OpenTime, 5*time.Minute), cmp.Or(o.CloseTime, 30*time.Second)
	o.Cooldown, o.Probe, o.Sweep = cmp.Or(o.Cooldown, 10*time.Second), cmp.Or(o.Probe, 30*time.Second), cmp.Or(o.Sweep, 5*time.Minute)
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	return o, nil
}

// Pool is a back-end in front of another.
type Pool struct {
	driver backends.Backend
	opt    Options
	gate   chan struct{}      // creates under way
	life   context.Context    // ends with Close
	end    context.CancelFunc // of life
	work   sync.WaitGroup     // goroutines

	mu      sync.Mutex
	closed  bool
	drain   bool
	queue   queue
	kinds   map[string]*kind
	leased  map[*lease]struct{}
	used    int   // places taken
	leaving int   // idle boxes being removed to make room
	memory  int64 // bytes taken
	next    time.Time
	rand    *rand.Rand
	count   counters
	stuck   []*stuck // boxes that could not be removed; they keep their places
	idle    sync.Cond
	once    sync.Once
	err     error
}

// kind are the boxes that are alike.
type kind struct {
	key      string
	spec     backends.Spec
	idle     []*slot // the one that was used last at the end
	creating int
	used     time.Time // last asked for
	fails    int       // in a row
	why      error     // the last failure
	later    time.Time // nothing is made before
	fatal    error     // every Open fails with it until later
	timer    *time.Timer
	expected expected
}

// slot is a box of the driver.
type slot struct {
	box    backends.Sandbox
	key    string
	memory int64
	uses   int
	born   time.Time
	since  time.Time // idle
}

// New returns a pool in front of a driver, which it closes. Boxes of an earlier life of
// this owner are taken over, what dead owners left is swept.
func New(ctx context.Context, driver backends.Backend, o Options) (*Pool, error) {
	o, err := o.complete(driver.Traits())
	if err != nil {
		return nil, err
	}
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	p := &Pool{driver: driver, opt: o, gate: make(chan struct{}, o.Creates), life: life, end: end, kinds: map[string]*kind{},
		leased: map[*lease]struct{}{}, queue: newQueue(), rand: rand.New(rand.NewPCG(o.Seed, 1))}
	p.idle.L = &p.mu
	if err := p.adopt(ctx); err != nil {
		end()
		return nil, err
	}
	p.work.Go(p.keep)
	return p, nil
}

// Traits implements backends.Backend.
func (p *Pool) Traits() backends.Traits {
	t := p.driver.Traits()
	p.mu.Lock()
	defer p.mu.Unlock()
	t.Slots, t.Queued = p.opt.Max, true
	return t
}

// Narrow implements backends.Narrower.
func (p *Pool) Narrow(network []string) error { return backends.Narrow(p.driver, network) }

// SetMax changes how many boxes there may be at once, within what the driver has. Under
// a smaller number none is made; those that exist stay as long as others. n is at least 1.
func (p *Pool) SetMax(n int) {
	if slots := p.driver.Traits().Slots; slots > 0 {
		n = min(n, slots)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.opt.Max = n
	p.dispatch()
}

// keyOf names the boxes that are alike. Labels do not tell them apart.
func keyOf(s backends.Spec) string {
	s.Labels = nil
	raw, err := json.Marshal(s) // maps are sorted
	if err != nil {             // a number of cores that is not one: the driver will refuse it
		raw = fmt.Appendf(nil, "%+v", s)
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:8])
}

// Open implements backends.Backend. It waits for a place and for a box, and fails with
// [ErrCapacity] after Options.Wait, or when every place has a box that could not be removed;
// with the driver's error when no such box can be made.
func (p *Pool) Open(ctx context.Context, s backends.Spec) (backends.Sandbox, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("wait for a box: %w", err)
	}
	if err := backends.Narrow(p.driver, s.Network); err != nil {
		return nil, err
	}
	if p.opt.Memory > 0 && s.Limits.Memory > p.opt.Memory {
		return nil, fmt.Errorf("box with %d bytes of memory in a pool of %d: %w", s.Limits.Memory, p.opt.Memory, backends.ErrUnavailable)
	}
	w := &waiter{run: s.Labels[RunLabel], key: keyOf(s), spec: s, began: time.Now(), ready: make(chan granted, 1)}
	if err := p.enter(w); err != nil {
		return nil, err
	}
	var late <-chan time.Time
	if p.opt.Wait > 0 {
		timer := time.NewTimer(p.opt.Wait)
		defer timer.Stop()
		late = timer.C
	}
	select {
	case g := <-w.ready:
		return g.sandbox()
	case <-ctx.Done():
		return nil, p.leave(w, context.Cause(ctx))
	case <-late:
		return nil, p.leave(w, fmt.Errorf("%w: %v", ErrCapacity, p.opt.Wait))
	}
}

// enter queues a waiter.
func (p *Pool) enter(w *waiter) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || p.drain {
		return fmt.Errorf("open a box of a pool that ends: %w", backends.ErrClosed)
	}
	k := p.kind(w.key, w.spec)
	k.used = time.Now()
	if k.fatal != nil && time.Now().Before(k.later) {
		return k.fatal
	}
	p.queue.push(w)
	p.dispatch()
	return nil
}

// leave takes a waiter out of the queue. A box that was handed over at the same moment
// goes back unused.
func (p *Pool) leave(w *waiter, why error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	reason := p.reason(w)
	if !p.queue.remove(w) {
		if g := <-w.ready; g.lease != nil {
			g.lease.finish()
			delete(p.leased, g.lease)
			p.queue.back(w.run)
			g.lease.slot.uses--
			p.rest(g.lease.slot)
		}
	}
	p.dispatch()
	return fmt.Errorf("wait for a box (%s): %w", reason, why)
}

// reason says what a waiter waits for. The pool is locked.
func (p *Pool) reason(w *waiter) string {
	if k := p.kinds[w.key]; k != nil && k.why != nil {
		return fmt.Sprintf("the last %d could not be made: %v", k.fails, k.why)
	} else if k != nil && k.creating > 0 {
		return "it is being made"
	} else if n := len(p.stuck); n > 0 {
		return fmt.Sprintf("%d of %d in use, %d of them could not be removed, %d wait", p.used, p.opt.Max, n, p.queue.len())
	}
	return fmt.Sprintf("%d of %d in use, %d wait", p.used, p.opt.Max, p.queue.len())
}

// kind finds or begins the books of a key. The pool is locked.
func (p *Pool) kind(key string, s backends.Spec) *kind {
	k := p.kinds[key]
	if k == nil {
		k = &kind{key: key, spec: s}
		p.kinds[key] = k
	}
	return k
}

// Drain takes no more leases and returns when those in force have ended, or with ctx.
func (p *Pool) Drain(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.drain = true
	p.refuse(fmt.Errorf("open a box of a pool that ends: %w", backends.ErrClosed), func(*waiter) bool { return true })
	stop := context.AfterFunc(ctx, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.idle.Broadcast()
	})
	defer stop()
	for len(p.leased) > 0 {
		if ctx.Err() != nil {
			return fmt.Errorf("drain the pool: %d boxes are still in use: %w", len(p.leased), context.Cause(ctx))
		}
		p.idle.Wait()
	}
	return nil
}

// Close ends all leases, removes all boxes and closes the driver. Its error tells what
// could not be removed. It may be called again, with the same answer.
func (p *Pool) Close(ctx context.Context) error {
	p.once.Do(func() { p.err = p.close(ctx) })
	return p.err
}

func (p *Pool) close(ctx context.Context) error {
	p.mu.Lock()
	p.closed = true
	p.refuse(fmt.Errorf("open a box of a pool that ends: %w", backends.ErrClosed), func(*waiter) bool { return true })
	for _, k := range p.kinds {
		for _, s := range k.idle {
			p.work.Go(func() { p.remove(s) })
		}
		k.idle = nil
		if k.timer != nil {
			k.timer.Stop()
		}
	}
	leases := make([]*lease, 0, len(p.leased))
	for l := range p.leased {
		leases = append(leases, l)
	}
	p.end()
	p.mu.Unlock()
	for _, l := range leases {
		p.work.Go(func() { l.Close(ctx) })
	}
	done := make(chan struct{})
	go func() {
		p.work.Wait()
		close(done)
	}()
	var late error
	select {
	case <-done:
	case <-ctx.Done():
		late = fmt.Errorf("close the pool: %w", context.Cause(ctx))
	}
	errs := []error{late, p.driver.Close(ctx)}
	p.unstick(ctx)
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.stuck {
		errs = append(errs, fmt.Errorf("box %s was not removed: %w", s.box.ID(), s.why))
	}
	return errors.Join(errs...)
}
