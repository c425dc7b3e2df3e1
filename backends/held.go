package backends

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// Held keeps a driver's books of the boxes that it has open: none is made after the
// end, and none that was begun before it is forgotten. The zero value is usable. A Held
// is safe for concurrent use.
type Held[T comparable] struct {
	mu     sync.Mutex
	shut   bool
	open   map[T]struct{}
	begun  sync.WaitGroup
	cancel map[*context.CancelCauseFunc]struct{} // of openings under way
}

// Begin announces that a box is being made; the caller calls end when it is in the books
// by Add, or came to nothing. The context ends with ctx and, because of [ErrClosed], with
// Shut. Begin fails where ctx has ended, and with ErrClosed after Shut.
func (h *Held[T]) Begin(ctx context.Context) (opening context.Context, end func(), err error) {
	if ctx.Err() != nil {
		return nil, nil, fmt.Errorf("open a box: %w", context.Cause(ctx))
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.shut {
		return nil, nil, fmt.Errorf("open a box: %w", ErrClosed)
	}
	if h.cancel == nil {
		h.cancel = map[*context.CancelCauseFunc]struct{}{}
	}
	opening, cancel := context.WithCancelCause(ctx)
	h.cancel[&cancel] = struct{}{}
	h.begun.Add(1)
	var once sync.Once
	return opening, func() {
		once.Do(func() {
			h.mu.Lock()
			delete(h.cancel, &cancel)
			h.mu.Unlock()
			cancel(nil)
			h.begun.Done()
		})
	}, nil
}

// Add enters a box. The caller's Begin has not ended yet, so Close will find it.
func (h *Held[T]) Add(x T) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.open == nil {
		h.open = map[T]struct{}{}
	}
	h.open[x] = struct{}{}
}

// Undo removes a box that came to nothing, by remove, also where ctx has ended, for at most
// the time within. One that could not be removed is entered as by [Held.Add], for Retry and
// Close to try again.
func (h *Held[T]) Undo(ctx context.Context, x T, within time.Duration, remove func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), within)
	defer cancel()
	err := remove(ctx)
	if err != nil {
		h.Add(x)
	}
	return err
}

// Drop takes a box out of the books, and reports whether it was in them.
func (h *Held[T]) Drop(x T) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	_, ok := h.open[x]
	delete(h.open, x)
	return ok
}

// All lists the boxes in the books, in no order.
func (h *Held[T]) All() []T {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := make([]T, 0, len(h.open))
	for x := range h.open {
		all = append(all, x)
	}
	return all
}

// Retry closes those boxes once more whose removal has failed before, as left says, with
// closing, which takes them out of the books by Drop. It returns how many are gone.
func (h *Held[T]) Retry(ctx context.Context, left func(T) bool, closing func(context.Context, T) error) (gone int, err error) {
	var errs []error
	for _, x := range h.All() {
		if !left(x) {
			continue
		}
		if err := closing(ctx, x); err != nil {
			errs = append(errs, fmt.Errorf("sweep: %w", err))
			continue
		}
		gone++
	}
	return gone, errors.Join(errs...)
}

// Shut refuses every later Begin and cancels the openings under way.
func (h *Held[T]) Shut() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.shut = true
	for c := range h.cancel {
		(*c)(ErrClosed)
	}
}

// Wait returns when every opening that was begun has ended, or with ctx's cause.
func (h *Held[T]) Wait(ctx context.Context) error {
	done := make(chan struct{})
	go func() {
		h.begun.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for boxes that are being opened: %w", context.Cause(ctx))
	}
}

// Close shuts, waits, and closes all boxes at once with closing, which takes them out of
// the books by Drop. It may be called again and then tries what is left.
func (h *Held[T]) Close(ctx context.Context, closing func(context.Context, T) error) error {
	h.Shut()
	waited := h.Wait(ctx)
	all := h.All()
	errs := make([]error, len(all))
	var done sync.WaitGroup
	for i, x := range all {
		done.Go(func() { errs[i] = closing(ctx, x) })
	}
	done.Wait()
	return errors.Join(append(errs, waited)...)
}
