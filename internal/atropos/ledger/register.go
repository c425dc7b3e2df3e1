package ledger

import (
	"errors"
	"fmt"
	"math"
	"time"
)

// ErrState is a request that Atropos' server answers with 500, its state being such that
// the request makes no sense.
var ErrState = errors.New("not registered")

// Refused is a request that would stall the training without a word; it says what to
// change. It does not come from a strict state.
type Refused struct{ Text string }

func (r *Refused) Error() string { return r.Text }

func refuse(format string, args ...any) error { return &Refused{fmt.Sprintf(format, args...)} }

// Register is a trainer's.
func (s *State) Register(r Registration) error {
	if s.opt.Strict {
		s.succeed(r.Start)
		if !s.HasQueue {
			s.register(r)
		}
		return nil
	}
	if s.Active {
		for _, x := range []struct {
			name     string
			had, has int64
		}{{"batch_size", s.Reg.Batch, r.Batch}, {"max_token_len", s.Reg.MaxTokens, r.MaxTokens}} {
			if x.had != x.has {
				return refuse("a trainer is registered with %s %d and this one wants %d; GET /reset_data first to begin a new run, or register with %d to go on with the one that is stored",
					x.name, x.had, x.has, x.had)
			}
		}
		s.succeed(r.Start)
		r.Start = s.Reg.Start
		if r != s.Reg { // it has been started again, goes on, and may want more steps or another folder
			s.again(r)
			s.write(event{Op: "again", Reg: &r})
		}
		return nil
	}
	if r.Batch <= 0 {
		return refuse("batch_size %d: no batch could ever be formed; it is the number of sequences of a batch", r.Batch)
	}
	s.register(r)
	return nil
}

// succeed notes that a trainer takes the place of one before it and begins at a step.
func (s *State) succeed(step int64) {
	switch {
	case s.InHand == 0:
	case step >= s.handed(): // its checkpoint is behind that batch
		s.InHand = 0
		s.write(event{Op: "asked"})
	default:
		s.bury()
		s.write(event{Op: "bury"})
	}
}

// handed is the step of a trainer that has trained on all batches that were handed out.
func (s *State) handed() int64 { return s.Step - int64(len(s.ready)+len(s.out)) }

// bury counts the batch of a trainer that does not acknowledge and did not ask for another
// before it, or its successor, registered or reset the server. The server cannot know whether
// the batch was trained on, so the count is an upper bound: one for each death or new run, and
// none when the trainer had come to its last step.
func (s *State) bury() {
	if s.Reg.Steps <= 0 || s.handed() < s.Reg.Steps {
		s.Totals.Lost++
	}
	s.InHand = 0
}

func (s *State) again(r Registration) { s.Reg, s.Names = r, true }

func (s *State) register(r Registration) {
	s.Known = true
	s.HasQueue = true
	s.Active = true
	s.Started = false
	s.Names = true
	s.Reg = r
	s.Step = r.Start
	s.Envs = nil
	s.stall = ""
	s.reshaped()
	s.write(event{Op: "register", Reg: &r})
}

// Join is an environment's registration. ok is false while no trainer has asked for a
// batch. One of an instance that is known takes its place again, number and name, so that
// the dead have no share of weights and minimums.
func (s *State) Join(e Env, now time.Time) (id int64, joined *Env, ok bool, err error) {
	if !s.Started {
		return 0, nil, false, nil
	}
	if !s.opt.Strict && s.Active {
		switch batch := s.Reg.Batch; {
		case e.GroupSize <= 0:
			err = refuse("group_size %d: it is the number of sequences of a group and must be at least 1", e.GroupSize)
		case e.GroupSize > batch:
			err = refuse("group_size %d is larger than the trainer's batch_size %d, so no batch could hold a group; lower --env.group_size or raise the trainer's batch size", e.GroupSize, batch)
		case batch%e.GroupSize != 0:
			err = refuse("the trainer's batch_size %d is not a multiple of group_size %d, so its batches would never fill; choose a group size that divides it", batch, e.GroupSize)
		case math.IsNaN(e.Weight) || math.IsInf(e.Weight, 0):
			err = refuse("weight %v is not a finite number", e.Weight)
		case e.Minimum != nil && !(*e.Minimum >= 0 && *e.Minimum <= 1):
			err = refuse("min_batch_allocation %v is not in 0…1, the share of each batch", *e.Minimum)
		}
		if err != nil {
			return 0, nil, false, err
		}
	}
	e.Gone, e.seen = false, now
	same := 0
	for i, o := range s.Envs {
		if o.Desired != e.Desired {
			continue
		}
		same++
		if e.Instance != "" && o.Instance == e.Instance && !s.opt.Strict { // it was started again
			e.Name = o.Name
			s.Envs[i] = &e
			s.reshaped()
			s.write(event{Op: "rejoin", ID: int64(i), Env: &e})
			return int64(i), &e, true, nil
		}
	}
	e.Name = fmt.Sprintf("%s_%d", e.Desired, same)
	s.Envs = append(s.Envs, &e)
	s.reshaped()
	s.write(event{Op: "join", Env: &e})
	return int64(len(s.Envs) - 1), &e, true, nil
}

// Leave marks an environment as gone; its data stay. The error's text is Python's, as
// Atropos' server passes it on.
func (s *State) Leave(id int64) error {
	if !s.Known {
		return errors.New("'State' object has no attribute 'envs'")
	}
	e := s.env(id)
	if e == nil {
		return errors.New("list index out of range")
	}
	if !e.Gone {
		e.Gone = true
		s.reshaped()
		s.write(event{Op: "leave", ID: id})
	}
	return nil
}

// env is an environment by its number; a negative one counts from the end, as in Python.
func (s *State) env(id int64) *Env {
	if id < 0 {
		id += int64(len(s.Envs))
	}
	if id < 0 || id >= int64(len(s.Envs)) {
		return nil
	}
	return s.Envs[id]
}

// Reset forgets the run.
func (s *State) Reset() {
	if s.opt.Strict && !s.HasQueue {
		return
	}
	s.reset()
	s.write(event{Op: "reset"})
}

func (s *State) reset() {
	if s.InHand != 0 {
		s.bury()
	}
	for _, list := range s.lists() {
		s.Totals.Discarded += int64(len(list))
		for _, r := range list {
			s.free(r)
		}
	}
	s.queue = nil
	s.ready = nil
	s.Envs = nil
	clear(s.buffer)
	clear(s.out)
	s.tally.clear()
	s.Known = true
	s.HasQueue = false
	s.Active = false
	s.Started = false
	s.Names = false
	s.stall = ""
	s.reshaped()
	s.Reg.Batch = -1
	s.Reg.Steps = -1
	s.Step = 0
}

// lists are all lists that groups stand in.
func (s *State) lists() [][]*Ref {
	all := [][]*Ref{s.queue}
	for _, l := range s.buffer {
		all = append(all, l)
	}
	for _, b := range s.ready {
		all = append(all, b.Groups)
	}
	for _, b := range s.out {
		all = append(all, b.Groups)
	}
	return all
}

// EnvStatus is the answer to an environment that asks whether to go on.
type EnvStatus struct {
	Step        int64   `json:"current_step"`
	Queue       int64   `json:"queue_size"`
	Unallocated float64 `json:"unallocated_fraction"`
	Own         int64   `json:"self_queue_size"`
	Largest     int64   `json:"max_group_size"`
	Weight      float64 `json:"env_weight"`
}

// minWeight keeps an environment from being starved altogether.
const minWeight = 0.01

// Status answers an environment. Its group size grows to its largest group in the queue.
func (s *State) Status(id int64, now time.Time) (st EnvStatus, err error) {
	e := s.env(id)
	if e == nil {
		return st, fmt.Errorf("environment %d is %w (%d are)", id, ErrState, len(s.Envs))
	}
	e.seen = now
	var total, allocated float64
	minimum := map[envKey]int64{}
	for i, o := range s.Envs {
		if o.Gone {
			continue
		}
		total += float64(o.MaxContext) * max(0, o.Weight)
		if o.Minimum != nil {
			allocated += *o.Minimum
			minimum[envKey{int64(i), true}] = int64(float64(s.Reg.Batch) * *o.Minimum)
		}
	}
	if total == 0 && s.opt.Strict {
		return st, fmt.Errorf("the weights of all connected environments are 0: %w", ErrState)
	}
	st.Weight = minWeight
	if total != 0 {
		st.Weight = max(minWeight, float64(e.MaxContext)*e.Weight/total)
	}
	own := s.tally.of(envKey{id, true})
	if n := int64(largest(own.sizes)); n > e.GroupSize {
		e.GroupSize = n
		s.write(event{Op: "grow", ID: id, Size: n})
	}
	m := int64(max(1, largest(s.tally.sizes)))
	var others int64
	if m > 1 {
		for k, t := range s.tally.envs {
			if k != (envKey{id, true}) {
				n := int64(t.sequences)
				others += max(0, (n+m-1)/m*m-minimum[k])
			}
		}
	}
	size := e.GroupSize
	if size == 0 { // Atropos' server divides by it
		if s.opt.Strict {
			return st, fmt.Errorf("group size 0: %w", ErrState)
		}
		size = 1
	}
	st.Step = s.Step
	st.Largest = m
	st.Unallocated = 1 - min(allocated, 1)
	st.Queue, st.Own = (int64(own.sequences)+others)/size, int64(own.sequences)/size
	return st, nil
}
