package modal

import (
	"context"

	"hermes/backends"
)

// SetToken fixes the token of the boxes that are made from now on.
func (b *Backend) SetToken(token string) { b.token = func() string { return token } }

// Hang cuts every connection between a box's slotd and hermes, at our end.
func Hang(x backends.Sandbox) {
	l := x.(*box).lines
	l.mu.Lock()
	defer l.mu.Unlock()
	old := l.end
	l.life, l.end = context.WithCancel(context.Background())
	old()
}

// Own makes the boxes that follow another owner's.
func (b *Backend) Own(o backends.Owner) { b.owner = o }
