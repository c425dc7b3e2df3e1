package policy

import (
	"context"
	"errors"
	"fmt"

	"hermes/rollout/policy/wire"
	"hermes/trajectory"
)

type fallback struct{ list []Policy }

// NewFallback returns a policy that asks the next of list when one fails for its own
// reasons: limits, keys, unknown models, outages, unreadable answers, refused requests. A
// full context, a spent budget and a cancelled context are returned at once. A rollout stays
// with the one that answered, so that a dead server costs its retries once. Options.Notes is
// called at each change.
func NewFallback(list ...Policy) (Policy, error) {
	if len(list) == 0 {
		return nil, errors.New("fallback: no policy")
	}
	for _, p := range list[1:] {
		if a, b := list[0].Info(), p.Info(); a.Mode != b.Mode {
			return nil, fmt.Errorf("fallback from %s (%s) to %s (%s): the modes differ", a.Model, a.Mode, b.Model, b.Mode)
		}
	}
	if len(list) == 1 {
		return list[0], nil
	}
	return &fallback{list}, nil
}

// Info is that of the first policy, with the smallest context and images only where all
// see them.
func (f *fallback) Info() Info {
	in := f.list[0].Info()
	for _, p := range f.list[1:] {
		other := p.Info()
		in.Images = in.Images && other.Images
		if other.Context > 0 && (in.Context == 0 || other.Context < in.Context) {
			in.Context = other.Context
		}
	}
	return in
}

// Open opens the samplers when they are first needed.
func (f *fallback) Open(tools []trajectory.ToolSpec, o Options) (Sampler, error) {
	s := &fallbackSampler{f: f, tools: tools, o: o, list: make([]Sampler, len(f.list))}
	_, err := s.sampler(0)
	return s, err
}

type fallbackSampler struct {
	f     *fallback
	tools []trajectory.ToolSpec
	o     Options
	list  []Sampler
	at    int
}

func (s *fallbackSampler) sampler(i int) (Sampler, error) {
	if s.list[i] == nil {
		one, err := s.f.list[i].Open(s.tools, s.o)
		if err != nil {
			return nil, fmt.Errorf("model %s: %w", s.f.list[i].Info().Model, err)
		}
		s.list[i] = one
	}
	return s.list[i], nil
}

// Taped is a sampler that can answer from the tape alone.
type Taped interface {
	// Stored is Next without a request: wire.ErrNotTaped where the tape has no such answer.
	Stored(ctx context.Context, p trajectory.Prefix, pending []trajectory.Message, on func(Chunk)) (trajectory.Turn, error)
}

// Next asks one policy after the other. What any of them has on the tape comes first, so
// that a resumed rollout does not buy from one what it had from another.
func (s *fallbackSampler) Next(ctx context.Context, p trajectory.Prefix, pending []trajectory.Message, on func(Chunk)) (trajectory.Turn, error) {
	if s.o.Tape != nil {
		turn, ok, err := s.replay(ctx, p, pending, on)
		if ok || err != nil {
			return turn, err
		}
	}
	var errs []error
	for {
		one, err := s.sampler(s.at)
		if err != nil {
			return trajectory.Turn{}, err
		}
		turn, err := one.Next(ctx, p, pending, on)
		if err == nil {
			return turn, nil
		}
		errs = append(errs, err)
		if !replaceable(err) || s.at == len(s.list)-1 {
			return trajectory.Turn{}, last(errs)
		}
		s.move(s.at+1, err)
		if on != nil {
			on(Chunk{Restart: true})
		}
	}
}

// last is the last error; it names the earlier ones too.
func last(errs []error) error {
	err := errs[len(errs)-1]
	var e *Error
	if len(errs) == 1 || !errors.As(err, &e) {
		return err
	}
	return &Error{Kind: e.Kind, After: e.After, Status: e.Status, Err: errors.Join(errs...)}
}

func (s *fallbackSampler) replay(ctx context.Context, p trajectory.Prefix, pending []trajectory.Message, on func(Chunk)) (trajectory.Turn, bool, error) {
	for i := range s.list {
		at := (s.at + i) % len(s.list)
		one, err := s.sampler(at)
		if err != nil {
			return trajectory.Turn{}, false, err
		}
		t, ok := one.(Taped)
		if !ok {
			continue
		}
		turn, err := t.Stored(ctx, p, pending, on)
		if errors.Is(err, wire.ErrNotTaped) {
			continue
		}
		if err == nil && at != s.at {
			s.move(at, errors.New("as in the interrupted attempt"))
		}
		return turn, true, err
	}
	return trajectory.Turn{}, false, nil
}

func (s *fallbackSampler) move(to int, why error) {
	from := s.at
	s.at = to
	if s.o.Notes != nil {
		s.o.Notes(fmt.Sprintf("model %s to %s: %v", s.f.list[from].Info().Model, s.f.list[to].Info().Model, why))
	}
}

// replaceable says whether another model may succeed where one failed with err.
func replaceable(err error) bool {
	var e *Error
	if !errors.As(err, &e) {
		return false
	}
	switch e.Kind {
	case Limited, Auth, NoModel, NoTools, Unavailable, Malformed, Rejected, Leaked,
		Offline: // a cassette: the recorded run had moved on as well
		return true
	}
	return false
}

// Close closes what was opened.
func (s *fallbackSampler) Close() error {
	var errs []error
	for _, one := range s.list {
		if one != nil {
			errs = append(errs, one.Close())
		}
	}
	return errors.Join(errs...)
}
