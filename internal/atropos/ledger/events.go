package ledger

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"

	"hermes/internal/atropos/store"
)

// A frame of the log is a row of entries: a letter, the length as a varint, the body.
const (
	entryEvent   = 'J' // event as JSON
	entryGroup   = 'G' // a group, in varints
	entryFormed  = 'F' // batches that were formed, in varints
	entryBatches = 'B' // batches that are there: in snapshots
	entryKey     = 'K' // an idempotency key and its answer
)

// The places of a group of the log.
const (
	placeRule  = iota // where the rules put it: it has just been posted
	placeQueue        // the others are in snapshots
	placeBuffer
	placeBatch
	placeLatest
)

// event is a change that is not a group.
type event struct {
	Op    string        `json:"op"`
	ID    int64         `json:"id,omitempty"`
	Size  int64         `json:"size,omitempty"`
	Reg   *Registration `json:"reg,omitempty"`
	Env   *Env          `json:"env,omitempty"`
	State *settings     `json:"state,omitempty"`
}

// batchRefs are the groups of a batch.
type batchRefs struct {
	id     uint64
	groups []*Ref
}

// appendBatches writes batches: the number of each, how many groups it has, and how far
// the number of each is from the one before.
func appendBatches(b []byte, kind byte, list []batchRefs) []byte {
	n := 0
	for _, e := range list {
		n += 12 + 2*len(e.groups)
	}
	body := make([]byte, 0, n)
	last := uint64(0)
	for _, e := range list {
		body = binary.AppendUvarint(body, e.id)
		body = binary.AppendUvarint(body, uint64(len(e.groups)))
		for _, r := range e.groups {
			body = binary.AppendVarint(body, int64(r.ID-last))
			last = r.ID
		}
	}
	return appendEntry(b, kind, body)
}

// readBatches finds the groups of batches.
func readBatches(b []byte, byID map[uint64]*Ref) (list []batchRefs, err error) {
	last := uint64(0)
	for len(b) > 0 {
		id, w := binary.Uvarint(b)
		n, v := binary.Uvarint(b[max(w, 0):])
		if w <= 0 || v <= 0 || n > uint64(len(b)) {
			return nil, errEntry
		}
		b = b[w+v:]
		e := batchRefs{id, make([]*Ref, n)}
		for i := range e.groups {
			step, w := binary.Varint(b)
			if w <= 0 {
				return nil, errEntry
			}
			b = b[w:]
			last += uint64(step)
			e.groups[i] = byID[last]
			if e.groups[i] == nil {
				return nil, fmt.Errorf("batch %d: group %d is not there", id, last)
			}
		}
		list = append(list, e)
	}
	return list, nil
}

func appendEntry(b []byte, kind byte, body []byte) []byte {
	b = append(b, kind)
	b = binary.AppendUvarint(b, uint64(len(body)))
	return append(b, body...)
}

// write logs an event.
func (s *State) write(e event) { s.events = appendEvent(s.events, e) }

func appendEvent(b []byte, e event) []byte {
	body, err := json.Marshal(e)
	if err != nil { // weights are finite in JSON; a strict state may hold others
		body, err = json.Marshal(event{Op: e.Op, ID: e.ID, Env: finite(e.Env)})
		if err != nil {
			panic(err)
		}
	}
	return appendEntry(b, entryEvent, body)
}

// finite is an environment whose numbers JSON can say.
func finite(e *Env) *Env {
	if e == nil {
		return nil
	}
	c := *e
	c.Weight = min(max(c.Weight, -1e300), 1e300)
	if c.Weight != c.Weight {
		c.Weight = 0
	}
	c.Minimum = nil
	return &c
}

func (s *State) writeGroup(r *Ref, place byte) {
	var room [96]byte
	s.events = appendEntry(s.events, entryGroup, appendGroup(room[:0], r, place))
}

func appendGroup(b []byte, r *Ref, place byte) []byte {
	flags := place << 2
	if r.HasEnv {
		flags |= 1
	}
	if r.NonFinite {
		flags |= 2
	}
	b = append(b, flags)
	for _, v := range [...]uint64{r.ID, uint64(r.At.Segment), uint64(r.At.Sum), uint64(r.At.Offset), uint64(r.At.Size), uint64(r.Sequences), uint64(r.Tokens)} {
		b = binary.AppendUvarint(b, v)
	}
	return binary.AppendVarint(b, r.Env)
}

var errEntry = errors.New("an entry cannot be read")

func readGroup(b []byte) (r Ref, place byte, err error) {
	if len(b) == 0 {
		return r, 0, errEntry
	}
	place = b[0] >> 2
	r.HasEnv = b[0]&1 != 0
	r.NonFinite = b[0]&2 != 0
	b = b[1:]
	var v [7]uint64
	for i := range v {
		n := 0
		v[i], n = binary.Uvarint(b)
		if n <= 0 {
			return r, 0, errEntry
		}
		b = b[n:]
	}
	env, n := binary.Varint(b)
	if n <= 0 {
		return r, 0, errEntry
	}
	r.ID = v[0]
	r.Sequences = int(v[5])
	r.Tokens = int(v[6])
	r.Env = env
	r.At = store.Pos{Segment: uint32(v[1]), Sum: uint32(v[2]), Offset: int64(v[3]), Size: int64(v[4])}
	return r, place, nil
}

// Replay applies one frame of the log. After the last one comes [State.Finish].
func (s *State) Replay(frame []byte) error {
	if s.byID == nil {
		s.byID = map[uint64]*Ref{}
	}
	for len(frame) > 0 {
		n, width := binary.Uvarint(frame[1:])
		if width <= 0 || n > uint64(len(frame)-1-width) {
			return errEntry
		}
		kind, body := frame[0], frame[1+width:1+width+int(n)]
		frame = frame[1+width+int(n):]
		var err error
		switch kind {
		case entryGroup:
			err = s.replayGroup(body)
		case entryFormed, entryBatches:
			var list []batchRefs
			list, err = readBatches(body, s.byID)
			if err == nil {
				s.formed(list)
			}
			if kind == entryFormed {
				s.Step += int64(len(list))
			}
		case entryKey:
			err = s.keys.replay(body)
		case entryEvent:
			var e event
			if err = json.Unmarshal(body, &e); err == nil {
				err = s.replay(e)
			}
		default:
			err = fmt.Errorf("entry %q is not known: the directory was written by another version", kind)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *State) replayGroup(body []byte) error {
	r, place, err := readGroup(body)
	if err != nil {
		return err
	}
	s.byID[r.ID] = &r
	switch place {
	case placeRule:
		s.post(&r)
	case placeQueue:
		s.keep(&r)
		s.queue = append(s.queue, &r)
		s.tally.add(&r, 1)
	case placeBuffer:
		s.keep(&r)
		s.buffer[r.Env] = append(s.buffer[r.Env], &r)
	case placeBatch:
		s.keep(&r)
		s.tally.add(&r, 1) // the batch takes it out again
	case placeLatest:
		s.hold(&r)
	default:
		return errEntry
	}
	return nil
}

func (s *State) replay(e event) error {
	switch e.Op {
	case "state":
		if e.State == nil {
			return errEntry
		}
		s.settings = *e.State
	case "register":
		if e.Reg == nil {
			return errEntry
		}
		s.register(*e.Reg)
	case "again":
		if e.Reg == nil {
			return errEntry
		}
		s.again(*e.Reg)
	case "rejoin":
		if e.Env == nil || s.env(e.ID) == nil {
			return errEntry
		}
		s.Envs[e.ID] = e.Env
		s.reshaped()
	case "join":
		if e.Env == nil {
			return errEntry
		}
		s.Envs = append(s.Envs, e.Env)
		s.reshaped()
	case "leave", "grow":
		env := s.env(e.ID)
		if env == nil {
			return errEntry
		}
		if e.Op == "leave" {
			env.Gone = true
		} else {
			env.GroupSize = e.Size
		}
	case "reset":
		s.reset()
	case "start":
		s.Started = true
	case "done", "delivered":
		for _, b := range s.ready {
			if b.ID == uint64(e.ID) {
				s.done(b)
				break
			}
		}
		if e.Op == "delivered" {
			s.InHand = uint64(e.ID)
		}
	case "asked":
		s.InHand = 0
	case "bury":
		s.bury()
	case "spoil":
		s.spoil(uint64(e.ID), uint64(e.Size))
	case "latest":
		if r := s.byID[uint64(e.ID)]; r != nil && s.latest != r {
			s.hold(r)
		}
	default:
		return fmt.Errorf("event %q is not known: the directory was written by another version", e.Op)
	}
	return nil
}

// Finish ends a replay. use is called for each group whose bytes must be kept.
func (s *State) Finish(use func(store.Pos)) {
	for _, r := range s.byID {
		use(r.At)
	}
	s.byID = nil
	s.events = nil
	s.freed = nil
	s.tried = false
}
