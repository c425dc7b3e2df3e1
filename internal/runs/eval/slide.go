package eval

import (
	"context"
	"sync"
)

// slide does jobs side by side and hands them to tell in the order in which they came. A slow
// one holds up no other: workers take the next job at once, until ahead jobs wait behind it
// for tell. The first error of tell ends the feeding; what is being done is done
// to its end, since it may have been paid for. It returns that error, or feed's, or ctx's,
// when all goroutines have ended.
func slide[T any](ctx context.Context, workers, ahead int, feed func(put func(T) bool) error, do func(context.Context, T), tell func(T) error) error {
	feeding, stop := context.WithCancel(ctx)
	defer stop()
	type slot struct {
		job  T
		done chan struct{}
	}
	order, work := make(chan slot, ahead), make(chan slot)
	var busy, telling sync.WaitGroup
	for range workers {
		busy.Go(func() {
			for s := range work {
				do(ctx, s.job)
				close(s.done)
			}
		})
	}
	var failed error
	telling.Go(func() {
		for s := range order {
			<-s.done
			if failed == nil {
				if failed = tell(s.job); failed != nil {
					stop()
				}
			}
		}
	})
	err := feed(func(job T) bool {
		s := slot{job, make(chan struct{})}
		select {
		case work <- s:
			order <- s // tell goes on to the end, so that there is room some day
			return true
		case <-feeding.Done():
			return false
		}
	})
	close(work)
	busy.Wait()
	close(order)
	telling.Wait()
	switch {
	case failed != nil:
		return failed
	case err != nil:
		return err
	}
	return context.Cause(ctx)
}
