package control

import (
	"sync"
	"time"

	"hermes/rollout/event"
	"hermes/trajectory"
)

// window is the time over which rates are means, in seconds.
const window = 60

// Meter watches a run for its [Status]: how fast it is, and how far each rollout has come.
// It is an observer, safe for concurrent use.
type Meter struct {
	now   func() time.Time
	begun time.Time

	mu     sync.Mutex
	slots  [window]second
	newest int64
	flying map[trajectory.Key]progress
}

type second struct{ samples, tokens, requests int64 }

type progress struct{ attempt, turns int }

// NewMeter begins to count now; nil means time.Now.
func NewMeter(now func() time.Time) *Meter {
	if now == nil {
		now = time.Now
	}
	return &Meter{now: now, begun: now(), flying: map[trajectory.Key]progress{}}
}

// Observe implements event.Observer.
func (m *Meter) Observe(e event.Event) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch e := e.(type) {
	case event.RolloutStarted:
		m.flying[e.Key] = progress{attempt: e.Attempt}
	case event.TurnEnded:
		p := m.flying[e.Key]
		p.turns++
		m.flying[e.Key] = p
		if !e.Replay {
			s := m.slot()
			s.requests++
			s.tokens += e.Usage.Completion
		}
	case event.RolloutCancelled:
		delete(m.flying, e.Key)
	case event.RolloutEnded:
		delete(m.flying, e.Key)
		m.slot().samples++
	}
}

// slot is the present second; those between it and the last one are emptied.
func (m *Meter) slot() *second {
	now := max(int64(m.now().Sub(m.begun)/time.Second), m.newest)
	for s := m.newest + 1; s <= now && s <= m.newest+window; s++ {
		m.slots[s%window] = second{}
	}
	m.newest = now
	return &m.slots[now%window]
}

// Rates are the means of the last minute, or since the beginning when that is less.
func (m *Meter) Rates() Rates {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.slot()
	var sum second
	for _, s := range m.slots {
		sum.samples += s.samples
		sum.tokens += s.tokens
		sum.requests += s.requests
	}
	over := float64(min(m.newest+1, window))
	return Rates{Seconds: over, SamplesAMinute: 60 * float64(sum.samples) / over,
		TokensASecond: float64(sum.tokens) / over, RequestsASecond: float64(sum.requests) / over}
}

// Progress tells which attempt at a sample is going on, and how many answers it has.
func (m *Meter) Progress(k trajectory.Key) (attempt, turns int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	p := m.flying[k]
	return p.attempt, p.turns
}
