package ledger

import (
	"slices"

	"hermes/internal/atropos/pack"
)

// Forming is the forming of batches from the queue as it was at a moment. A queue of a
// million sequences takes tens of milliseconds, so that it is done while the state goes on:
// groups may be posted meanwhile, which stay behind those that it has looked at.
type Forming struct {
	shape    uint64
	queue    []*Ref
	batch    int
	minimums []pack.Minimum
	first    uint64 // number of its first batch

	batches []*Batch
	rest    []*Ref // of the queue
	taken   map[alike]int
	events  []byte
	starved int64
}

// alike are groups that count the same in the tally.
type alike struct {
	key       envKey
	sequences int
}

// forming is the forming that the state needs now. Of the queue it keeps the slice: what it
// holds does not change until the state is reshaped.
func (s *State) forming() *Forming {
	f := &Forming{shape: s.shape, queue: s.queue[:len(s.queue):len(s.queue)], batch: int(s.Reg.Batch), first: s.NextBatch}
	for i, e := range s.Envs {
		if e.Minimum != nil && !e.Gone {
			f.minimums = append(f.minimums, pack.Minimum{Env: int64(i), Share: *e.Minimum})
		}
	}
	return f
}

// reshaped says that what is formed of the queue as it was would not hold any more.
func (s *State) reshaped() {
	s.tried = false
	s.shape++
}

// spareGroups is room for groups that are posted during a forming.
const spareGroups = 256

// Work forms all batches that the queue gives. It reads nothing that the state changes.
func (f *Forming) Work() {
	items := make([]pack.Item, len(f.queue))
	for i, r := range f.queue {
		items[i] = pack.Item{Size: r.Sequences, Env: r.Env, HasEnv: r.HasEnv}
	}
	var formed [][]int
	formed, f.starved = pack.WithMinimums(items, f.batch, f.minimums)
	if len(formed) == 0 {
		return
	}
	gone := make([]bool, len(f.queue))
	list := make([]batchRefs, len(formed))
	f.taken = map[alike]int{}
	n := 0
	for k, indices := range formed {
		list[k] = batchRefs{f.first + uint64(k), make([]*Ref, len(indices))}
		for i, at := range indices {
			r := f.queue[at]
			list[k].groups[i], gone[at] = r, true
			f.taken[alike{r.key(), r.Sequences}]++
		}
		n += len(indices)
		f.batches = append(f.batches, &Batch{ID: list[k].id, Groups: list[k].groups})
	}
	f.rest = make([]*Ref, 0, len(f.queue)-n+spareGroups)
	for i, r := range f.queue {
		if !gone[i] {
			f.rest = append(f.rest, r)
		}
	}
	f.events = appendBatches(nil, entryFormed, list)
}

// adopt takes over what was formed: as many assignments as there are batches and groups
// that were posted meanwhile. Each batch counts as a step.
func (s *State) adopt(f *Forming) {
	since := s.queue[len(f.queue):]
	s.tried = len(since) == 0
	s.starved = f.starved
	s.stall = ""
	if len(f.batches) == 0 {
		return
	}
	s.shape++
	s.queue = append(f.rest, since...)
	for a, n := range f.taken {
		s.tally.add(&Ref{Sequences: a.sequences, Env: a.key.env, HasEnv: a.key.has}, -n)
	}
	s.ready = append(s.ready, f.batches...)
	s.events = append(s.events, f.events...)
	s.NextBatch += uint64(len(f.batches))
	s.Step += int64(len(f.batches))
}

// formed moves groups out of the queue into batches, as a log says.
func (s *State) formed(list []batchRefs) {
	for _, e := range list {
		for _, r := range e.groups {
			r.taken = true
			s.tally.add(r, -1)
		}
		s.ready = append(s.ready, &Batch{ID: e.id, Groups: e.groups})
		s.NextBatch = max(s.NextBatch, e.id+1)
	}
	s.queue = slices.DeleteFunc(s.queue, func(r *Ref) bool { return r.taken })
}
