package pipes

import (
	"sync"

	"hermes/backends"
	"hermes/backends/slotd/wire"
)

// capture keeps a bounded part of a stream and counts the rest. After seal it only
// drains.
type capture struct {
	mu     sync.Mutex
	head   []byte
	tail   []byte // a ring once it is full
	next   int    // where the ring goes on
	maxA   int
	maxB   int
	total  int64
	sealed bool
}

// newCapture makes a capture for max bytes (0: the default).
func newCapture(max int64, keep backends.Keep) *capture {
	if max <= 0 {
		max = wire.DefaultOutput
	}
	switch keep {
	case backends.KeepTail:
		return &capture{maxB: int(max)}
	case backends.KeepBoth:
		head := int(max * 4 / 10)
		return &capture{maxA: head, maxB: int(max) - head}
	}
	return &capture{maxA: int(max)}
}

// Write never fails.
func (c *capture) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.sealed {
		return len(p), nil
	}
	n := len(p)
	c.total += int64(n)
	if room := c.maxA - len(c.head); room > 0 {
		k := min(room, len(p))
		c.head = append(c.head, p[:k]...)
		p = p[k:]
	}
	if len(p) > c.maxB {
		p = p[len(p)-c.maxB:]
	}
	if room := c.maxB - len(c.tail); room > 0 {
		k := min(room, len(p))
		c.tail = append(c.tail, p[:k]...)
		p = p[k:]
	}
	for len(p) > 0 {
		k := copy(c.tail[c.next:], p)
		p = p[k:]
		c.next = (c.next + k) % len(c.tail)
	}
	return n, nil
}

// seal ends the capture and returns the kept text, the count of all bytes and of
// those left out.
func (c *capture) seal() (text []byte, total, dropped int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sealed = true
	text = append(c.head, c.tail[c.next:]...)
	text = append(text, c.tail[:c.next]...)
	return text, c.total, c.total - int64(len(text))
}
