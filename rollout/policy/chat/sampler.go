package chat

import (
	"context"
	"errors"
	"fmt"
	"time"

	"hermes/rollout/policy"
	"hermes/rollout/policy/wire"
	"hermes/trajectory"
)

// sampler asks for one rollout. It is used by one goroutine at a time.
type sampler struct {
	p     *chat
	o     policy.Options
	tools []trajectory.ToolSpec
	key   string
	route *wire.Route
	enc   encoder
	body  conversation
	heads *heads
	turn  int // answers so far, abandoned ones too: equal requests of different turns differ
	noted bool
	blind int                    // replaced images that a note has named
	look  func(raw []byte) error // at each whole answer, within the attempt; may be nil
}

// Counts tells the bytes that were encoded and sent.
func (s *sampler) Counts() policy.Counts {
	return policy.Counts{Encoded: s.body.bytes, Sent: s.body.sent.Load()}
}

// Close gives the sampler's memory back.
func (s *sampler) Close() error {
	s.body.msgs, s.body.at, s.body.sum, s.heads = nil, nil, nil, nil
	return nil
}

// Next asks for the next turn.
func (s *sampler) Next(ctx context.Context, p trajectory.Prefix, pending []trajectory.Message, on func(policy.Chunk)) (trajectory.Turn, error) {
	got, err := s.get(ctx, p, pending, on, false)
	if err != nil {
		return trajectory.Turn{}, err
	}
	return s.finish(got, pending)
}

// Stored answers from the tape or not at all: wire.ErrNotTaped.
func (s *sampler) Stored(ctx context.Context, p trajectory.Prefix, pending []trajectory.Message, on func(policy.Chunk)) (trajectory.Turn, error) {
	got, err := s.get(ctx, p, pending, on, true)
	if err != nil {
		return trajectory.Turn{}, err
	}
	return s.finish(got, pending)
}

// gotten is an answer and how it was had.
type gotten struct {
	*answer
	took     time.Duration
	replayed bool
	cut      bool // broken off by the caller
}

// get asks until there is an answer.
func (s *sampler) get(ctx context.Context, p trajectory.Prefix, pending []trajectory.Message, on func(policy.Chunk), taped bool) (gotten, error) {
	if s.body.sum == nil {
		return gotten{}, errors.New("the sampler is closed")
	}
	if err := s.body.extend(p, pending, &s.enc); err != nil {
		return gotten{}, err
	}
	s.tellChanged()
	stream := s.p.o.Stream || on != nil
	r := s.request(stream)
	r.Taped = taped
	var a *answer
	var began time.Time // of the last attempt: waiting and retries are not the model's time
	got, err := s.p.w.Do(ctx, r, func(ctx context.Context, d wire.Doer) error {
		began = time.Now()
		if a != nil && a.pieces > 0 && on != nil {
			on(policy.Chunk{Restart: true})
		}
		a = &answer{on: on, place: len(s.body.at), leaks: s.p.w.Leaks()}
		err := ask(ctx, d, stream, a)
		if err == nil && s.look != nil {
			err = s.look(d.Raw())
		}
		return err
	})
	cut := err != nil && ctx.Err() != nil && a != nil && a.pieces > 0 && stream
	if cut {
		a.end()
		if err := a.leaked(); err != nil {
			return gotten{}, err
		}
	} else if err != nil {
		return gotten{}, err
	}
	return gotten{answer: a, took: time.Since(began), replayed: got != nil && got.Replayed, cut: cut}, nil
}

// request builds the request of this turn.
func (s *sampler) request(stream bool) *wire.Request {
	var seed *uint64
	if s.o.Seed != nil {
		n := s.body.sum.TurnSeed(*s.o.Seed, s.turn)
		seed = &n
	}
	head := s.heads.plain
	if stream {
		head = s.heads.stream
	}
	return &wire.Request{
		Path: "/chat/completions", Body: s.body.body(head, tail(seed)), Stream: stream, Digest: s.body.request(s.turn, seed),
		Key: s.key, Route: s.route, Tape: s.o.Tape, Notes: s.o.Notes, Admit: s.p.o.Budget.Admit,
	}
}

// finish makes a turn of an answer.
func (s *sampler) finish(a gotten, pending []trajectory.Message) (trajectory.Turn, error) {
	delta, ending, err := a.delta(a.cut)
	if err != nil {
		return trajectory.Turn{}, err
	}
	if s.p.profile.Learn && a.field != "" {
		s.enc.reasoning = a.field
	}
	s.turn++
	faults := s.judge(&delta.Message)
	turn := trajectory.Turn{Given: make([]trajectory.Delta, len(pending)), Sampled: delta, Finish: ending, Faults: faults, Model: a.model,
		Took: a.took, Replayed: a.replayed}
	for i, m := range pending {
		turn.Given[i] = trajectory.Delta{Message: m}
	}
	if a.usage != nil {
		turn.Usage = s.p.o.Price.Charge(a.usage.Total())
	}
	s.p.o.Budget.Spend(turn.Usage)
	return turn, nil
}

func (s *sampler) tellChanged() {
	if n := s.enc.unseen - s.blind; n > 0 && s.o.Notes != nil {
		s.blind = s.enc.unseen
		s.o.Notes(fmt.Sprintf("turn %d: %s sees no images, %d were replaced by a note", s.turn, s.p.o.Model, n))
	}
	if s.enc.mended && !s.noted && s.o.Notes != nil {
		s.noted = true
		s.o.Notes(fmt.Sprintf("turn %d: arguments that are no JSON object are sent back to the model wrapped in one", s.turn))
	}
}
