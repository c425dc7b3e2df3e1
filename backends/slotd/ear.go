package slotd

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

// ear waits for signs of life of a server.
type ear struct {
	silent func() bool
	mu     sync.Mutex
	timer  *time.Timer // nil: nobody wants to hear of silence
	next   time.Duration
}

// listen begins to wait, until stop is called.
func (c *Client) listen() *ear {
	e := &ear{silent: c.opt.Silent}
	if e.silent != nil {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.next, e.timer = silentAfter, time.AfterFunc(silentAfter, e.tell)
	}
	return e
}

// tell tells of the silence, and waits for the next one.
func (e *ear) tell() {
	did := e.silent()
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.timer != nil {
		if e.next *= 2; did {
			e.next = silentEvery
		}
		e.timer.Reset(e.next)
	}
}

// heard begins to wait anew.
func (e *ear) heard() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.timer != nil {
		e.next = silentAfter
		e.timer.Reset(e.next)
	}
}

// stop ends the waiting.
func (e *ear) stop() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.timer != nil {
		e.timer.Stop()
		e.timer = nil
	}
}
