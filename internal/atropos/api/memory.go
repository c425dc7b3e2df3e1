package api

import (
	"context"
	"slices"
	"sync"
)

// memory shares what bodies may take among those that are being read. A body holds what has
// arrived of it, not what it says that it will be: one that stops keeps no other out.
//
// Bodies that each hold a part and wait for more could wait for each other for ever. So a
// body gets more only while all others could still be read to their ends one after the
// other (Dijkstra's banker): none that was begun must be given up for another one.
type memory struct {
	most int64

	mu      sync.Mutex
	held    int64
	shares  []*share
	waiting []*wait // the longest first
}

// share is what one body holds, in bytes.
type share struct {
	of   *memory
	held int64
	most int64 // what it may come to hold
}

// wait is a body that waits until it may hold more.
type wait struct {
	*share
	held    int64
	granted chan struct{}
}

// join begins a share that holds nothing yet. The caller calls leave.
func (m *memory) join(most int64) *share {
	s := &share{of: m, most: min(most, m.most)}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.shares = append(m.shares, s)
	return s
}

// hold waits until the share may hold so many bytes in all. It reports false for more than
// it may ever hold, or when ctx has ended.
func (s *share) hold(ctx context.Context, bytes int64) bool {
	if bytes > s.most {
		return false
	}
	m := s.of
	m.mu.Lock()
	if len(m.waiting) == 0 && m.grant(s, bytes) { // none is overtaken
		m.mu.Unlock()
		return true
	}
	w := &wait{s, bytes, make(chan struct{})}
	m.waiting = append(m.waiting, w)
	m.serve()
	m.mu.Unlock()
	select {
	case <-w.granted:
		return true
	case <-ctx.Done():
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.waiting = slices.DeleteFunc(m.waiting, func(x *wait) bool { return x == w })
	m.serve()
	return false // what was granted meanwhile goes with the share
}

// leave gives back what the share holds.
func (s *share) leave() {
	m := s.of
	m.mu.Lock()
	defer m.mu.Unlock()
	m.held -= s.held
	if i := slices.Index(m.shares, s); i >= 0 {
		m.shares = slices.Delete(m.shares, i, i+1)
	}
	m.serve()
}

// serve grants what can be granted, in the order of asking: who asks for little may pass
// who asks for more than there is. The caller holds mu.
func (m *memory) serve() {
	m.waiting = slices.DeleteFunc(m.waiting, func(w *wait) bool {
		ok := m.grant(w.share, w.held)
		if ok {
			close(w.granted)
		}
		return ok
	})
}

// grant lets a share hold so many bytes, where that is safe. The caller holds mu.
func (m *memory) grant(s *share, bytes int64) bool {
	more := bytes - s.held
	if more > m.most-m.held {
		return false
	}
	before := s.held
	s.held, m.held = bytes, m.held+more
	if more <= 0 || bytes == s.most || m.safe() { // one that wants no more will give all back
		return true
	}
	s.held, m.held = before, m.held-more
	return false
}

// safe reports whether all shares can come to their ends one after the other, those that
// want least first.
func (m *memory) safe() bool {
	order := slices.SortedFunc(slices.Values(m.shares), func(a, b *share) int { return int((a.most - a.held) - (b.most - b.held)) })
	free := m.most - m.held
	for _, s := range order {
		if s.most-s.held > free {
			return false
		}
		free += s.held
	}
	return true
}
