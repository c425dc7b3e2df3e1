package engine

import (
	"context"
	"runtime/metrics"
	"sync"
	"time"

	"hermes/trajectory"
)

// What admission assumes of memory.
const (
	// garbageShare is the part of a budget that is left to what is dead but not yet
	// collected: 30 %. The caller sets the runtime's own limit to the budget.
	garbageShare = 0.3
	// firstGuess is what a rollout is assumed to need before any has ended: a
	// conversation of 24 kB, twice (as messages and as a request's body), goroutine,
	// connection and book-keeping.
	firstGuess = 96 << 10
	// perToken is what a token of an exact rollout needs: id and log-prob in the trace, the id
	// again in the prompt, and both as text in the last request and its answer.
	perToken = 4 + 4 + 4 + 8 + 16
	// fixedPart is what a rollout needs beside its conversation.
	fixedPart = 40 << 10
	// firstFew is how many rollouts outweigh a guess.
	firstFew = 16
	// lookAgain is how often memory is looked at while admission waits for it.
	lookAgain = time.Second
)

// memory lets rollouts in while there is room for what they will have grown to. A rollout
// that runs is never stopped for it, and one may always run. It is safe for concurrent
// use, but only one goroutine may wait.
type memory struct {
	budget float64 // live bytes
	used   func() int64
	base   float64 // used before the first rollout

	mu     sync.Mutex
	flying int
	each   float64 // live bytes of a rollout at its end, learned

	learned int           // from how many
	ended   chan struct{} // holds a token when one ended
}

// newMemory returns nil, which never waits, for a limit of 0.
func newMemory(limit, guess int64, used func() int64) *memory {
	if limit == 0 {
		return nil
	}
	if used == nil {
		used = live
	}
	return &memory{budget: float64(limit) * (1 - garbageShare), used: used, base: float64(used()), each: float64(max(firstGuess, guess)), ended: make(chan struct{}, 1)}
}

// wait returns when there is room for one more rollout; short is called when it must wait.
func (m *memory) wait(ctx context.Context, short func(used, each int64)) error {
	if m == nil || m.room() {
		return nil
	}
	m.mu.Lock()
	each := int64(m.each)
	m.mu.Unlock()
	short(m.used(), each)
	tick := time.NewTicker(lookAgain)
	defer tick.Stop()
	for !m.room() {
		select {
		case <-m.ended:
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// room reports whether one more rollout fits: beside what is used, and beside what those
// that run will have grown to.
func (m *memory) room() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.flying == 0 {
		return true
	}
	planned := m.base + float64(m.flying)*m.each
	return max(float64(m.used()), planned)+m.each <= m.budget
}

func (m *memory) begin() {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.flying++
}

// end gives a rollout's room back.
func (m *memory) end() {
	if m == nil {
		return
	}
	m.mu.Lock()
	m.flying--
	m.mu.Unlock()
	select {
	case m.ended <- struct{}{}:
	default:
	}
}

// learn takes the size of a finished rollout into account. Large ones count at once,
// small ones slowly: too much memory is the worse mistake.
func (m *memory) learn(rec *trajectory.Record) {
	if m == nil || rec.Trace == nil {
		return
	}
	size := float64(fixedPart + 2*textOf(rec.Trace) + perToken*tokensOf(rec.Trace))
	m.mu.Lock()
	defer m.mu.Unlock()
	share := 1.0 / 64
	m.learned++
	if m.learned <= firstFew {
		share = 1.0 / 4 // what was guessed counts for little
	}
	if size > m.each {
		share = 1.0 / 4
	}
	m.each += (size - m.each) * share
}

// tokensOf is how many tokens a trace holds; text has none.
func tokensOf(t *trajectory.Trace) int64 {
	n := 0
	for i := range t.Nodes {
		n += len(t.Nodes[i].Delta.Tokens)
	}
	return int64(n)
}

// GuessTokens is what an exact rollout of so many tokens is assumed to need before any has
// ended, with 4 bytes of text a token, held twice.
func GuessTokens(n int64) int64 { return firstGuess + (perToken+8)*n }

// textOf is the length of all text of a trace, in bytes.
func textOf(t *trajectory.Trace) int64 {
	n := 0
	for _, node := range t.Nodes {
		m := node.Delta.Message
		n += len(m.Reasoning) + len(m.Opaque)
		for _, p := range m.Parts {
			n += len(p.Text) + len(p.URL)
		}
		for _, c := range m.Calls {
			n += len(c.Arguments)
		}
	}
	return int64(n)
}

// live is what this process cannot do without: the heap that the last collection found
// alive, stacks, and the runtime's own structures.
func live() int64 {
	s := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/memory/classes/heap/stacks:bytes"}, {Name: "/memory/classes/metadata/mspan/inuse:bytes"}, {Name: "/memory/classes/metadata/other:bytes"}}
	metrics.Read(s)
	var sum uint64
	for _, v := range s {
		if v.Value.Kind() == metrics.KindUint64 {
			sum += v.Value.Uint64()
		}
	}
	return int64(sum)
}
