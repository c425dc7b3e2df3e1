package wire

import (
	"fmt"
	"time"
)

// Load is what one replica carries, and what waits for it and why.
type Load struct {
	Base          string
	Limit, Flying int
	Most          int            // the ceiling of Limit
	Queued        int            // requests that wait for one of the Limit places
	Pause         time.Duration  // the server asked all of them to wait so long; 0: it did not
	Again         map[string]int // requests that wait before they are sent again, by why; nil: none
	Longest       time.Duration  // of those waits, what is left
	Chance        float64        // the share of requests that it refuses at any load; 0: none known
}

// Loads tells limit, requests in flight and waiting ones of each replica.
func (c *Client) Loads() []Load {
	var list []Load
	for _, r := range c.fleet.replicas() {
		l := r.limit.load(time.Now())
		l.Base = r.base
		r.waiting(&l, time.Now())
		list = append(list, l)
	}
	return list
}

func (l *limiter) load(now time.Time) Load {
	l.mu.Lock()
	defer l.mu.Unlock()
	return Load{Limit: max(1, int(l.limit)), Flying: l.flying, Most: l.ceiling, Queued: len(l.waiting),
		Pause: max(0, l.until.Sub(now)), Chance: l.chance.share}
}

// rest is the wait of one request before it is sent again.
type rest struct {
	why   string
	until time.Time
}

// rest notes that a request waits, until rested is called.
func (r *replica) rest(e *Error, until time.Time) *rest {
	why := string(e.Kind)
	if e.Status > 0 {
		why = fmt.Sprintf("%s, status %d", e.Kind, e.Status)
	}
	n := &rest{why, until}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.rests == nil {
		r.rests = map[*rest]bool{}
	}
	r.rests[n] = true
	return n
}

func (r *replica) rested(n *rest) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.rests, n)
}

// waiting adds the requests that wait before they are sent again.
func (r *replica) waiting(l *Load, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for n := range r.rests {
		if l.Again == nil {
			l.Again = map[string]int{}
		}
		l.Again[n.why]++
		l.Longest = max(l.Longest, n.until.Sub(now))
	}
}
