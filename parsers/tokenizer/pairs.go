package tokenizer

import (
	"hash/maphash"
	"math/bits"
	"strings"
	"sync/atomic"

	"hermes/trajectory"
)

const noRank = ^uint32(0)

// pairs maps two neighbouring symbols to the rank of their merge and its result: open
// addressing, 16 bytes a slot.
type pairs struct {
	slots []pairSlot
	shift uint8
	n     int
}

type pairSlot struct {
	key    uint64 // left<<32 | right, plus 1; 0 is free
	rank   uint32
	merged int32
}

func newPairs(n int) pairs {
	size := bits.Len(uint(n + n/3 + 8))
	return pairs{slots: make([]pairSlot, 1<<size), shift: uint8(64 - size)}
}

func (p *pairs) find(left, right int32) *pairSlot {
	key := (uint64(uint32(left))<<32 | uint64(uint32(right))) + 1
	mask := uint64(len(p.slots) - 1)
	for i := key * 0x9E3779B97F4A7C15 >> p.shift; ; i++ {
		s := &p.slots[i&mask]
		if s.key == key || s.key == 0 {
			return s
		}
	}
}

// put sets a pair; a later one wins. The table must have been made for as many.
func (p *pairs) put(left, right int32, rank uint32, merged int32) {
	s := p.find(left, right)
	if s.key == 0 {
		p.n++
	}
	*s = pairSlot{(uint64(uint32(left))<<32 | uint64(uint32(right))) + 1, rank, merged}
}

func (p *pairs) get(left, right int32) (uint32, int32) {
	if s := p.find(left, right); s.key != 0 {
		return s.rank, s.merged
	}
	return noRank, none
}

// heap64 is a binary heap, least first.
type heap64 []uint64

func (h *heap64) push(v uint64) {
	*h = append(*h, v)
	a := *h
	for i := len(a) - 1; i > 0; {
		up := (i - 1) / 2
		if a[up] <= a[i] {
			return
		}
		a[up], a[i] = a[i], a[up]
		i = up
	}
}

func (h *heap64) pop() uint64 {
	a := *h
	top, last := a[0], len(a)-1
	a[0] = a[last]
	a = a[:last]
	*h = a
	for i := 0; ; {
		k := 2*i + 1
		if k >= last {
			return top
		}
		if k+1 < last && a[k+1] < a[k] {
			k++
		}
		if a[i] <= a[k] {
			return top
		}
		a[i], a[k] = a[k], a[i]
		i = k
	}
}

const (
	cacheSlots = 1 << 15 // words kept per tokenizer
	maxCached  = 96      // bytes of a word that is kept
)

// wordCache keeps the tokens of recent words. A slot belongs to a hash; a new word takes
// it over, so the cache is bounded and needs no lock.
type wordCache struct {
	seed  maphash.Seed
	slots []atomic.Pointer[cached]
}

type cached struct {
	word string
	ids  []trajectory.Token
}

func newWordCache() wordCache {
	return wordCache{maphash.MakeSeed(), make([]atomic.Pointer[cached], cacheSlots)}
}

func (c *wordCache) get(word string) (uint64, []trajectory.Token) {
	slot := maphash.String(c.seed, word) % cacheSlots
	if e := c.slots[slot].Load(); e != nil && e.word == word {
		return slot, e.ids
	}
	return slot, nil
}

func (c *wordCache) put(slot uint64, word string, ids []trajectory.Token) {
	if len(ids) > 0 {
		c.slots[slot].Store(&cached{strings.Clone(word), append([]trajectory.Token(nil), ids...)})
	}
}
