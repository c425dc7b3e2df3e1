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
	if s.space(); s.at() == ']' {
		s.i++
		return 0, fine
	}
	for n := 1; ; n++ {
		n += s.plainInts(ids)
		if last, st := s.int(ids); last || st != fine {
			return n, st
		}
	}
}

// plainInts steps over integers of at most seven digits and their commas, with or without
// a minus and a space before them. It returns how many; what follows is something else,
// or near the end.
func (s *scan) plainInts(ids bool) (n int) {
	b, i := s.b, s.i
	for i+10 <= len(b) {
		k := i
		if b[k] == ' ' {
			k++
		}
		if b[k] == '-' && !ids {
			k++
		}
		x := binary.LittleEndian.Uint64(b[k:]) ^ '0'*ones // a digit is now its value
		other := (x + 0x76*ones | x) & high
		bit := bits.TrailingZeros64(other) &^ 7 // where the number ends; 64 when all are digits
		if bit == 0 || byte(x>>bit) != ','^'0' || byte(x) == 0 && bit > 8 {
			break
		}
		i, n = k+bit>>3+1, n+1
	}
	s.i = i
	return n
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
		n += s.plainFloats()
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
		k++
		if b[k] == ' ' {
			k++
		}
		i, n = k, n+1
	}
	s.i = i
	return n
}
