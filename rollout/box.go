package rollout

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"hermes/backends"
)

// lazyBox opens a box at the first need.
type lazyBox struct {
	backend  backends.Backend
	spec     backends.Spec
	deadline time.Duration
	first    func(context.Context, backends.Sandbox) // called with the new box before get returns it; may be nil

	mu     sync.Mutex
	box    backends.Sandbox
	err    error
	broken bool
	closed bool
	since  time.Time
	over   func(opened bool) // it was announced to the back-end; nil: it was not
}

// OneBox is a box that is opened at the first need, within deadline, for those who run
// the loop without a [Runner]. Both functions are safe for concurrent use; closing a box
// that was never opened does nothing.
func OneBox(b backends.Backend, s backends.Spec, deadline time.Duration) (get func(context.Context) (backends.Sandbox, error), closing func(context.Context) error) {
	l := &lazyBox{backend: b, spec: s, deadline: deadline}
	return l.get, l.close
}

// get returns the box. The first call opens it, and the first error is final.
func (l *lazyBox) get(ctx context.Context) (backends.Sandbox, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.box != nil || l.err != nil {
		return l.box, l.err
	}
	if l.backend == nil {
		l.err = fmt.Errorf("%w: this run has no sandboxes", backends.ErrUnavailable)
		return nil, l.err
	}
	octx := ctx
	if !l.backend.Traits().Queued { // waiting for a place is not a failure
		var cancel context.CancelFunc
		octx, cancel = context.WithTimeoutCause(ctx, l.deadline, fmt.Errorf("opening a box took longer than %v", l.deadline))
		defer cancel()
	}
	l.since = time.Now()
	l.expected(true)
	box, err := l.backend.Open(octx, l.spec)
	if err == nil {
		if l.first != nil {
			l.first(ctx, box)
		}
		l.box = box
		return box, nil
	}
	if ctx.Err() == nil { // a caller that gave up must not spoil the box for the others
		if octx.Err() != nil {
			err = context.Cause(octx)
		}
		l.err = fmt.Errorf("open a box: %w", err)
		if !errors.Is(err, backends.ErrImage) && !errors.Is(err, backends.ErrUnavailable) {
			l.err = fmt.Errorf("%w: %w", backends.ErrLost, l.err)
		}
		return nil, l.err
	}
	return nil, err
}

// expect tells the back-end that the box may be needed: it may make one meanwhile.
func (l *lazyBox) expect() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e, ok := l.backend.(backends.Expecter); ok && l.box == nil && l.err == nil {
		l.over = e.Expect(l.spec)
	}
}

// expected ends what expect has begun.
func (l *lazyBox) expected(opened bool) {
	if l.over != nil {
		l.over(opened)
		l.over = nil
	}
}

// opened returns the box if there is one that may still be used.
func (l *lazyBox) opened() backends.Sandbox {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.broken {
		return nil
	}
	return l.box
}

// made is when the box was asked for.
func (l *lazyBox) made() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.since
}

// drop keeps scorers away from a box that its commands broke.
func (l *lazyBox) drop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.broken = true
}

func (l *lazyBox) close(ctx context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.expected(false)
	if l.box == nil || l.closed {
		return nil
	}
	l.closed, l.broken = true, true
	return l.box.Close(ctx)
}
