package nomad

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/nomad/api"

	"hermes/backends"
)

// group is one job: the slots of one shape.
type group struct {
	b     *Backend
	shape shape
	id    string
	token string        // the administrator's, of every slotd of the job
	kick  chan struct{} // the demand has changed
	work  sync.WaitGroup

	registering sync.Mutex
	registered  bool

	mu       sync.Mutex
	slots    map[string]*slot // by allocation
	over     map[string]bool  // allocations that have ended and are still listed
	waiters  []*waiter
	count    int   // as the cluster was last asked for
	unsure   bool  // whether it heard that
	fault    error // why the latest slot did not come
	faultAt  time.Time
	away     time.Time // when an agent last did not answer
	failures int       // starts that failed since one succeeded
}

// waiter is an Open that waits for a slot.
type waiter struct {
	got   chan handed
	since time.Time
}

type handed struct {
	slot *slot
	err  error
}

// Bounds of failures.
const (
	maxFailures  = 3                // failed starts in a row, after which waiters get an error
	imageMemory  = time.Minute      // an image that could not be had is not asked for again
	registerTime = 10 * time.Second // for an agent that is away for a moment
)

func newGroup(b *Backend, h shape, token string) *group {
	return &group{b: b, shape: h, token: token, id: jobPrefix + b.owner.String() + "-" + b.tag + "-" + h.digest(), kick: make(chan struct{}, 1),
		slots: map[string]*slot{}, over: map[string]bool{}}
}

// min is how many slots are kept although no caller needs them.
func (g *group) min() int {
	if g.shape == g.b.shape(backends.Spec{}) {
		return g.b.conf.Min
	}
	return 0
}

// register makes the job, once. An answer that was lost is looked for before the job is
// made again.
func (g *group) register(ctx context.Context) error {
	g.registering.Lock()
	defer g.registering.Unlock()
	if g.registered {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, registerTime)
	defer cancel()
	job := g.b.conf.job(g.id, g.token, g.shape, g.min(), g.b.meta(g.shape))
	for {
		_, _, err := g.b.web.Jobs().RegisterOpts(job, &api.RegisterOptions{EnforceIndex: true}, g.b.write(ctx))
		if err == nil || strings.Contains(err.Error(), "job already exists") { // the name is ours alone
			break
		}
		if !passing(err) || !pause(ctx, 200*time.Millisecond) {
			return fmt.Errorf("%w: %w", backends.ErrUnavailable, answered("register job "+g.id, err))
		}
	}
	g.mu.Lock() // other jobs count this one's slots
	g.registered, g.count = true, g.min()
	g.mu.Unlock()
	for _, f := range []func(context.Context){g.watch, g.manage, g.renew} {
		g.work.Go(func() { f(g.b.life) })
	}
	return nil
}

// pause waits, and reports whether ctx is still alive.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// nudge says that the demand has changed.
func (g *group) nudge() {
	select {
	case g.kick <- struct{}{}:
	default:
	}
}

// take gives the free slot with the lowest index, or waits for one.
func (g *group) take(ctx context.Context) (*slot, error) {
	g.mu.Lock()
	var best *slot
	for _, s := range g.slots {
		if s.state == idle && (best == nil || s.index < best.index) {
			best = s
		}
	}
	if best != nil {
		best.state = busy
		g.mu.Unlock()
		g.nudge()
		return best, nil
	}
	if errors.Is(g.fault, backends.ErrImage) && time.Since(g.faultAt) < imageMemory {
		defer g.mu.Unlock()
		return nil, g.fault
	}
	w := &waiter{got: make(chan handed, 1), since: time.Now()}
	g.waiters = append(g.waiters, w)
	g.mu.Unlock()
	g.nudge()
	select {
	case h := <-w.got:
		return h.slot, h.err
	case <-ctx.Done():
	}
	g.mu.Lock()
	g.waiters = slices.DeleteFunc(g.waiters, func(o *waiter) bool { return o == w })
	fault := g.fault
	g.mu.Unlock()
	select {
	case h := <-w.got: // it came at the same moment
		if h.slot != nil {
			g.ready(h.slot)
		}
	default:
	}
	g.nudge()
	err := fmt.Errorf("wait for a slot of job %s: %w", g.id, context.Cause(ctx))
	if fault != nil {
		err = fmt.Errorf("%w (the latest to fail: %w)", err, fault)
	}
	return nil, err
}

// ready hands a slot to whoever waits longest, or keeps it.
func (g *group) ready(s *slot) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if s.state == leaving || s.why != nil {
		return
	}
	g.failures, g.fault = 0, nil
	if len(g.waiters) == 0 {
		s.state, s.since = idle, time.Now()
		return
	}
	s.state = busy
	g.waiters[0].got <- handed{slot: s}
	g.waiters = g.waiters[1:]
}

// refuse ends the waiting of all. The group is locked.
func (g *group) refuse(err error) {
	for _, w := range g.waiters {
		w.got <- handed{err: err}
	}
	g.waiters = nil
}

// trouble notes that a slot did not come. The group is locked.
func (g *group) trouble(err error) {
	g.fault, g.faultAt = err, time.Now()
	g.failures++
	g.b.at.say("job %s: %v", g.id, err)
	if errors.Is(err, backends.ErrImage) || g.failures >= maxFailures && g.working() == 0 {
		g.refuse(err)
	}
}

// working counts slots that are in use, free, or being reset. The group is locked.
func (g *group) working() (n int) {
	for _, s := range g.slots {
		if s.state == idle || s.state == busy || s.state == wiping {
			n++
		}
	}
	return n
}

// unheard notes that an agent did not answer.
func (g *group) unheard() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.away = time.Now()
}

// lastUnheard is when that was.
func (g *group) lastUnheard() time.Time {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.away
}

// watch follows the job's allocations.
func (g *group) watch(ctx context.Context) {
	var index uint64
	away := false
	for ctx.Err() == nil {
		q := g.b.query(ctx)
		q.WaitIndex, q.WaitTime = index, askTime
		all, meta, err := g.b.web.Jobs().Allocations(g.id, true, q)
		if err != nil {
			g.unheard()
			if ctx.Err() == nil && !away {
				away = true
				g.b.at.say("%v; boxes go on working, new slots have to wait", answered("list slots of job "+g.id, err))
			}
			index = 0
			pause(ctx, 250*time.Millisecond)
			continue
		}
		if away {
			away = false
			g.b.at.say("an agent answers again")
		}
		index = meta.LastIndex
		if index == 0 {
			pause(ctx, 250*time.Millisecond)
		}
		g.reconcile(ctx, all)
	}
}

// reconcile takes in what the cluster says about the slots.
func (g *group) reconcile(ctx context.Context, all []*api.AllocationListStub) {
	stopped := g.stopped(ctx, all)
	g.mu.Lock()
	defer g.mu.Unlock()
	listed := map[string]bool{}
	for _, a := range all {
		listed[a.ID] = true
		s := g.slots[a.ID]
		why := cmp.Or(stopped[a.ID], outside(a.DesiredStatus, a.ClientStatus, a.DesiredDescription))
		failed := a.ClientStatus == api.AllocClientStatusFailed || a.ClientStatus == api.AllocClientStatusComplete
		switch {
		case why == nil && !failed:
			if s == nil && !g.over[a.ID] {
				s = newSlot(g, a)
				g.slots[a.ID] = s
				g.work.Go(func() { s.bring(ctx) })
			}
		case s != nil:
			began := s.state == starting && s.lease.ID == ""
			if why == nil && !began {
				why = ended(g.b.conf.Driver, s.ran.Load(), a.TaskStates)
			}
			if why == nil && began {
				why = unstarted(g.shape.image, a.TaskStates)
				g.trouble(why)
			}
			g.drop(s, cmp.Or(why, fmt.Errorf("%w: its server ended", backends.ErrLost)))
			g.over[a.ID] = true
		case failed && why == nil && !g.over[a.ID]: // it ended before it was seen
			g.trouble(unstarted(g.shape.image, a.TaskStates))
			g.over[a.ID] = true
		}
	}
	for id, s := range g.slots {
		if !listed[id] {
			g.drop(s, errRemoved)
		}
	}
	for id := range g.over {
		if !listed[id] {
			delete(g.over, id)
		}
	}
	g.nudge()
}

// stopped says why slots of ours, that were well until now, were stopped.
func (g *group) stopped(ctx context.Context, all []*api.AllocationListStub) map[string]error {
	news := map[string]error{}
	for _, a := range all {
		g.mu.Lock()
		known := g.slots[a.ID] != nil
		g.mu.Unlock()
		if known {
			news[a.ID] = g.b.moved(ctx, a.NodeID, a.DesiredDescription, outside(a.DesiredStatus, a.ClientStatus, a.DesiredDescription))
		}
	}
	return news
}

// drop takes a slot that is gone out of the books and cuts its connections: one on a lost
// node may still answer. The group is locked.
func (g *group) drop(s *slot, why error) {
	delete(g.slots, s.alloc)
	if s.why == nil {
		s.why = why
		close(s.over)
	}
	if (s.state == busy || s.state == idle) && !errors.Is(why, backends.ErrClosed) {
		g.b.at.say("slot %s: %v", s.alloc, why)
	}
	s.links.sever(true)
}

// retire stops an allocation that is of no use any more; Nomad puts another in its place.
func (g *group) retire(s *slot, why error) {
	g.mu.Lock()
	was := s.state
	s.state = leaving
	g.mu.Unlock()
	if was == leaving || s.gone() != nil {
		return
	}
	g.b.at.say("slot %s is replaced: %v", s.alloc, why)
	g.work.Go(func() {
		for {
			_, err := g.b.web.Allocations().Stop(&api.Allocation{ID: s.alloc}, g.b.query(g.b.life))
			if err == nil || missing(err) || !pause(g.b.life, time.Second) {
				return
			}
		}
	})
}

// close removes the job.
func (g *group) close(ctx context.Context) error {
	g.mu.Lock()
	g.refuse(backends.ErrClosed)
	g.mu.Unlock()
	g.work.Wait()
	g.registering.Lock()
	defer g.registering.Unlock()
	g.mu.Lock()
	for _, s := range g.slots {
		g.drop(s, backends.ErrClosed)
		s.admin.Close(ctx)
	}
	g.mu.Unlock()
	for g.registered {
		_, _, err := g.b.web.Jobs().Deregister(g.id, true, g.b.write(ctx))
		if err == nil || missing(err) {
			g.registered = false
			break
		}
		if !passing(err) || !pause(ctx, 500*time.Millisecond) {
			return fmt.Errorf("%w; `hermes sandbox gc` removes it later", answered("remove job "+g.id, err))
		}
	}
	return nil
}
