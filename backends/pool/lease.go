package pool

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"sync/atomic"

	"hermes/backends"
)

// lease is the right to use a box until Close. Its calls end with it, so that they cannot
// reach a box that another lease has by then.
type lease struct {
	p      *Pool
	slot   *slot
	life   context.Context // ends with Close
	end    context.CancelCauseFunc
	away   chan struct{} // closed when the box is back or gone
	spoilt atomic.Bool   // lost, or broken by its commands

	mu    sync.Mutex
	over  bool
	calls int           // under way
	quiet chan struct{} // closed when it is over and no call is under way
}

func newLease(p *Pool, s *slot) *lease {
	l := &lease{p: p, slot: s, away: make(chan struct{}), quiet: make(chan struct{})}
	l.life, l.end = context.WithCancelCause(context.Background())
	return l
}

// enter begins a call: ctx ends with the lease too. leave must be called with the call's
// error, and gives the error to return.
func (l *lease) enter(ctx context.Context, what string) (own context.Context, leave func(error) error, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over {
		return nil, nil, fmt.Errorf("%s: %w", what, backends.ErrClosed)
	}
	l.calls++
	own, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(l.life, func() { cancel(backends.ErrClosed) })
	return own, func(err error) error {
		stop()
		cancel(nil)
		return l.judge(ctx, what, err, l.left())
	}, nil
}

// left ends a call and reports whether the lease is over.
func (l *lease) left() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls--
	if l.over && l.calls == 0 {
		close(l.quiet)
	}
	return l.over
}

// finish ends the lease; true for the first time.
func (l *lease) finish() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over {
		return false
	}
	l.over = true
	if l.calls == 0 {
		close(l.quiet)
	}
	l.end(backends.ErrClosed)
	return true
}

// judge notes what an error says about the box.
func (l *lease) judge(ctx context.Context, what string, err error, over bool) error {
	switch {
	case err == nil:
	case over && ctx.Err() == nil:
		return fmt.Errorf("%s: %w", what, backends.ErrClosed)
	case errors.Is(err, backends.ErrLost):
		if !l.spoilt.Swap(true) {
			l.p.tell(func(c *counters) { c.lost++ })
		}
	case errors.Is(err, backends.ErrBroken):
		if !l.spoilt.Swap(true) {
			l.p.tell(func(c *counters) { c.broken++ })
		}
	}
	return err
}

// ID implements backends.Sandbox.
func (l *lease) ID() string { return l.slot.box.ID() }

// Exec implements backends.Sandbox.
func (l *lease) Exec(ctx context.Context, c backends.Cmd) (r backends.Result, err error) {
	own, leave, err := l.enter(ctx, "exec")
	if err != nil {
		return r, err
	}
	r, err = l.slot.box.Exec(own, c)
	return r, leave(err)
}

// ReadFile implements backends.Sandbox.
func (l *lease) ReadFile(ctx context.Context, path string, limit int64) (data []byte, err error) {
	own, leave, err := l.enter(ctx, "read "+path)
	if err != nil {
		return nil, err
	}
	data, err = l.slot.box.ReadFile(own, path, limit)
	return data, leave(err)
}

// WriteFile implements backends.Sandbox.
func (l *lease) WriteFile(ctx context.Context, path string, data []byte, perm fs.FileMode) error {
	own, leave, err := l.enter(ctx, "write "+path)
	if err != nil {
		return err
	}
	return leave(l.slot.box.WriteFile(own, path, data, perm))
}

// Close implements backends.Sandbox: it gives the box back and waits until that is done
// or ctx ends. It never fails: what goes wrong is the pool's concern.
func (l *lease) Close(ctx context.Context) error {
	if l.finish() {
		l.p.mu.Lock()
		l.p.work.Go(func() { l.p.takeBack(l) })
		l.p.mu.Unlock()
	}
	select {
	case <-l.away:
	case <-ctx.Done():
	}
	return nil
}
