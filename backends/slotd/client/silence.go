package client

import (
	"sync"
	"time"
)

// silentAfter is how long a server may be silent before something is done about it, and
// then twice as long, and so on, for a command that takes its time is silence too; but soon
// again where there was something to do.
const (
	silentAfter = time.Second
	silentEvery = 50 * time.Millisecond
)

// silence waits for signs of life of a server.
type silence struct {
	report func() bool
	mu     sync.Mutex
	timer  *time.Timer // nil: silence is not reported
	next   time.Duration
}

// watchSilence begins to wait, until stop is called.
func (c *Client) watchSilence() *silence {
	e := &silence{report: c.opt.Silent}
	if e.report != nil {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.next, e.timer = silentAfter, time.AfterFunc(silentAfter, e.notify)
	}
	return e
}

// notify tells of the silence, and waits for the next one.
func (e *silence) notify() {
	did := e.report()
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.timer != nil {
		e.next *= 2
		if did {
			e.next = silentEvery
		}
		e.timer.Reset(e.next)
	}
}

// restart begins to wait again.
func (e *silence) restart() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.timer != nil {
		e.next = silentAfter
		e.timer.Reset(e.next)
	}
}

// stop ends the waiting.
func (e *silence) stop() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.timer != nil {
		e.timer.Stop()
		e.timer = nil
	}
}
