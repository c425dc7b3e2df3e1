package group

import "math/bits"

// masks say which of 64 bytes are which; bit i stands for byte i.
type masks struct {
	digit, zero, comma, space, minus, point, exponent uint64
}

// classifySlowly is [classify] without vectors.
func classifySlowly(b *[64]byte, m *masks) {
	*m = masks{}
	for i, c := range b {
		bit := uint64(1) << i
		switch {
		case c == '0':
			m.zero |= bit
			m.digit |= bit
		case c-'0' < 10:
			m.digit |= bit
		case c == ',':
			m.comma |= bit
		case c == ' ':
			m.space |= bit
		case c == '-':
			m.minus |= bit
		case c == '.':
			m.point |= bit
		case c|0x20 == 'e':
			m.exponent |= bit
		}
	}
}

// A lane is a mask with the top bits of the same mask of the block before.
type lane struct{ before uint64 }

// shift moves a mask n bytes on.
func (l *lane) shift(m uint64, n int) uint64 { return m<<n | l.before>>(64-n) }

// blockInts steps over whole numbers and their commas in a list of integers, 64 bytes at
// once, and returns how many. What follows is the last number, one that takes a closer
// look, or near the end of the body.
//
// What may stand behind what is a question to masks: a comma follows a digit, a space a
// comma, a minus either of those two; a digit does not follow a 0 that begins a number; a
// number has at most nine digits. The lowest bit that breaks a rule, or is none of these
// characters, ends it at the comma before.
func (s *scan) blockInts(ids bool) (n int) {
	var m masks
	var d, two, four lane
	// The byte before the first: as if a comma stood there.
	comma, space, leading := lane{1 << 63}, lane{}, lane{}
	i := s.i
	for ; i+64 <= len(s.b); i += 64 {
		classify((*[64]byte)(s.b[i:]), &m)
		afterDigit, afterComma, afterSpace := d.shift(m.digit, 1), comma.shift(m.comma, 1), space.shift(m.space, 1)
		r2 := m.digit & afterDigit
		r4 := r2 & two.shift(r2, 2)
		r8 := r4 & four.shift(r4, 4)
		first := m.zero &^ afterDigit
		bad := ^(m.digit | m.comma | m.space | m.minus) | // another character
			m.comma&^afterDigit | m.space&^afterComma | m.minus&^(afterComma|afterSpace) |
			m.digit&leading.shift(first, 1) |
			r8&two.shift(r2, 8) // the tenth digit
		if ids {
			bad |= m.minus
		}
		if bad != 0 {
			return n + s.stop(i, m.comma, bad)
		}
		d.before, comma.before, space.before, leading.before, two.before, four.before = m.digit, m.comma, m.space, first, r2, r4
		n += bits.OnesCount64(m.comma)
	}
	return n + s.stop(i, 0, 1)
}

// blockFloats is blockInts for numbers as JSON has them; those that may be too large, or
// have a plus, take a closer look.
//
// A number has at most one exponent and one point, which stands before it. To find one too
// many, the marks are added to the mask of what is no comma: of the marks between two
// commas the first carries through to the second comma and leaves a 0 behind, a later one
// leaves a 1.
func (s *scan) blockFloats() (n int) {
	var m masks
	var d, exponent, signed, first, leading, e1, e2 lane
	comma, space := lane{1 << 63}, lane{}
	var marked, raised uint64 // carries: the number at the border has a mark, an exponent
	i := s.i
	for ; i+64 <= len(s.b); i += 64 {
		classify((*[64]byte)(s.b[i:]), &m)
		afterDigit, afterE := d.shift(m.digit, 1), exponent.shift(m.exponent, 1)
		begins := comma.shift(m.comma, 1) | space.shift(m.space, 1)
		opening := m.minus & begins
		sign := m.minus & afterE
		zeros := m.zero & (begins | first.shift(opening, 1))
		x1 := m.digit & (afterE | signed.shift(sign, 1)) // first digit of an exponent
		x2 := m.digit & e1.shift(x1, 1)
		x3 := m.digit & e2.shift(x2, 1)
		inside := ^m.comma
		after, marks := bits.Add64(inside, m.point|m.exponent, marked)
		again, powers := bits.Add64(inside, m.exponent, raised)
		bad := ^(m.digit | m.comma | m.space | m.minus | m.point | m.exponent) |
			(m.comma|m.point|m.exponent)&^afterDigit | m.space&^comma.shift(m.comma, 1) | m.minus&^(begins|afterE) |
			m.digit&leading.shift(zeros, 1) | x3 |
			m.point&after | m.exponent&again
		if m.digit == ^uint64(0) { // a number of so many digits may be too large
			bad = 1
		}
		if bad != 0 {
			return n + s.stop(i, m.comma, bad)
		}
		d.before, comma.before, space.before, exponent.before = m.digit, m.comma, m.space, m.exponent
		signed.before, first.before, leading.before, e1.before, e2.before = sign, opening, zeros, x1, x2
		marked, raised = marks, powers
		n += bits.OnesCount64(m.comma)
	}
	return n + s.stop(i, 0, 1)
}

// stop goes to behind the last comma before the lowest bit of bad in the block at i, and
// returns how many commas of the block that passes.
func (s *scan) stop(i int, commas, bad uint64) int {
	commas &= bad&-bad - 1
	if commas != 0 {
		s.i = i + bits.Len64(commas)
		return bits.OnesCount64(commas)
	}
	for i > s.i && s.b[i-1] != ',' {
		i--
	}
	s.i = i
	return 0
}
