package serve

import (
	"context"
	"fmt"
	"iter"
	"math"
	"time"

	"hermes/datasets"
	"hermes/rollout"
	"hermes/rollout/engine"
	"hermes/trajectory"
)

// jobs are the samples to roll out, as the trainer's queue has room for them. Admission ends
// with either context.
func (s *Server) jobs(admit, stopped context.Context) iter.Seq2[rollout.Job, error] {
	return func(yield func(rollout.Job, error) bool) {
		ctx, cancel := context.WithCancel(admit)
		defer cancel()
		defer context.AfterFunc(stopped, cancel)()
		for {
			list, err := s.next(ctx)
			if err != nil {
				yield(rollout.Job{}, err)
				return
			}
			if list == nil {
				return
			}
			for _, j := range list {
				if !yield(j, nil) {
					return
				}
			}
		}
	}
}

// next waits for room and returns the samples of a group; nil ends admission.
func (s *Server) next(ctx context.Context) ([]rollout.Job, error) {
	for {
		s.mu.Lock()
		list, e, err := s.take()
		wake, done := s.wake, s.done
		s.mu.Unlock()
		if list != nil || err != nil || done {
			return list, err
		}
		if e != nil {
			list, err = s.fresh(ctx, e)
			if list != nil || err != nil {
				return list, err
			}
		}
		select {
		case <-wake:
		case <-ctx.Done():
			return nil, nil
		}
	}
}

// take returns the samples of a group that goes on, or else the environment of which a group
// may begin; both are nil when there is no room. The caller holds mu.
func (s *Server) take() ([]rollout.Job, *env, error) {
	if !s.online || s.done {
		return nil, nil, nil
	}
	for len(s.backlog) > 0 {
		g := s.backlog[0]
		s.backlog = s.backlog[1:]
		if s.groups[g.name] == g {
			list, err := s.launch(g)
			return list, nil, err
		}
	}
	return nil, s.choose(), nil
}

// fresh begins a group of an environment with its next row. The row is read without the lock,
// so that no other goroutine waits for a file or a program. nil: admission has ended meanwhile.
func (s *Server) fresh(ctx context.Context, e *env) ([]rollout.Job, error) {
	for ctx.Err() == nil {
		s.mu.Lock()
		place := e.place.next
		again := e.stale || e.rows == nil
		e.stale = false
		s.mu.Unlock()
		if again {
			e.open(ctx, place.Epoch)
		}
		row, at, err := e.pull(ctx)
		if ctx.Err() != nil {
			break
		}
		if err != nil {
			return nil, err
		}
		s.mu.Lock()
		list, err := s.start(e, row, at)
		s.mu.Unlock()
		if list != nil || err != nil {
			return list, err
		}
	}
	return nil, nil
}

// start begins a group with a row, unless the row is settled already or the trainer has gone
// back while it was read. The caller holds mu.
func (s *Server) start(e *env, row datasets.Row, at Position) ([]rollout.Job, error) {
	if e.stale || !e.place.hand(at) {
		return nil, nil
	}
	g := &group{env: e, row: row, at: at, gen: s.gen, started: time.Now(), step: s.step}
	s.enter(g, s.o.GroupSize+s.o.Rules.Oversample)
	return s.launch(g)
}

// launch hands out the samples of a group. The caller holds mu.
func (s *Server) launch(g *group) ([]rollout.Job, error) {
	list := g.jobs
	g.jobs, g.open = nil, len(list)
	return list, s.plan(len(list))
}

// plan books samples that are about to begin.
func (s *Server) plan(n int) error {
	s.begun += int64(n)
	if s.begun <= s.planned || s.o.Planned == nil {
		return nil
	}
	s.planned = s.begun
	return s.o.Planned(s.planned)
}

// enter names a group and makes n jobs of it.
func (s *Server) enter(g *group, n int) {
	id := g.row.ID
	if len(s.envs) > 1 { // rows of two environments may have the same name
		id = g.env.Name + "/" + id
	}
	visit := g.gen<<8 | g.again
	g.name = fmt.Sprintf("%s@%d.%d", id, g.at.Epoch, visit)
	s.groups[g.name] = g
	first := trajectory.NewKey(id, int(g.at.Epoch), visit, 0)
	toolsets := g.env.Toolsets(engine.DrawRand(first, s.o.Seed))
	for range n {
		key := trajectory.NewKey(id, int(g.at.Epoch), visit, g.sample)
		g.jobs = append(g.jobs, rollout.Job{Row: g.row, Key: key, Group: g.name, Sample: g.sample, Toolsets: toolsets, Seed: key.Seed(s.o.Seed)})
		g.sample++
	}
}

// choose is the environment whose turn it is: of those that have room, the one that is
// furthest behind its weight, counted in groups that were sent or are in flight; nil when
// none has. One of which nothing can be sent, that has its share of the queue or is being
// evaluated does not hold up the others. The caller holds mu.
func (s *Server) choose() *env {
	flying := map[*env]int{}
	for _, g := range s.groups {
		flying[g.env]++
	}
	var best *env
	least := math.Inf(1)
	for _, e := range s.envs {
		if behind := float64(e.sent+e.extra+int64(flying[e])+1) / e.Weight; behind < least && s.room(e, flying[e]) {
			best, least = e, behind
		}
	}
	return best
}

// room reports whether one more group of an environment may begin, of which so many are in
// flight: Atropos' own arithmetic of its workers, with groups in the place of workers.
func (s *Server) room(e *env, own int) bool {
	n, flying := s.o.GroupSize+s.o.Rules.Oversample, len(s.groups)
	most := s.o.Engine.InFlight
	weight := 0.0
	for _, x := range s.envs {
		weight += x.status.Weight
	}
	if weight > 0 && weight < 0.999 { // other processes have their share of the model server
		most = max(n, int(float64(most)*weight))
	}
	if e.evaluating {
		switch s.o.EvalHandling {
		case StopTrain:
			return false
		case LimitTrain:
			most = int(float64(most) * s.o.EvalLimit)
		}
	}
	if flying*n >= 2*most && flying > 0 || most == 0 { // twice: those that wait for their last sample or to be posted count too
		return false
	}
	if s.o.OffPolicy < 0 {
		return true
	}
	posted := 0
	for _, x := range s.envs {
		posted += x.posted // since the status was asked for
	}
	t := throttle{size: s.o.GroupSize, batch: s.batch, offPolicy: s.o.OffPolicy, min: s.o.MinAllocation,
		queue: e.status.Queue + posted, own: e.status.Own + e.posted, largest: e.status.MaxGroup, unallocated: e.status.Unallocated}
	if s.o.MinAllocation == nil {
		own = flying
	}
	return own < t.target()
}

// throttle is what Atropos' environments decide by (the protocol's §6.3 and §6.4).
type throttle struct {
	size, batch, offPolicy int
	min                    *float64
	queue, own, largest    int // groups, groups, sequences
	unallocated            float64
}

// target is how many groups may be in flight.
func (t throttle) target() int {
	if t.batch <= 0 {
		return 0
	}
	largest, minimum := max(t.largest, t.size), 0.0
	if t.min != nil {
		minimum = *t.min
	}
	ahead := int(math.Ceil(minimum * float64(t.batch) * float64(t.offPolicy) / float64(largest))) // packs of the largest size that the minimum wants
	each := largest / t.size                                                                      // our groups in such a pack
	if t.queue*t.size >= t.offPolicy*t.batch && (t.min == nil || ahead*each-t.own <= 0) {
		return 0
	}
	derived := int(float64(t.batch) * (t.unallocated + minimum))
	target := t.offPolicy*derived/t.size - t.queue
	if t.min != nil {
		wanted := ((ahead+each)*largest - largest*t.own/each + t.size - 1) / t.size
		target = max(target, wanted, 0)
	}
	if t.queue == 0 {
		target = max(target, 1)
	}
	return target
}
