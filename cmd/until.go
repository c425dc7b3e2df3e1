package cmd

import (
	"context"
)

// untilSignal is a context that the first signal ends, for commands that have nothing to
// drain. stop frees it and waits for its goroutine.
func (h *host) untilSignal() (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(h.Ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		select {
		case <-h.Signals.Drain():
			cancel(ErrInterrupted)
		case <-ctx.Done():
		}
	}()
	return ctx, func() {
		cancel(nil)
		<-done
	}
}
