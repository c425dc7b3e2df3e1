package envs

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"hermes/backends"
)

// ErrNoBox says that a scorer wanted the box of a rollout that has none: no tool opened
// it, or the model broke it.
var ErrNoBox = errors.New("the rollout has no box")

// Exec runs a command of the scorer in the box and shows it (see Saw) under name. Its
// exit code is a result, also a time-out; the error means that the box failed.
func (w World) Exec(ctx context.Context, name string, c backends.Cmd) (backends.Result, error) {
	if w.Box == nil {
		return backends.Result{}, fmt.Errorf("%s: %w", name, ErrNoBox)
	}
	res, err := w.Box.Exec(ctx, c)
	if err != nil {
		return res, fmt.Errorf("%s: %w", name, err)
	}
	if w.Saw != nil {
		w.Saw(Exhibit{Name: name, Cmd: c, Result: res})
	}
	return res, nil
}

// State is what an environment keeps for one rollout beside its box: a simulated
// database, a game, what the user has said. The zero value is usable; it is safe for
// concurrent use, what it holds need not be.
type State struct {
	mu sync.Mutex
	by map[any]any
}

// Get returns the value under key; the first caller makes it. Keys are values of
// unexported types, as with context.WithValue. A nil State makes it again each time.
func (s *State) Get(key any, make func() any) any {
	if s == nil {
		return make()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if v, ok := s.by[key]; ok {
		return v
	}
	if s.by == nil {
		s.by = map[any]any{}
	}
	v := make()
	s.by[key] = v
	return v
}
