package cmd

import (
	"context"
	"errors"
	"os"
	"sync"
	"syscall"
	"time"
)

// ErrInterrupted is the cause of a context that the second signal cancelled.
var ErrInterrupted = errors.New("interrupted twice: cancelled")

// endTime is how long a cancelled process has to end by itself.
const endTime = 9 * time.Second

// Signals turns the signals of the process into steps: the first asks to drain, the second
// cancels, and a third, or nothing but time, ends a process that does not end by itself. It is
// safe for concurrent use.
type Signals struct {
	drain  chan struct{}
	done   chan struct{}
	mu     sync.Mutex
	first  os.Signal
	second bool
	asks   func() bool
}

// Watch reads signals from in until stop is called, which waits for its goroutine. The
// context it returns ends with the second signal; its cause is ErrInterrupted. say gets
// a sentence at each step; nil is silent. end ends the process with an exit code, whatever
// hangs in it. It is called for a signal after the cancelling one, and [endTime] after the
// cancelling one. nil: the process is not ended by force.
func Watch(ctx context.Context, in <-chan os.Signal, say func(string), end func(code int)) (context.Context, *Signals, func()) {
	s := &Signals{drain: make(chan struct{}), done: make(chan struct{})}
	ctx, cancel := context.WithCancelCause(ctx)
	quit := make(chan struct{})
	if say == nil {
		say = func(string) {}
	}
	if end == nil {
		end = func(int) {}
	}
	force := func(why string) {
		say(why + ": ended by force. The next hermes removes what is left of boxes; the run can be resumed.")
		end(s.Code())
	}
	go func() {
		defer close(s.done)
		var late <-chan time.Time
		for {
			select {
			case sig := <-in:
				switch s.take(sig, cancel, say) {
				case cancelled:
					timer := time.NewTimer(endTime)
					defer timer.Stop()
					late = timer.C
				case beyond:
					force(sig.String() + " again")
				}
			case <-late:
				force("no end " + endTime.String() + " after it was cancelled")
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

// What a signal has come to.
const (
	taken     = iota // by the command, or it drains
	cancelled        // it was the second
	beyond           // it came after that
)

func (s *Signals) take(sig os.Signal, cancel context.CancelCauseFunc, say func(string)) int {
	s.mu.Lock()
	asks, over := s.asks, s.second
	s.mu.Unlock()
	if over {
		return beyond
	}
	if asks != nil {
		if sig == os.Interrupt && asks() {
			return taken
		}
		say = func(string) {}
	}
	s.mu.Lock()
	first := s.first == nil
	if first {
		s.first = sig
		close(s.drain)
	}
	s.second = !first
	s.mu.Unlock()
	if first {
		say(sig.String() + ": finishing what is in flight; once more cancels it. The run can be resumed.")
		return taken
	}
	cancel(ErrInterrupted)
	say(sig.String() + ": cancelled. The run can be resumed.")
	return cancelled
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
