package pattern

import "fmt"

type op uint8

const (
	opAccept op = iota
	opSet       // lo to hi code points of set, then next
	opAlt       // one of alts, each of which goes on to what follows
	opStar      // alts[0] any number of times (it leads back here), then next
	opLook      // sub must (or with neg must not) match here
	opBehind    // the code point before must be in set
	opAtomic    // sub, then next, without going back into sub
	opAssert
)

type node struct {
	op     op
	mode   byte
	neg    bool
	ch     byte
	lo, hi int
	set    *set
	sub    *node
	alts   []*node
	masks  *[129]uint64 // which alternatives may match by first byte; [128] is for non-ASCII and [128] at the end
	next   *node
	slot   int // of a star: where its last start is kept
}

type compiler struct {
	nodes int
	slots int
	work  int // calls of firsts, which branches
	sets  map[string]*set
}

func (c *compiler) set(r ranges) *set {
	key := fmt.Sprint(r)
	if s, ok := c.sets[key]; ok {
		return s
	}
	s := newSet(r)
	c.sets[key] = s
	return s
}

// build compiles t so that it goes on to next.
func (c *compiler) build(t *tree, next *node) *node {
	c.nodes++
	if c.nodes > maxNodes || len(c.sets) > maxSets {
		return next
	}
	switch t.kind {
	case kSet:
		return &node{op: opSet, mode: 'g', lo: 1, hi: 1, set: c.set(t.set), next: next}
	case kCat:
		for i := len(t.kids) - 1; i >= 0; i-- {
			next = c.build(t.kids[i], next)
		}
		return next
	case kAlt:
		n := &node{op: opAlt}
		for _, k := range t.kids {
			n.alts = append(n.alts, c.build(k, next))
		}
		c.dispatch(n)
		return n
	case kRepeat:
		return c.repeat(t, next)
	case kAtomic:
		return &node{op: opAtomic, sub: c.build(t.kids[0], &node{op: opAccept}), next: next}
	case kAssert:
		return &node{op: opAssert, ch: t.ch, next: next}
	}
	k := t.kids[0]
	if t.behind {
		for k.kind == kCat {
			k = k.kids[0]
		}
		return &node{op: opBehind, neg: t.neg, set: c.set(k.set), next: next}
	}
	return &node{op: opLook, neg: t.neg, sub: c.build(k, &node{op: opAccept}), next: next}
}

func (c *compiler) repeat(t *tree, next *node) *node {
	k := t.kids[0]
	for k.kind == kCat && len(k.kids) == 1 {
		k = k.kids[0]
	}
	if k.kind == kSet {
		return &node{op: opSet, mode: t.mode, lo: t.lo, hi: t.hi, set: c.set(k.set), next: next}
	}
	if t.mode == 'p' {
		greedy := *t
		greedy.mode = 'g'
		return &node{op: opAtomic, sub: c.repeat(&greedy, &node{op: opAccept}), next: next}
	}
	after := next
	if t.hi < 0 {
		star := &node{op: opStar, mode: t.mode, next: next, slot: c.slots}
		c.slots++
		star.alts = []*node{c.build(k, star)}
		after = star
	}
	for i := t.lo; i < t.hi; i++ {
		n := &node{op: opAlt, alts: []*node{c.build(k, after), next}}
		if t.mode == 'l' {
			n.alts[0], n.alts[1] = n.alts[1], n.alts[0]
		}
		after = n
	}
	for i := 0; i < t.lo && c.nodes <= maxNodes; i++ {
		after = c.build(k, after)
	}
	return after
}

// dispatch finds for every first byte which alternatives can match at all.
func (c *compiler) dispatch(n *node) {
	if len(n.alts) > 64 {
		return
	}
	n.masks = new([129]uint64)
	for i, a := range n.alts {
		f, bit := c.firsts(a, 0), uint64(1)<<i
		if f == nil {
			for b := range n.masks {
				n.masks[b] |= bit
			}
			continue
		}
		s := newSet(f)
		for b := range rune(128) {
			if s.has(b) {
				n.masks[b] |= bit
			}
		}
		if f[len(f)-1][1] > 127 {
			n.masks[128] |= bit
		}
	}
}

// firsts returns the code points that a match of n can begin with; nil if it can be empty
// or is not known.
func (c *compiler) firsts(n *node, depth int) ranges {
	c.work++
	if depth > 40 || c.work > maxWork {
		return nil
	}
	switch n.op {
	case opSet:
		if n.lo > 0 {
			return nonNil(n.set.src)
		}
		rest := c.firsts(n.next, depth+1)
		if rest == nil {
			return nil
		}
		return normal(append(append(ranges(nil), n.set.src...), rest...))
	case opAlt:
		var all ranges
		for _, a := range n.alts {
			f := c.firsts(a, depth+1)
			if f == nil || len(n.alts) > 64 {
				return nil
			}
			all = append(all, f...)
		}
		return normal(all)
	}
	return nil
}

// nonNil keeps an empty class apart from an unknown one.
func nonNil(r ranges) ranges {
	if len(r) == 0 {
		return nil
	}
	return r
}
