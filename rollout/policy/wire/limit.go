package wire

import (
	"context"
	"sync"
	"time"
)

// limiter bounds the requests that are in flight at one replica. It starts at its
// ceiling, halves when the server says that it is full, grows by one for each full
// window of successes and doubles only after a collapse to one.
type limiter struct {
	mu      sync.Mutex
	ceiling int
	limit   float64
	slow    float64 // below this a collapsed limiter doubles
	flying  int
	epoch   int // of the last cut: answers to older requests do not cut again
	until   time.Time
	waiting []chan struct{}
	timer   *time.Timer
}

func newLimiter(ceiling int) *limiter {
	return &limiter{ceiling: ceiling, limit: float64(ceiling)}
}

// acquire waits for a place; the number it returns goes to release.
func (l *limiter) acquire(ctx context.Context) (int, error) {
	l.mu.Lock()
	if len(l.waiting) == 0 && l.open() {
		defer l.mu.Unlock()
		l.flying++
		return l.epoch, nil
	}
	turn := make(chan struct{})
	l.waiting = append(l.waiting, turn)
	l.arm()
	l.mu.Unlock()
	select {
	case <-turn:
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.epoch, nil
	case <-ctx.Done():
		l.leave(turn)
		return 0, ctx.Err()
	}
}

func (l *limiter) open() bool {
	return l.flying < max(1, int(l.limit)) && !time.Now().Before(l.until)
}

// leave takes a waiter out; if its turn had come, the place goes to the next.
func (l *limiter) leave(turn chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, w := range l.waiting {
		if w == turn {
			l.waiting = append(l.waiting[:i], l.waiting[i+1:]...)
			return
		}
	}
	l.flying--
	l.wake()
}

// wake lets in as many waiters as there are places.
func (l *limiter) wake() {
	for len(l.waiting) > 0 && l.open() {
		close(l.waiting[0])
		l.waiting = l.waiting[1:]
		l.flying++
	}
	l.arm()
}

// arm sets the timer that wakes the waiters when a pause ends.
func (l *limiter) arm() {
	pause := time.Until(l.until)
	if l.timer != nil || len(l.waiting) == 0 || pause <= 0 {
		return
	}
	l.timer = time.AfterFunc(pause, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.timer = nil
		l.wake()
	})
}

// stop ends the timer.
func (l *limiter) stop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.timer != nil {
		l.timer.Stop()
		l.timer = nil
	}
}

// release gives a place back and learns from what became of the request.
func (l *limiter) release(epoch int, err *Error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.flying--
	switch {
	case err == nil:
		l.grow(1)
	case err.overload:
		if epoch == l.epoch {
			l.cut(0.5)
		}
		if t := time.Now().Add(err.After); err.After > 0 && t.After(l.until) {
			l.until = t
		}
	}
	l.wake()
}

func (l *limiter) grow(steps float64) {
	add := steps / l.limit
	if l.limit < l.slow {
		add = steps // one for each success: the limit doubles in each window
	}
	l.limit = min(float64(l.ceiling), l.limit+add)
}

func (l *limiter) cut(factor float64) {
	was := l.limit
	l.limit = max(1, l.limit*factor)
	l.epoch++
	l.slow = 0
	if l.limit == 1 && was > 1 {
		l.slow = max(2, float64(l.ceiling)/2)
	}
}

// observe tells the length of the server's own queue and whether it preempted requests.
func (l *limiter) observe(queue float64, preempted bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case preempted:
		l.cut(0.75)
	case queue > max(1, 0.05*l.limit):
		l.limit = max(1, min(l.limit, float64(l.flying))-queue/2)
	case l.flying >= int(l.limit):
		l.limit = min(float64(l.ceiling), l.limit+max(1, l.limit/16))
	}
	l.wake()
}

func (l *limiter) size() (limit, flying int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return max(1, int(l.limit)), l.flying
}
