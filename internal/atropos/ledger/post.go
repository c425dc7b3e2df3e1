package ledger

import (
	"fmt"
	"time"

	"hermes/internal/atropos/pack"
)

// Placed is what became of a posted group.
type Placed struct {
	Buffered bool
	Left     int // sequences that wait in the buffer of its environment
}

// mostTried bounds the steps in which groups that add up are looked for, a few for each
// sequence of the wanted sum and each group that waits.
const mostTried = 1 << 18

func sequences(list []*Ref) (n int64) {
	for _, r := range list {
		n += int64(r.Sequences)
	}
	return n
}

// Check refuses a group that could never leave the queue. A strict state takes all.
func (s *State) Check(r *Ref) error {
	if s.opt.Strict || !s.Active {
		return nil
	}
	batch := s.Reg.Batch
	if int64(r.Sequences) > batch {
		return refuse("a group of %d sequences is larger than the trainer's batch_size %d, so no batch could hold it; lower the group size or raise the trainer's batch size", r.Sequences, batch)
	}
	if e := s.ofGroup(r); e != nil {
		if int64(r.Sequences) > e.GroupSize {
			return refuse("a group of %d sequences from environment %s, which registered group_size %d, would wait for ever; send groups of at most %d or register with another size", r.Sequences, e.Name, e.GroupSize, e.GroupSize)
		}
		list := s.buffer[r.Env]
		if int64(r.Sequences) != e.GroupSize && int64(len(list))*e.GroupSize > mostTried && sequences(list) >= 2*e.GroupSize {
			return refuse("%d groups of environment %s wait for others, and their sizes do not add up to its group_size %d: no more of them are taken; send groups of %d", len(list), e.Name, e.GroupSize, e.GroupSize)
		}
		return nil
	}
	if !r.HasEnv {
		for _, e := range s.Envs {
			if e.Minimum != nil && !e.Gone {
				return refuse("env_id is null, and environment %s has a min_batch_allocation: groups without env_id never come into a batch then; send the env_id that /register-env gave", e.Name)
			}
		}
	}
	return nil
}

// ofGroup is the registered environment of a group, nil for none. A negative number
// counts from the end.
func (s *State) ofGroup(r *Ref) *Env {
	if !r.HasEnv || r.Env >= int64(len(s.Envs)) {
		return nil
	}
	return s.env(r.Env)
}

// Post takes a group whose bytes are in the store.
func (s *State) Post(r Ref, now time.Time) Placed {
	r.ID = s.NextGroup
	if e := s.ofGroup(&r); e != nil {
		e.seen = now
	}
	s.writeGroup(&r, placeRule)
	return s.post(&r)
}

func (s *State) post(r *Ref) Placed {
	s.NextGroup = max(s.NextGroup, r.ID+1)
	s.HasQueue, s.tried = true, false
	s.Totals.Groups++
	s.Totals.Sequences += int64(r.Sequences)
	s.Totals.Tokens += int64(r.Tokens)
	s.keep(r)
	e := s.ofGroup(r)
	if e == nil || int64(r.Sequences) == e.GroupSize {
		s.enqueue(r)
		return Placed{}
	}
	list := append(s.buffer[r.Env], r)
	sizes := make([]int, len(list))
	left := 0
	for i, o := range list {
		sizes[i] = o.Sequences
		left += o.Sequences
	}
	var take []int
	if int64(left) >= e.GroupSize {
		take = pack.Subset(sizes, int(e.GroupSize))
	}
	rest := list[:0:0]
	for i, o := range list {
		if len(take) > 0 && take[0] == i {
			take = take[1:]
			s.enqueue(o)
			left -= o.Sequences
		} else {
			rest = append(rest, o)
		}
	}
	s.buffer[r.Env] = rest
	return Placed{Buffered: true, Left: left}
}

func (s *State) enqueue(r *Ref) {
	s.queue = append(s.queue, r)
	s.tally.add(r, 1)
	s.hold(r)
}

// hold makes a group the latest, which stays readable after its batch is delivered.
func (s *State) hold(r *Ref) {
	r.uses++
	if s.latest != nil {
		s.release(s.latest)
	}
	s.latest = r
}

// keep counts a group that is new in the lists.
func (s *State) keep(r *Ref) {
	r.uses++
	s.bytes += r.At.Size
	s.kept++
}

// free takes a group out of the lists.
func (s *State) free(r *Ref) {
	s.bytes -= r.At.Size
	s.kept--
	s.release(r)
}

func (s *State) release(r *Ref) {
	r.uses--
	if r.uses == 0 {
		s.freed = append(s.freed, r.At)
		delete(s.byID, r.ID)
	}
}

// bufferStall finds an environment whose groups do not add up.
func (s *State) bufferStall() string {
	for id, list := range s.buffer {
		e := s.env(id)
		n := sequences(list)
		if e != nil && e.GroupSize > 0 && n >= 2*e.GroupSize {
			return fmt.Sprintf("environment %s registered group_size %d, but %d groups of it with %d sequences do not add up to that; have it send groups whose sizes do", e.Name, e.GroupSize, len(list), n)
		}
	}
	return ""
}
