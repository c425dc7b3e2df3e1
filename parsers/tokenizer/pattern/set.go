package pattern

import (
	"slices"
	"unicode/utf8"
)

// ranges is a set of code points: sorted, disjoint, not touching.
type ranges [][2]rune

func normal(r ranges) ranges {
	r = slices.Clone(r)
	slices.SortFunc(r, func(a, b [2]rune) int { return int(a[0] - b[0]) })
	var out ranges
	for _, x := range r {
		if n := len(out); n > 0 && x[0] <= out[n-1][1]+1 {
			out[n-1][1] = max(out[n-1][1], x[1])
			continue
		}
		out = append(out, x)
	}
	return out
}

func (r ranges) not() ranges {
	var out ranges
	at := rune(0)
	for _, x := range r {
		if at < x[0] {
			out = append(out, [2]rune{at, x[0] - 1})
		}
		at = x[1] + 1
	}
	if at <= utf8.MaxRune {
		out = append(out, [2]rune{at, utf8.MaxRune})
	}
	return out
}

func (r ranges) and(o ranges) ranges {
	return normal(append(slices.Clone(r.not()), o.not()...)).not()
}

// set is a compiled class: a bit per ASCII byte, shared pages of bits for the rest.
type set struct {
	ascii [2]uint64
	page  *[0x1100]uint16
	leaf  [][4]uint64
	src   ranges
}

func newSet(r ranges) *set {
	s := &set{page: new([0x1100]uint16), src: r, leaf: make([][4]uint64, 2)}
	s.leaf[1] = [4]uint64{^uint64(0), ^uint64(0), ^uint64(0), ^uint64(0)}
	for _, x := range r {
		for c := x[0]; c <= x[1]; {
			p := c >> 8
			end := min(x[1], p<<8|255)
			if c&255 == 0 && end&255 == 255 {
				s.page[p] = 1
			} else {
				if s.page[p] == 0 {
					s.page[p] = uint16(len(s.leaf))
					s.leaf = append(s.leaf, [4]uint64{})
				}
				for ; c <= end; c++ {
					s.leaf[s.page[p]][c>>6&3] |= 1 << (c & 63)
				}
			}
			c = end + 1
		}
	}
	copy(s.ascii[:], s.leaf[s.page[0]][:2])
	return s
}

func (s *set) has(c rune) bool {
	return s.leaf[s.page[uint32(c)>>8]][c>>6&3]>>(c&63)&1 != 0
}

// at matches one code point at position i and returns the position behind it, or -1.
func (s *set) at(text string, i int) int {
	if i >= len(text) {
		return -1
	}
	if c := text[i]; c < utf8.RuneSelf {
		if s.ascii[c>>6]>>(c&63)&1 != 0 {
			return i + 1
		}
		return -1
	}
	c, n := utf8.DecodeRuneInString(text[i:])
	if s.has(c) {
		return i + n
	}
	return -1
}

// run matches at most limit code points (negative: any number) and returns the position
// behind them and how many they were.
func (s *set) run(text string, i, limit int) (int, int) {
	n := 0
	for i < len(text) && n != limit {
		c := text[i]
		if c < utf8.RuneSelf {
			if s.ascii[c>>6]>>(c&63)&1 == 0 {
				break
			}
			i, n = i+1, n+1
			continue
		}
		r, size := utf8.DecodeRuneInString(text[i:])
		if !s.has(r) {
			break
		}
		i, n = i+size, n+1
	}
	return i, n
}
