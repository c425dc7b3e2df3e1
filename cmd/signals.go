package cmd

import (
	"context"
	"errors"
	"os"
	"sync"
	"syscall"
)

// ErrInterrupted is the cause of a context that the second signal cancelled.
var ErrInterrupted = errors.New("interrupted twice: cancelled")

// Signals turns the signals of the process into two steps: the first asks to drain, the
// second cancels. It is safe for concurrent use.
type Signals struct {
	drain  chan struct{}
	done   chan struct{}
	mu     sync.Mutex
	first  os.Signal
	second bool
	asks   func() bool
}

// Watch reads signals from in until stop is called, which waits for its goroutine. The
// context it returns ends with the second signal, its cause being ErrInterrupted. say is
// told a sentence at each step; nil is silent.
func Watch(ctx context.Context, in <-chan os.Signal, say func(string)) (context.Context, *Signals, func()) {
	s := &Signals{drain: make(chan struct{}), done: make(chan struct{})}
	ctx, cancel := context.WithCancelCause(ctx)
	quit := make(chan struct{})
	if say == nil {
		say = func(string) {}
	}
	go func() {
		defer close(s.done)
		for {
			select {
			case sig := <-in:
				s.take(sig, cancel, say)
			case <-quit:
				return
			}
		}
	}()
	var once sync.Once
	return ctx, s, func() {
		once.Do(func() { close(quit) })
		<-s.done
		cancel(nil)
	}
}

func (s *Signals) take(sig os.Signal, cancel context.CancelCauseFunc, say func(string)) {
	s.mu.Lock()
	asks := s.asks
	s.mu.Unlock()
	if asks != nil {
		if sig == os.Interrupt && asks() {
			return
		}
		say = func(string) {}
	}
	s.mu.Lock()
	first := s.first == nil
	if first {
		s.first = sig
		close(s.drain)
	}
	again := !first && !s.second
	s.second = s.second || !first
	s.mu.Unlock()
	if first {
		say(sig.String() + ": finishing what is in flight; once more cancels it. The run can be resumed.")
	}
	if again {
		cancel(ErrInterrupted)
		say(sig.String() + ": cancelled. The run can be resumed.")
	}
}

// Intercept has f asked about every further SIGINT; those that f takes do not count. A
// command that intercepts speaks for itself: nothing is said about signals any more.
func (s *Signals) Intercept(f func() bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asks = f
}

// Drain is closed by the first signal: admit nothing new, finish what is in flight.
func (s *Signals) Drain() <-chan struct{} { return s.drain }

// Draining reports whether a signal has come.
func (s *Signals) Draining() bool { return s.Code() != ExitDone }

// Code is the exit code that the first signal asks for, or 0.
func (s *Signals) Code() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch s.first {
	case nil:
		return ExitDone
	case os.Interrupt:
		return ExitInterrupted
	}
	return ExitTerminated // SIGTERM, and SIGHUP of a terminal that was closed
}

// watched are the signals that Main listens to. SIGPIPE is among the ignored ones: a
// closed terminal or pipe shows as a write error and never kills a run.
func watched() []os.Signal {
	return []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP}
}
