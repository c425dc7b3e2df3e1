package pool

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"hermes/backends"
)

// Bounds of the patience with boxes.
const (
	removeTries = 4
	probeTries  = 3
	probeTime   = 10 * time.Second
	callsTime   = 10 * time.Second // that calls of an ended lease may take to notice
	probeFile   = ".hermes-no-such-file"
)

// rest files a box as idle. The pool is locked.
func (p *Pool) rest(s *slot) {
	if p.closed {
		p.work.Go(func() { p.remove(s) })
		return
	}
	s.since = time.Now()
	k := p.kind(s.key, backends.Spec{})
	k.idle = append(k.idle, s)
}

// unlist takes a box out of the idle ones, and reports whether it was there. The pool is
// locked.
func (p *Pool) unlist(s *slot) bool {
	k := p.kinds[s.key]
	if k == nil {
		return false
	}
	i := slices.Index(k.idle, s)
	if i >= 0 {
		k.idle = slices.Delete(k.idle, i, i+1)
	}
	return i >= 0
}

// takeBack ends a lease: the box is made ready for the next one, or removed.
func (p *Pool) takeBack(l *lease) {
	defer close(l.away)
	again := p.again(l)
	p.mu.Lock()
	delete(p.leased, l)
	p.idle.Broadcast()
	if again {
		p.rest(l.slot)
		p.dispatch()
	}
	p.mu.Unlock()
	if !again {
		p.remove(l.slot)
	}
}

// again reports whether a box is fit for another lease, and makes it so.
func (p *Pool) again(l *lease) bool {
	s := l.slot
	p.mu.Lock()
	over := p.closed || p.drain
	p.mu.Unlock()
	if over || p.opt.Reset == "" || s.uses >= p.opt.Uses || l.spoilt.Load() || time.Since(s.born) > p.opt.Age {
		return false
	}
	r, ok := backends.As[backends.Resetter](s.box)
	if !ok {
		return false
	}
	timer := time.NewTimer(callsTime)
	defer timer.Stop()
	select {
	case <-l.quiet:
	case <-timer.C:
		return false
	}
	ctx, cancel := context.WithTimeout(p.life, p.opt.CloseTime)
	defer cancel()
	done, err := r.Reset(ctx, p.opt.Reset)
	clean := err == nil && len(done.Left) == 0
	p.tell(func(c *counters) {
		if clean {
			c.resets++
		} else {
			c.dirty++
		}
	})
	if !clean {
		p.opt.Log.Warn("a box is not clean after its reset and is destroyed", "box", s.box.ID(), "left", done.Left, "err", err)
	}
	return clean
}

// remove closes a box, again and again when that fails, and gives its place back. One that
// cannot be removed keeps its place: it is there, and takes what it takes.
func (p *Pool) remove(s *slot) {
	var err error
	for try := range removeTries {
		if try > 0 {
			select {
			case <-time.After(firstDelay << (2 * try)):
			case <-p.life.Done(): // the pool ends: no more waiting between tries
			}
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(p.life), p.opt.CloseTime)
		err = s.box.Close(ctx)
		cancel()
		if err == nil {
			break
		}
		p.tell(func(c *counters) { c.unremoved++ })
		p.opt.Log.Warn("remove a box", "box", s.box.ID(), "try", try+1, "err", err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil {
		p.stuck = append(p.stuck, &stuck{s, err})
		p.dispatch()
		return
	}
	p.freed(s)
}

// freed gives the place of a box back that is gone. The pool is locked.
func (p *Pool) freed(s *slot) {
	p.count.removed++
	p.used--
	p.memory -= s.memory
	p.dispatch()
}

// stuck is a box that could not be removed. It keeps its place, and is tried again now and
// then and at the end.
type stuck struct {
	*slot
	why error
}

// unstick tries to remove such boxes.
func (p *Pool) unstick(ctx context.Context) {
	p.mu.Lock()
	all := slices.Clone(p.stuck)
	p.mu.Unlock()
	for _, s := range all {
		own, cancel := context.WithTimeout(ctx, p.opt.CloseTime)
		err := s.box.Close(own)
		cancel()
		p.mu.Lock()
		i := slices.Index(p.stuck, s)
		switch {
		case i < 0: // somebody else was quicker
		case err != nil:
			s.why = err
			p.count.unremoved++
		default:
			p.stuck = slices.Delete(p.stuck, i, i+1)
			p.freed(s.slot)
		}
		p.mu.Unlock()
	}
}

// keep looks after idle boxes and sweeps, until the pool ends.
func (p *Pool) keep() {
	swept := time.Time{}
	for {
		if now := time.Now(); now.Sub(swept) >= p.opt.Sweep {
			p.sweep()
			swept = now
		}
		p.mu.Lock()
		wait := p.opt.Probe/2 + time.Duration(p.rand.Int64N(int64(p.opt.Probe)))
		p.mu.Unlock()
		select {
		case <-time.After(wait):
			p.unstick(p.life)
			p.expire()
			p.probe()
		case <-p.life.Done():
			return
		}
	}
}

// sweep removes what dead owners left.
func (p *Pool) sweep() {
	s, ok := p.driver.(backends.Sweeper)
	if !ok {
		return
	}
	n, err := s.Sweep(p.life)
	p.tell(func(c *counters) { c.swept += int64(n) })
	if err != nil && p.life.Err() == nil {
		p.opt.Log.Warn("sweep for what dead owners left", "err", err)
	}
}

// expire removes boxes that were idle for too long or are too old, but the warm ones.
func (p *Pool) expire() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, k := range p.kinds {
		for _, s := range slices.Clone(k.idle) {
			idle := time.Since(s.since) > p.opt.IdleTime && len(k.idle) > p.ready(k)
			if (idle || time.Since(s.born) > p.opt.Age) && p.unlist(s) {
				p.work.Go(func() { p.remove(s) })
			}
		}
	}
	p.dispatch()
	p.tidy()
}

// probe looks at every idle box. One that does not answer is set aside, and removed when
// it stays silent. Boxes in use are never judged by a probe.
func (p *Pool) probe() {
	p.mu.Lock()
	var idle []*slot
	for _, k := range p.kinds {
		idle = append(idle, k.idle...)
	}
	p.mu.Unlock()
	for _, s := range idle {
		if p.life.Err() != nil {
			return
		}
		if p.healthy(s) {
			continue
		}
		p.mu.Lock()
		mine := p.unlist(s) // else somebody leased it meanwhile and will see for himself
		p.mu.Unlock()
		if mine {
			p.work.Go(func() { p.suspect(s) })
		}
	}
}

// suspect gives a silent box more chances.
func (p *Pool) suspect(s *slot) {
	for try := 1; try < probeTries; try++ {
		select {
		case <-time.After(firstDelay << (2 * try)):
		case <-p.life.Done():
			p.remove(s)
			return
		}
		if p.healthy(s) {
			p.mu.Lock()
			p.rest(s)
			p.dispatch()
			p.mu.Unlock()
			return
		}
	}
	p.tell(func(c *counters) { c.quarantined++ })
	p.opt.Log.Warn("an idle box does not answer and is removed", "box", s.box.ID())
	p.remove(s)
}

// healthy asks a box for a file that it does not have.
func (p *Pool) healthy(s *slot) bool {
	ctx, cancel := context.WithTimeout(p.life, probeTime)
	defer cancel()
	_, err := s.box.ReadFile(ctx, probeFile, 1)
	return errors.Is(err, fs.ErrNotExist) || p.life.Err() != nil
}

// adopt takes over boxes of an earlier life of this owner. One that cannot be made clean
// is removed.
func (p *Pool) adopt(ctx context.Context) error {
	a, ok := p.driver.(backends.Adopter)
	if !ok {
		return nil
	}
	found, err := a.Adopt(ctx)
	if err != nil {
		return fmt.Errorf("take over boxes of an earlier start: %w", err)
	}
	for _, f := range found {
		s := &slot{box: f.Sandbox, key: keyOf(f.Spec), memory: f.Spec.Limits.Memory, born: time.Now()}
		fits := p.room(s.memory)
		p.used++
		p.memory += s.memory
		if !fits || !p.fresh(ctx, s) {
			p.remove(s)
			continue
		}
		p.mu.Lock()
		p.kind(s.key, f.Spec).used = time.Now()
		p.rest(s)
		p.count.adopted++
		p.mu.Unlock()
	}
	return nil
}

// fresh resets a box that was found.
func (p *Pool) fresh(ctx context.Context, s *slot) bool {
	r, ok := backends.As[backends.Resetter](s.box)
	if !ok {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, p.opt.CloseTime)
	defer cancel()
	done, err := r.Reset(ctx, backends.ResetFull)
	return err == nil && len(done.Left) == 0
}
