package datasets

import "hash/maphash"

// idSet is a set of 64-bit hashes in open addressing, in parts that grow one by one so
// that growing never doubles the whole.
type idSet struct {
	seed  maphash.Seed
	parts [64]idPart
}

type idPart struct {
	slots []uint64 // 0 is empty
	n     int
}

func newIDSet() *idSet { return &idSet{seed: maphash.MakeSeed()} }

// hash is never 0.
func (s *idSet) hash(id string) uint64 { return maphash.String(s.seed, id) | 1 }

// add reports whether h was new.
func (s *idSet) add(h uint64) bool {
	p := &s.parts[h>>58]
	if p.n*4 >= len(p.slots)*3 {
		old := p.slots
		p.slots = make([]uint64, max(64, len(old)*2))
		for _, o := range old {
			if o != 0 {
				*p.slot(o) = o
			}
		}
	}
	at := p.slot(h)
	if *at == h {
		return false
	}
	*at = h
	p.n++
	return true
}

// slot is the place of h, or the free one where it belongs.
func (p *idPart) slot(h uint64) *uint64 {
	mask := uint64(len(p.slots) - 1)
	for i := (h >> 1) & mask; ; i = (i + 1) & mask {
		if p.slots[i] == 0 || p.slots[i] == h {
			return &p.slots[i]
		}
	}
}
