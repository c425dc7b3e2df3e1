package backends

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"time"
)

// Starts is a queue in front of the commands that share this machine's processors. Where
// thousands of commands become ready in the same second, they run a few at a time, in the
// order in which they came: the first ones end early and their rollouts ask the model again,
// while the others run. Without it all would share the processors, end together, and leave
// the processors idle until the model has answered them together.
//
// A command holds its place for a moment only. One that runs longer, or sleeps, does not keep
// others from starting. The zero value is not usable. It is safe for concurrent use.
type Starts struct{ places chan struct{} }

// Bounds of the queue. A small shell command takes 2 to 4 ms of a processor: so many places for
// so long let in as many in a second as a processor can start, so that the queue never leaves
// it idle, whatever the commands do.
const (
	startsPerProcessor = 12
	startHold          = 50 * time.Millisecond
)

// NewStarts makes the queue for this process' processors.
func NewStarts() *Starts {
	return &Starts{make(chan struct{}, startsPerProcessor*runtime.GOMAXPROCS(0))}
}

// Wait waits for a place. leave gives it back when the command has ended; it may be called
// again. what is for the error, which is that of ctx.
func (s *Starts) Wait(ctx context.Context, what string) (leave func(), err error) {
	select {
	case s.places <- struct{}{}: // senders on a channel are served in their order
	default:
		select {
		case s.places <- struct{}{}:
		case <-ctx.Done():
			return nil, fmt.Errorf("%s: %w", what, context.Cause(ctx))
		}
	}
	back := sync.OnceFunc(func() { <-s.places })
	late := time.AfterFunc(startHold, back)
	return func() {
		late.Stop()
		back()
	}, nil
}
