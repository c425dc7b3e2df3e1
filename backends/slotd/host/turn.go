package host

import (
	"context"
	"fmt"

	"hermes/backends"
)

// turn is the right of one call to touch the box. A reset ends all of them, so that a
// call that was under way, however slow its other end, neither adds to the box that the
// next one gets nor reads from it.
type turn struct {
	h *Host
	n uint64
}

// turnKey finds the turn of a call that was admitted before its body was read.
type turnKey struct{}

// WithTurn gives a call its turn. It comes before its token is looked at.
func (h *Host) WithTurn(ctx context.Context) context.Context {
	h.files.RLock()
	defer h.files.RUnlock()
	return context.WithValue(ctx, turnKey{}, turn{h, h.turns})
}

// turn begins a call, unless it has begun already; there is none during a reset.
func (h *Host) turn(ctx context.Context, what string) (turn, error) {
	if t, ok := ctx.Value(turnKey{}).(turn); ok && t.h == h {
		return t, t.still()
	}
	h.files.RLock()
	defer h.files.RUnlock()
	if h.turns%2 == 1 {
		return turn{}, fmt.Errorf("%s: the box is being reset: %w", what, backends.ErrClosed)
	}
	return turn{h, h.turns}, nil
}

// do runs a step that must not wait for anybody, unless a reset has begun since the turn did.
func (t turn) do(step func() error) error {
	t.h.files.RLock()
	defer t.h.files.RUnlock()
	if t.h.turns != t.n || t.n%2 == 1 {
		return fmt.Errorf("the box was reset meanwhile: %w", backends.ErrClosed)
	}
	return step()
}

// still says whether the box is the one that the call began with.
func (t turn) still() error { return t.do(func() error { return nil }) }

// endTurns waits for the steps under way and forbids others until freeTurns.
func (h *Host) endTurns() {
	h.files.Lock()
	h.turns++
	h.files.Unlock()
}

// freeTurns lets new file calls begin.
func (h *Host) freeTurns() { h.endTurns() }
