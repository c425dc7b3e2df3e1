package group

import (
	"encoding/binary"
	"math/bits"
)

// state is how a list of numbers ended.
type state int

const (
	fine  state = iota // read whole
	other              // it holds something that is not such a number: ask the slow reader
)

// maxDigits is how many digits an integer may have to be in range of 31 bits whatever
// they are.
const maxDigits = 9

// ints reads a list of integers whose bracket is behind it and returns their number.
// What it cannot read at a glance (a string, 1.0, broken JSON) is left to the slow
// reader. With ids, numbers are demanded to lie in [0, 2³¹).
func (s *scan) ints(ids bool) (int, state) {
	if !s.wide {
		return s.wordInts(ids)
	}
	if s.space(); s.at() == ']' {
		s.i++
		return 0, fine
	}
	for n := 1; ; n++ {
		n += s.blockInts(ids)
		if last, st := s.int(ids); last || st != fine {
			return n, st
		}
	}
}

// wordInts is ints for machines without vectors.
//
// Eight bytes are classified at once, a flag in the top bit of each lane: digit, comma,
// space or minus. Which may follow which is then a question to whole words: a comma
// follows a digit, a space a comma, a minus either of those two; a digit does not follow
// a 0 that begins a number; a number has at most nine digits.
func (s *scan) wordInts(ids bool) (int, state) {
	b, i, commas := s.b, s.i, 0
	// The lane before the first word: as if a comma stood there.
	var d0, z0, s0 uint64
	c0, run := uint64(0x80), 0
	for i+8 <= len(b) {
		w := binary.LittleEndian.Uint64(b[i:])
		x := w ^ '0'*ones
		if w&high != 0 {
			break
		}
		d := ^(x + 0x76*ones) & high
		c := ^((w ^ ','*ones) + 0x7f*ones) & high
		var sp, m uint64
		if d|c != high {
			sp = ^((w ^ ' '*ones) + 0x7f*ones) & high
			m = ^((w ^ '-'*ones) + 0x7f*ones) & high
			if d|c|sp|m != high || ids && m != 0 {
				break
			}
		}
		afterD, afterC, afterS := d<<8|d0, c<<8|c0, sp<<8|s0
		zero := ^(x + 0x7f*ones) & high &^ afterD
		if c&^afterD|sp&^afterC|m&^(afterC|afterS)|d&(zero<<8|z0) != 0 {
			break
		}
		if run+bits.TrailingZeros64(d^high)>>3 > maxDigits { // 8 when all are digits
			break
		}
		run = bits.LeadingZeros64(d^high) >> 3
		if d == high {
			break
		}
		commas += bits.OnesCount64(c)
		d0, c0, s0, z0 = d>>56, c>>56, sp>>56, zero>>56
		i += 8
	}
	for i > s.i && (b[i-1]-'0' < 10 || b[i-1] == '-') { // back to where this number begins
		i--
	}
	return s.intsFrom(i, commas, ids)
}

// intsFrom reads on from where a number or the end of the list must stand.
func (s *scan) intsFrom(i, n int, ids bool) (int, state) {
	empty := i == s.i // nothing has been read
	s.i = i
	if s.space(); empty && s.at() == ']' {
		s.i++
		return 0, fine
	}
	for {
		n++
		if last, st := s.int(ids); last || st != fine {
			return n, st
		}
	}
}

// int reads one integer and what separates it from the next, or ends the list.
func (s *scan) int(ids bool) (last bool, st state) {
	s.space()
	if s.at() == '-' {
		if ids {
			return false, other
		}
		s.i++
	}
	from := s.i
	s.digits()
	long := s.i - from
	if long == 0 || long > maxDigits && (ids || !s.rules.Types) || long > 1 && s.b[from] == '0' {
		return false, other
	}
	s.space()
	switch s.at() {
	case ']':
		s.i++
		return true, fine
	case ',':
		s.i++
		return false, fine
	}
	return false, other
}

// floats reads a list of numbers whose bracket is behind it and returns their number.
func (s *scan) floats() (int, state, error) {
	if s.space(); s.at() == ']' {
		s.i++
		return 0, fine, nil
	}
	for n := 1; ; n++ {
		if s.wide {
			n += s.blockFloats()
		} else {
			n += s.plainFloats()
		}
		if s.at() <= ' ' {
			s.space()
		}
		switch s.at() {
		case '"', 't', 'f', 'n', '[', '{':
			return 0, other, nil
		}
		if err := s.number(); err != nil {
			return 0, fine, err
		}
		if s.at() != ',' && s.at() != ']' {
			s.space()
		}
		switch s.at() {
		case ']':
			s.i++
			return n, fine, nil
		case ',':
			s.i++
			if s.at() <= ' ' {
				s.space()
			}
		default:
			return 0, fine, s.bad("expected , or ]")
		}
	}
}

// plainFloats steps over numbers of one digit, a point, some digits and a comma, with or
// without a minus and a space behind the comma, as log-probabilities are. It returns how
// many; what follows is something else, or near the end.
func (s *scan) plainFloats() (n int) {
	b, i := s.b, s.i
	for i+4 <= len(b) {
		k := i
		if b[k] == '-' {
			k++
		}
		if b[k]-'0' > 9 || b[k+1] != '.' {
			break
		}
		k += 2
		first := k
		for k+8 <= len(b) {
			x := binary.LittleEndian.Uint64(b[k:]) ^ '0'*ones
			if no := (x + 0x76*ones | x) & high; no != 0 {
				k += bits.TrailingZeros64(no) >> 3
				break
			}
			k += 8
		}
		if k == first || k+2 > len(b) || b[k] != ',' {
			break
		}
		if k++; b[k] == ' ' {
			k++
		}
		i, n = k, n+1
	}
	s.i = i
	return n
}
