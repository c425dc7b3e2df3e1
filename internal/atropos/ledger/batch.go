package ledger

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// ErrUnregistered is a question for a batch before any trainer has registered.
var ErrUnregistered = errors.New("no trainer is registered")

// Next hands out a batch, nil when there is none. It is leased: the caller says with
// [State.Delivered], [State.Returned] or [State.Await] what became of it. With a holder the
// batch that this one has not acknowledged yet comes again.
//
// Where batches have to be formed first, todo is not nil: the caller does its
// [Forming.Work], without holding the state, and comes again with it as done.
//
// The first call of a run is what lets environments register. A [Refused] error says why
// no batch will ever be there unless something is changed.
func (s *State) Next(holder string, now time.Time, done *Forming) (b *Batch, todo *Forming, err error) {
	if !s.Known || !s.opt.Strict && !s.Active {
		return nil, nil, ErrUnregistered
	}
	if !s.Started {
		s.Started = true
		s.write(event{Op: "start"})
	}
	s.expire(now)
	if holder == "" && s.InHand != 0 {
		s.InHand = 0
		s.write(event{Op: "asked"})
	}
	valid := done != nil && done.shape == s.shape
	if valid {
		s.adopt(done)
	}
	if holder != "" {
		if b := s.heldBy(holder); b != nil {
			s.Totals.Again++
			b.writers++
			return b, nil, nil
		}
	}
	if len(s.ready) == 0 {
		switch {
		case s.opt.Strict && !s.HasQueue:
			return nil, nil, fmt.Errorf("there is no queue after a reset: %w", ErrState)
		case !valid && !s.tried:
			return nil, s.forming(), nil
		}
		s.stall = s.diagnose(now, s.starved)
		if s.stall != "" && !s.opt.Strict {
			return nil, nil, &Refused{s.stall}
		}
		return nil, nil, nil
	}
	at := len(s.ready) - 1
	if s.opt.FIFO {
		at = 0
	}
	b = s.ready[at]
	s.ready = slices.Delete(s.ready, at, at+1)
	s.out[b.ID] = b
	// Its client may have the last byte, and ask again, before we know that it has.
	b.holder, b.writers = holder, 1
	return b, nil, nil
}

func (s *State) heldBy(holder string) *Batch {
	for _, b := range s.out {
		if b.holder == holder {
			return b
		}
	}
	return nil
}

// expire takes back batches whose holders have not acknowledged them in time.
func (s *State) expire(now time.Time) {
	for id, b := range s.out {
		if b.writers == 0 && now.After(b.until) {
			s.takeBack(id, b)
		}
	}
}

// Delivered ends a batch whose last byte has gone out.
func (s *State) Delivered(id uint64) {
	if b := s.out[id]; b != nil {
		s.done(b)
		s.InHand = id
		s.write(event{Op: "delivered", ID: int64(id)})
	}
}

func (s *State) done(b *Batch) {
	delete(s.out, b.ID)
	s.ready = slices.DeleteFunc(s.ready, func(o *Batch) bool { return o == b })
	s.Totals.Batches++
	for _, r := range b.Groups {
		s.Totals.Delivered += int64(r.Sequences)
		s.free(r)
	}
}

// Returned takes a batch back that was not delivered whole; it is the next to go out.
func (s *State) Returned(id uint64) {
	b := s.out[id]
	if b == nil || b.writers == 0 {
		return
	}
	b.writers--
	if b.writers == 0 && b.until.IsZero() { // else its holder has it, or is being sent it
		s.takeBack(id, b)
	}
}

func (s *State) takeBack(id uint64, b *Batch) {
	delete(s.out, id)
	b.holder, b.until = "", time.Time{}
	s.Totals.Again++
	if s.opt.FIFO {
		s.ready = slices.Insert(s.ready, 0, b)
	} else {
		s.ready = append(s.ready, b)
	}
}

// Await leases a batch that has gone out to a holder until it acknowledges.
func (s *State) Await(id uint64, holder string, now time.Time) {
	if b := s.out[id]; b != nil && b.writers > 0 {
		b.writers--
		b.holder, b.until = holder, now.Add(s.opt.Lease)
	}
}

// Acknowledge ends a batch. Doing so again is not an error: an answer may have been lost.
func (s *State) Acknowledge(id uint64) error {
	if id == 0 || id >= s.NextBatch {
		return refuse("batch %d was never handed out", id)
	}
	b := s.out[id]
	for _, o := range s.ready { // its lease has ended, or the server was started again
		if o.ID == id {
			b = o
		}
	}
	if b != nil {
		s.done(b)
		s.write(event{Op: "done", ID: int64(id)})
	}
	return nil
}

// Spoil drops a group that cannot be read any more; the others of its batch are queued
// again, in front.
func (s *State) Spoil(id, group uint64) {
	if s.out[id] != nil {
		s.spoil(id, group)
		s.write(event{Op: "spoil", ID: int64(id), Size: int64(group)})
	}
}

func (s *State) spoil(id, group uint64) {
	b := s.out[id]
	delete(s.out, id)
	if b == nil {
		i := slices.IndexFunc(s.ready, func(o *Batch) bool { return o.ID == id })
		if i < 0 {
			return
		}
		b = s.ready[i]
		s.ready = slices.Delete(s.ready, i, i+1)
	}
	var rest []*Ref
	for _, r := range b.Groups {
		if r.ID == group {
			s.Totals.Discarded++
			s.free(r)
		} else {
			r.taken = false
			rest = append(rest, r)
			s.tally.add(r, 1)
		}
	}
	s.queue = append(rest, s.queue...)
	s.reshaped()
}

// diagnose says why a queue that holds enough for a batch gives none, "" when waiting
// helps. starved is the environment with a minimum that has no complete pack.
func (s *State) diagnose(now time.Time, starved int64) string {
	batch := int(s.Reg.Batch)
	if text := s.bufferStall(); text != "" {
		return text
	}
	m := largest(s.tally.sizes)
	if m == 0 || s.tally.total < batch+m {
		return ""
	}
	if starved >= 0 {
		e := s.env(starved)
		if n := s.tally.of(envKey{starved, true}); n.sequences >= m {
			return fmt.Sprintf("environment %s has a min_batch_allocation and %d sequences queued, but its groups make no pack of %d, the largest group size; give all environments group sizes that divide it", e.Name, n.sequences, m)
		}
		if silent := now.Sub(e.seen); !e.seen.IsZero() && silent > s.opt.Silent {
			return fmt.Sprintf("environment %s has a min_batch_allocation of %v but has not been heard of for %s, and no batch goes out without it; start it again (hermes env serve with the same --run takes its place), or POST /disconnect-env {\"env_id\": %d}", e.Name, *e.Minimum, silent.Round(time.Second), starved)
		}
		return ""
	}
	if batch%m != 0 {
		return fmt.Sprintf("batch_size %d is not a multiple of the largest group size in the queue, %d, so batches do not fill; GET /reset_data and register a multiple, or send groups whose size divides %d", batch, m, batch)
	}
	var odd []string
	for size, n := range s.tally.sizes {
		if size == 0 || m%size != 0 {
			odd = append(odd, fmt.Sprintf("%d of size %d", n, size))
		}
	}
	if len(odd) > 0 {
		slices.Sort(odd)
		return fmt.Sprintf("the queue holds %d sequences but no batch of %d can be made of them: groups (%s) do not divide the largest size, %d; choose group sizes that divide each other", s.tally.total, batch, strings.Join(odd, ", "), m)
	}
	return ""
}
