package nomad

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"hermes/backends"
)

// manage keeps the job's count at the demand and looks at nodes and evaluations.
func (g *group) manage(ctx context.Context) {
	tick := time.NewTicker(g.b.conf.Poll)
	defer tick.Stop()
	signed := time.Now()
	for ctx.Err() == nil {
		g.scale(ctx)
		select {
		case <-ctx.Done():
		case <-g.kick:
		case <-tick.C:
			g.nodes(ctx)
			g.evaluations(ctx)
			g.patience()
			if time.Since(signed) > signEvery {
				if err := g.sign(ctx); err == nil {
					signed = time.Now()
				}
			}
		}
	}
}

// needed counts boxes in use and those that are waited for. The group is locked.
func (g *group) needed() int {
	n := len(g.waiters)
	for _, s := range g.slots {
		if s.state == busy || s.state == wiping {
			n++
		}
	}
	return n
}

// scale asks the cluster for as many slots as are needed. Nomad stops the highest index
// first, so the count goes down only as far as the highest slots are free.
func (g *group) scale(ctx context.Context) {
	taken, pressed := 0, false
	for _, o := range g.b.others(g) {
		o.mu.Lock()
		taken += o.count
		pressed = pressed || len(o.waiters) > 0
		o.mu.Unlock()
	}
	g.mu.Lock()
	was, marked := g.count, []*slot(nil)
	need := max(g.needed(), g.min())
	switch {
	case need > was:
		if room := g.b.conf.Max - taken; need > room {
			need = max(room, was)
			defer g.press()
		}
		g.count = need
	case need < was:
		for g.count > need && g.loosen(g.count-1, pressed, &marked) {
			g.count--
		}
	}
	count, again := g.count, g.unsure
	g.mu.Unlock()
	if count == was && !again {
		return
	}
	_, _, err := g.b.web.Jobs().Scale(g.id, groupName, &count, "demand of hermes", false, nil, g.b.write(ctx))
	g.mu.Lock()
	g.unsure = err != nil
	if err != nil {
		g.count = was // the next look tries again, with what is needed then
	}
	if err != nil && !passing(err) && !missing(err) { // a job that is gone is made again
		g.trouble(fmt.Errorf("%w: %w", backends.ErrUnavailable, answered(fmt.Sprintf("scale job %s to %d", g.id, count), err)))
	}
	g.mu.Unlock()
	if err == nil {
		return
	}
	for _, s := range marked { // whether they are stopped is not known
		g.mu.Lock()
		s.state = wiping
		g.mu.Unlock()
		g.retire(s, err)
	}
}

// press tells other jobs that their free slots are wanted.
func (g *group) press() {
	for _, o := range g.b.others(g) {
		o.nudge()
	}
}

// loosen reports whether the slot of an index is unused, and keeps it from being used.
// A free slot is kept for a while, unless others wait. The group is locked.
func (g *group) loosen(index int, pressed bool, marked *[]*slot) bool {
	for _, s := range g.slots {
		if s.index != index {
			continue
		}
		switch {
		case s.state == busy || s.state == wiping:
			return false
		case s.state == idle && !pressed && time.Since(s.since) < g.b.conf.Idle:
			return false
		}
	}
	for _, s := range g.slots {
		if s.index == index && s.state != leaving {
			s.state = leaving
			*marked = append(*marked, s)
		}
	}
	return true
}

// nodes looks after the nodes of slots: free ones on a node that is drained are replaced,
// those in use stay until Nomad takes them.
func (g *group) nodes(ctx context.Context) {
	by := map[string][]*slot{}
	g.mu.Lock()
	for _, s := range g.slots {
		if s.state != leaving {
			by[s.node] = append(by[s.node], s)
		}
	}
	g.mu.Unlock()
	for id, slots := range by {
		why := g.b.node(ctx, id)
		for _, s := range slots {
			g.mu.Lock()
			s.doomed = why
			free := s.state == idle
			if free && why != nil {
				s.state = wiping // no caller gets it meanwhile
			}
			g.mu.Unlock()
			if free && why != nil {
				g.retire(s, why)
			}
		}
	}
}

// evaluations looks why slots are not placed, while somebody waits for one.
func (g *group) evaluations(ctx context.Context) {
	g.mu.Lock()
	waiting := len(g.waiters)
	g.mu.Unlock()
	if waiting == 0 {
		return
	}
	g.revive(ctx)
	all, _, err := g.b.web.Jobs().Evaluations(g.id, g.b.query(ctx))
	if err != nil {
		return
	}
	var newest uint64
	var fault error
	hopeless := false
	for _, e := range all {
		if e.CreateIndex < newest || e.Status == "pending" {
			continue
		}
		newest = e.CreateIndex
		fault = nil
		hopeless = false
		if m := e.FailedTGAllocs[groupName]; m != nil {
			fault, hopeless = placement(m)
		}
	}
	if fault != nil && !hopeless && !g.b.fits(ctx, g.shape) {
		fault, hopeless = fmt.Errorf("%w; no node is large enough for %d MiB and %d MHz", fault, g.shape.memory>>20, g.shape.cpu), true
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if fault == nil {
		return
	}
	if !errors.Is(g.fault, ErrPlacement) {
		g.b.at.say("job %s: %v", g.id, fault)
	}
	g.fault, g.faultAt = fault, time.Now()
	if hopeless && g.working() == 0 {
		g.refuse(fault)
	}
}

// revive registers the job again when somebody stopped or removed it: changes of the count
// of such a job have no effect.
func (g *group) revive(ctx context.Context) {
	j, _, err := g.b.web.Jobs().Info(g.id, g.b.query(ctx))
	if err != nil && !missing(err) || err == nil && (j.Stop == nil || !*j.Stop) {
		return
	}
	g.mu.Lock()
	count := g.count
	g.mu.Unlock()
	g.b.at.say("job %s was stopped by somebody else; it is registered again", g.id)
	if _, _, err := g.b.web.Jobs().Register(g.b.conf.job(g.id, g.token, g.shape, count, g.b.meta(g.shape)), g.b.write(ctx)); err != nil {
		g.b.at.say("%v", answered("register job "+g.id, err))
	}
}

// patience ends waiting that has lasted too long while no slot works at all. As long as
// some do, their boxes end at some time.
func (g *group) patience() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.waiters) == 0 || g.working() > 0 || time.Since(g.waiters[0].since) < g.b.conf.Start {
		return
	}
	err := fmt.Errorf("%w: no slot of job %s came within %v", backends.ErrUnavailable, g.id, g.b.conf.Start)
	if g.fault != nil {
		err = fmt.Errorf("%w (%w)", err, g.fault)
	}
	g.refuse(err)
}

// renew keeps the leases. A free slot that twice does not answer is replaced; what becomes
// of one in use is for its box to tell.
func (g *group) renew(ctx context.Context) {
	for pause(ctx, g.b.conf.TTL/3) {
		var all sync.WaitGroup
		g.mu.Lock()
		for _, s := range g.slots {
			if s.state != idle && s.state != busy {
				continue
			}
			all.Go(func() {
				if err := s.touch(ctx); err != nil && s.missed.Add(1) >= 2 {
					g.mu.Lock()
					free := s.state == idle
					if free {
						s.state = wiping
					}
					g.mu.Unlock()
					if free {
						g.retire(s, err)
					}
				} else if err == nil {
					s.missed.Store(0)
				}
			})
		}
		g.mu.Unlock()
		all.Wait()
	}
}
