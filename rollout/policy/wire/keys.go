package wire

import (
	"sync"
	"time"
)

// keys is a pool of credentials. Keys are used in turn; one that the server refused
// rests. The keys themselves appear in no error.
type keys struct {
	mu   sync.Mutex
	list []string
	rest []time.Time
	next int
}

func newKeys(list []string) *keys {
	return &keys{list: list, rest: make([]time.Time, len(list))}
}

// take returns a key and its number; when all rest, the one that is ready first.
func (k *keys) take(now time.Time) (string, int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.list) == 0 {
		return "", -1
	}
	best := -1
	for i := range k.list {
		at := (k.next + i) % len(k.list)
		if !now.Before(k.rest[at]) {
			best = at
			break
		}
		if best < 0 || k.rest[at].Before(k.rest[best]) {
			best = at
		}
	}
	k.next = best + 1
	return k.list[best], best
}

// tired lets a key rest and reports whether another one is ready.
func (k *keys) tired(n int, now time.Time, pause time.Duration) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if n < 0 || len(k.list) < 2 {
		return false
	}
	k.rest[n] = now.Add(pause)
	for _, t := range k.rest {
		if !now.Before(t) {
			return true
		}
	}
	return false
}
