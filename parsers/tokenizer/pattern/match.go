package pattern

import (
	"math/bits"
	"unicode/utf8"

	"hermes/parsers/tokenizer/unidata"
)

type matcher struct {
	text   string
	budget int // steps left; negative: given up
	frames int
	slots  map[int]int // star: where its current round began
}

// match returns where the match of n that begins at i ends, or -1.
func (m *matcher) match(n *node, i int) int {
	m.frames++
	if m.frames > maxFrames {
		m.budget = -1
	}
	e := m.walk(n, i)
	m.frames--
	return e
}

func (m *matcher) walk(n *node, i int) int {
	for {
		m.budget--
		if m.budget < 0 {
			return -1
		}
		switch n.op {
		case opAccept:
			return i
		case opSet:
			end, more := m.set(n, i)
			if !more {
				return end
			}
			i = end
		case opAlt:
			return m.alt(n, i)
		case opStar:
			return m.star(n, i)
		case opLook:
			if (m.match(n.sub, i) >= 0) == n.neg || m.budget < 0 {
				return -1
			}
		case opBehind:
			c, size := utf8.DecodeLastRuneInString(m.text[:i])
			if (size > 0 && n.set.has(c)) == n.neg {
				return -1
			}
		case opAtomic:
			i = m.match(n.sub, i)
			if i < 0 {
				return -1
			}
		case opAssert:
			if !m.assert(n.ch, i) {
				return -1
			}
		}
		n = n.next
	}
}

// set takes a repeated class. more says that the caller goes on behind it at the returned
// position; otherwise that is the result.
func (m *matcher) set(n *node, i int) (int, bool) {
	if n.lo == 1 && n.hi == 1 {
		end := n.set.at(m.text, i)
		return end, end >= 0
	}
	if n.mode == 'l' {
		return m.lazy(n, i), false
	}
	end, count := n.set.run(m.text, i, n.hi)
	if count < n.lo {
		return -1, false
	}
	m.budget -= count >> 3
	if count == n.lo || n.mode == 'p' || n.next.op == opAccept {
		return end, true
	}
	for {
		if e := m.match(n.next, end); e >= 0 || count == n.lo || m.budget < 0 {
			return e, false
		}
		end--
		if m.text[end] >= utf8.RuneSelf {
			_, size := utf8.DecodeLastRuneInString(m.text[:end+1])
			end -= size - 1
		}
		count--
	}
}

func (m *matcher) lazy(n *node, i int) int {
	for count := 0; ; count++ {
		if count >= n.lo {
			if e := m.match(n.next, i); e >= 0 || m.budget < 0 {
				return e
			}
		}
		if count == n.hi {
			return -1
		}
		i = n.set.at(m.text, i)
		if i < 0 {
			return -1
		}
	}
}

func (m *matcher) alt(n *node, i int) int {
	if n.masks == nil {
		for _, a := range n.alts {
			if e := m.match(a, i); e >= 0 || m.budget < 0 {
				return e
			}
		}
		return -1
	}
	b := byte(utf8.RuneSelf)
	if i < len(m.text) {
		b = min(b, m.text[i])
	} else {
		b = utf8.RuneSelf
	}
	for mask := n.masks[b]; mask != 0; mask &= mask - 1 {
		if e := m.match(n.alts[bits.TrailingZeros64(mask)], i); e >= 0 || m.budget < 0 {
			return e
		}
	}
	return -1
}

// star takes another round of its body, or goes on. A round that took nothing ends it.
func (m *matcher) star(n *node, i int) int {
	if m.slots == nil {
		m.slots = map[int]int{}
	}
	before, again := m.slots[n.slot]
	if again && before == i+1 {
		return m.match(n.next, i)
	}
	round := func() int {
		m.slots[n.slot] = i + 1
		e := m.match(n.alts[0], i)
		m.slots[n.slot] = before
		return e
	}
	if n.mode == 'l' {
		m.slots[n.slot] = 0
		if e := m.match(n.next, i); e >= 0 || m.budget < 0 {
			return e
		}
		return round()
	}
	if e := round(); e >= 0 || m.budget < 0 {
		return e
	}
	return m.match(n.next, i)
}

func (m *matcher) assert(ch byte, i int) bool {
	switch ch {
	case 'A':
		return i == 0
	case 'z':
		return i == len(m.text)
	case 'Z':
		return i == len(m.text) || i == len(m.text)-1 && m.text[i] == '\n'
	case '^':
		return i == 0 || m.text[i-1] == '\n' && i < len(m.text)
	case '$':
		return i == len(m.text) || m.text[i] == '\n'
	}
	word := func(c rune, size int) bool { return size > 0 && unidata.Flags().Is(c, unidata.OnigWord) }
	edge := word(utf8.DecodeLastRuneInString(m.text[:i])) != word(utf8.DecodeRuneInString(m.text[i:]))
	return edge == (ch == 'b')
}
