package policy

import (
	"time"

	"context"
	"errors"
	"fmt"

	"hermes/rollout/policy/wire"
	"hermes/trajectory"
)

// sampler asks for one rollout. It is used by one goroutine at a time.
type sampler struct {
	p     *chat
	o     Options
	key   string
	route *wire.Route
	enc   encoder
	body  conversation
	heads *heads
	turn  int // answers so far, abandoned ones too: equal requests of different turns differ
	told  bool
}

// Counts tells the bytes that were encoded and sent.
func (s *sampler) Counts() Counts { return Counts{s.body.bytes, s.body.sent.Load()} }

// Close gives the sampler's memory back.
func (s *sampler) Close() error {
	s.body.msgs, s.body.at, s.body.sum, s.heads = nil, nil, nil, nil
	return nil
}

// Next asks for the next turn.
func (s *sampler) Next(ctx context.Context, p trajectory.Prefix, pending []trajectory.Message, on func(Chunk)) (trajectory.Turn, error) {
	return s.next(ctx, p, pending, on, false)
}

// stored answers from the tape or not at all: wire.ErrNotTaped.
func (s *sampler) stored(ctx context.Context, p trajectory.Prefix, pending []trajectory.Message, on func(Chunk)) (trajectory.Turn, error) {
	return s.next(ctx, p, pending, on, true)
}

func (s *sampler) next(ctx context.Context, p trajectory.Prefix, pending []trajectory.Message, on func(Chunk), taped bool) (trajectory.Turn, error) {
	if s.body.sum == nil {
		return trajectory.Turn{}, errors.New("the sampler is closed")
	}
	if err := s.body.extend(p, pending, &s.enc); err != nil {
		return trajectory.Turn{}, err
	}
	s.tellMended()
	stream := s.p.o.Stream || on != nil
	r := s.request(stream)
	r.Taped = taped
	var a *answer
	var began time.Time // of the last attempt: waiting and retries are not the model's time
	got, err := s.p.w.Do(ctx, r, func(ctx context.Context, d wire.Doer) error {
		began = time.Now()
		if a != nil && a.pieces > 0 && on != nil {
			on(Chunk{Restart: true})
		}
		a = &answer{on: on, place: len(s.body.at)}
		return ask(ctx, s.p.client, d, stream, a)
	})
	cut := err != nil && ctx.Err() != nil && a != nil && a.pieces > 0 && stream
	if cut {
		a.end()
	} else if err != nil {
		return trajectory.Turn{}, err
	}
	turn, err := s.finish(a, pending, cut)
	turn.Took = time.Since(began)
	turn.Replayed = got != nil && got.Replayed
	return turn, err
}

// request builds the request of this turn.
func (s *sampler) request(stream bool) *wire.Request {
	var seed *uint64
	if s.o.Seed != nil {
		n := turnSeed(*s.o.Seed, s.turn)
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
func (s *sampler) finish(a *answer, pending []trajectory.Message, cut bool) (trajectory.Turn, error) {
	delta, ending, err := a.delta(cut)
	if err != nil {
		return trajectory.Turn{}, err
	}
	if s.p.profile.Learn && a.field != "" {
		s.enc.reasoning = a.field
	}
	s.turn++
	turn := trajectory.Turn{Given: make([]trajectory.Delta, len(pending)), Sampled: delta, Finish: ending, Model: a.model}
	for i, m := range pending {
		turn.Given[i] = trajectory.Delta{Message: m}
	}
	if a.usage != nil {
		turn.Usage = s.p.o.Price.charge(a.usage.total())
	}
	s.p.o.Budget.Spend(turn.Usage)
	return turn, nil
}

func (s *sampler) tellMended() {
	if s.enc.mended && !s.told && s.o.Notes != nil {
		s.told = true
		s.o.Notes(fmt.Sprintf("turn %d: arguments that are no JSON object are sent back to the model wrapped in one", s.turn))
	}
}
