package tool

import (
	"context"
	"sync"

	"hermes/trajectory"
)

// CallAll answers the calls of one turn, results in the order of the calls. Calls run side
// by side where their traits allow it: a call that is not parallel waits for all before it
// and holds up all after it; calls with overlapping paths run in order unless both only
// read. The first error (in the order of calls) ends the turn.
func (s *Set) CallAll(ctx context.Context, calls []trajectory.Call) ([]Result, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	results, errs := make([]Result, len(calls)), make([]error, len(calls))
	done := make([]chan struct{}, len(calls))
	uses := make([]use, len(calls))
	slots := make(chan struct{}, s.opt.Workers)
	var wg sync.WaitGroup
	for i, call := range calls {
		done[i], uses[i] = make(chan struct{}), s.use(call)
		wg.Go(func() {
			defer close(done[i])
			for j := range i {
				if uses[i].conflicts(uses[j]) {
					<-done[j]
				}
			}
			slots <- struct{}{}
			defer func() { <-slots }()
			errs[i] = ctx.Err()
			if errs[i] != nil {
				return
			}
			results[i], errs[i] = s.Call(ctx, call)
			if errs[i] != nil {
				cancel()
			}
		})
	}
	wg.Wait()
	if err := first(errs); err != nil {
		return nil, err
	}
	return results, s.limitTurn(ctx, calls, results)
}

// first prefers the error that made us cancel over the cancellations that followed.
func first(errs []error) error {
	var found error
	for _, err := range errs {
		if err != nil && (found == nil || found == context.Canceled && err != context.Canceled) {
			found = err
		}
	}
	return found
}

// use is what a call touches.
type use struct {
	alone    bool
	readOnly bool
	paths    []string
}

func (s *Set) use(call trajectory.Call) use {
	e, ok := s.byName[call.Name]
	if !ok {
		return use{readOnly: true} // answered with an error, touches nothing
	}
	t := e.def.Traits
	u := use{alone: !t.Parallel || t.Interactive, readOnly: t.ReadOnly}
	if t.Paths == nil || u.alone {
		u.alone = u.alone || !t.ReadOnly
		return u
	}
	if args, bad := e.arguments(call.Arguments); bad == nil {
		u.paths = t.Paths(args)
	}
	return u
}

func (u use) conflicts(v use) bool {
	if u.alone || v.alone {
		return true
	}
	if u.readOnly && v.readOnly {
		return false
	}
	for _, a := range u.paths {
		for _, b := range v.paths {
			if overlap(a, b) {
				return true
			}
		}
	}
	return len(u.paths) == 0 && !u.readOnly || len(v.paths) == 0 && !v.readOnly
}
