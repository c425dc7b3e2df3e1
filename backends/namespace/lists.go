//go:build linux

package namespace

import (
	"encoding/json"
	"sync"
	"time"

	"hermes/backends/namespace/pid1"
)

// lists are the last lists of calls that made boxes, by plan. They look the host up again
// after a while: a file of its /etc may change.
type lists struct {
	mu   sync.Mutex
	all  map[string]*pid1.List
	made time.Time
}

// How long lists are kept, and how many.
const (
	listsFor = 2 * time.Second
	maxLists = 64
)

// of returns the list for a plan.
func (c *lists) of(p plan, ids identities) (*pid1.List, error) {
	key, err := json.Marshal(p)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := time.Now(); c.all == nil || now.Sub(c.made) > listsFor || len(c.all) >= maxLists {
		c.all, c.made = map[string]*pid1.List{}, now
	}
	l := c.all[string(key)]
	if l == nil {
		l, err = build(p, ids)
		if err != nil {
			return nil, err
		}
		c.all[string(key)] = l
	}
	return l, nil
}
