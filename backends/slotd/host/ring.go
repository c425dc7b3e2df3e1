package host

import (
	"bytes"
	"sync"
)

// ring keeps the newest bytes of a stream and knows their offsets.
type ring struct {
	mu    sync.Mutex
	data  []byte
	max   int
	total int64
	lines int64 // line feeds among all bytes ever written
}

func newRing(max int) *ring { return &ring{max: max} }

// Write never fails.
func (r *ring) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := len(p)
	r.total += int64(n)
	r.lines += int64(bytes.Count(p, []byte{'\n'}))
	if len(p) > r.max {
		p = p[len(p)-r.max:]
	}
	if len(r.data)+len(p) > 2*r.max { // compact seldom, so that writing stays linear
		r.data = append(r.data[:0], r.data[len(r.data)-(r.max-len(p)):]...)
	}
	r.data = append(r.data, p...)
	return n, nil
}

// written is the count of all bytes ever written.
func (r *ring) written() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.total
}

// from copies at most most bytes (0: all) from offset off on; first is where they begin, and
// lines are the line feeds before that.
func (r *ring) from(off, most int64) (data []byte, first, lines int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	kept := r.data
	if len(kept) > r.max {
		kept = kept[len(kept)-r.max:]
	}
	oldest := r.total - int64(len(kept))
	first = min(max(off, oldest), r.total)
	kept = kept[first-oldest:]
	lines = r.lines - int64(bytes.Count(kept, []byte{'\n'}))
	if most > 0 && int64(len(kept)) > most {
		kept = kept[:most]
	}
	return append([]byte(nil), kept...), first, lines
}
