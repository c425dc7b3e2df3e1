package parsers

import (
	"errors"
	"math/bits"
	"strings"
)

// Why a JSON value could not be read.
var (
	errCut = errors.New("the text ends inside the value")
	errBad = errors.New("not JSON")
)

// maxDepth bounds nesting, so that hostile text cannot exhaust the stack.
const maxDepth = 512

// member is one key of an object; the value is text[a:b].
type member struct {
	key  string
	a, b int
}

// scanner reads JSON as Python's decoder does: NaN and Infinity pass, raw control
// characters inside strings do not unless raw is set.
type scanner struct {
	text    string
	raw     bool
	doubled *bool // set when an object has a key twice, with different values
	finite  bool  // NaN and Infinity are refused, as JSON itself does
}

// DoubledKeys reports whether an object in a JSON text has a key twice, with different values.
func DoubledKeys(text string) bool {
	var doubled bool
	s := scanner{text: text, raw: true, doubled: &doubled}
	_, err := s.value(s.space(0), 0)
	return err == nil && doubled
}

func (s scanner) space(i int) int {
	for i < len(s.text) && isSpace(s.text[i]) {
		i++
	}
	return i
}

// value returns the end of the value that begins at i.
func (s scanner) value(i, depth int) (int, error) {
	if i >= len(s.text) {
		return i, errCut
	}
	if depth > maxDepth {
		return i, errBad
	}
	switch c := s.text[i]; {
	case c == '{':
		return s.compound(i, '}', depth, nil)
	case c == '[':
		return s.compound(i, ']', depth, nil)
	case c == '"':
		return s.str(i)
	case c == '-' || c >= '0' && c <= '9':
		return s.number(i)
	}
	for _, w := range [...]string{"true", "false", "null", "NaN", "Infinity"} {
		if s.finite && w[0] < 'a' {
			break
		}
		if strings.HasPrefix(s.text[i:], w) {
			return i + len(w), nil
		}
		if strings.HasPrefix(w, s.text[i:]) {
			return len(s.text), errCut
		}
	}
	return i, errBad
}

// plainRun is the first byte of text from i on that ends or breaks a string or begins an
// escape. Eight bytes are looked at in one step.
func plainRun(text string, i int) int {
	const ones, highs = 0x0101010101010101, 0x8080808080808080
	for ; i+8 <= len(text); i += 8 {
		w := uint64(text[i]) | uint64(text[i+1])<<8 | uint64(text[i+2])<<16 | uint64(text[i+3])<<24 |
			uint64(text[i+4])<<32 | uint64(text[i+5])<<40 | uint64(text[i+6])<<48 | uint64(text[i+7])<<56
		quote, slash := w^ones*'"', w^ones*'\\'
		// the lowest high bit that is set is at the first such byte
		if hit := ((quote-ones)&^quote | (slash-ones)&^slash | (w-ones*0x20)&^w) & highs; hit != 0 {
			return i + bits.TrailingZeros64(hit)/8
		}
	}
	for i < len(text) && text[i] != '"' && text[i] != '\\' && text[i] >= 0x20 {
		i++
	}
	return i
}

// str returns the end of the string whose quote is at i.
func (s scanner) str(i int) (int, error) {
	for i++; i < len(s.text); i++ {
		i = plainRun(s.text, i)
		if i == len(s.text) {
			break
		}
		switch c := s.text[i]; {
		case c == '"':
			return i + 1, nil
		case c == '\\':
			i++
			if i < len(s.text) && !s.escape(&i) {
				return i, errBad
			}
		case c < 0x20 && !s.raw:
			return i, errBad
		}
	}
	return len(s.text), errCut
}

// escape checks the character after a backslash and moves to its last byte.
func (s scanner) escape(i *int) bool {
	switch s.text[*i] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return true
	case 'u':
		for n := 0; n < 4; n++ {
			if *i+1 >= len(s.text) {
				return true
			}
			if !isHex(s.text[*i+1]) {
				return false
			}
			*i++
		}
		return true
	}
	return false
}

func isHex(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F'
}

func (s scanner) digits(i int) int {
	for i < len(s.text) && s.text[i] >= '0' && s.text[i] <= '9' {
		i++
	}
	return i
}

func (s scanner) number(i int) (int, error) {
	if s.text[i] == '-' {
		i++
		if !s.finite && strings.HasPrefix(s.text[i:], "Infinity") {
			return i + 8, nil
		}
	}
	end := s.digits(i)
	switch {
	case end == i && end == len(s.text):
		return end, errCut
	case end == i:
		return i, errBad
	case s.text[i] == '0' && end > i+1:
		return i, errBad
	}
	if end < len(s.text) && s.text[end] == '.' {
		if f := s.digits(end + 1); f > end+1 {
			end = f
		}
	}
	if end < len(s.text) && (s.text[end] == 'e' || s.text[end] == 'E') {
		j := end + 1
		if j < len(s.text) && (s.text[j] == '+' || s.text[j] == '-') {
			j++
		}
		if f := s.digits(j); f > j {
			end = f
		}
	}
	return end, nil
}

// compound reads an object or a list; the members or items go to see when it is set.
func (s scanner) compound(i int, closer byte, depth int, see func(member)) (int, error) {
	i = s.space(i + 1)
	if i < len(s.text) && s.text[i] == closer {
		return i + 1, nil
	}
	var seen keys
	for {
		var m member
		if closer == '}' {
			if i >= len(s.text) {
				return i, errCut
			}
			if s.text[i] != '"' {
				return i, errBad
			}
			end, err := s.str(i)
			if err != nil {
				return end, err
			}
			if see != nil || s.doubled != nil {
				m.key, _ = unquote(s.text[i:end])
			}
			i = s.space(end)
			if i >= len(s.text) {
				return i, errCut
			}
			if s.text[i] != ':' {
				return i, errBad
			}
			i = s.space(i + 1)
		}
		end, err := s.value(i, depth+1)
		if err != nil {
			return end, err
		}
		m.a, m.b = i, end
		if s.doubled != nil && closer == '}' && seen.twice(s.text, m) {
			*s.doubled = true
		}
		if see != nil {
			see(m)
		}
		i = s.space(end)
		if i >= len(s.text) {
			return i, errCut
		}
		switch s.text[i] {
		case closer:
			return i + 1, nil
		case ',':
			i = s.space(i + 1)
		default:
			return i, errBad
		}
	}
}

// keys are the members of one object so far.
type keys struct {
	few  []member
	many map[string]member
}

// twice adds a member and says whether its key was there with another value.
func (k *keys) twice(text string, m member) bool {
	other := func(o member) bool { return text[o.a:o.b] != text[m.a:m.b] }
	if k.many != nil {
		o, ok := k.many[m.key]
		k.many[m.key] = m
		return ok && other(o)
	}
	for _, o := range k.few {
		if o.key == m.key && other(o) {
			return true
		}
	}
	k.few = append(k.few, m)
	if len(k.few) > 16 {
		k.many = make(map[string]member, 64)
		for _, o := range k.few {
			k.many[o.key] = o
		}
	}
	return false
}

// object reads the object at i into its members, in order.
func (s scanner) object(i int) ([]member, int, error) {
	if i >= len(s.text) {
		return nil, i, errCut
	}
	if s.text[i] != '{' {
		return nil, i, errBad
	}
	var out []member
	end, err := s.compound(i, '}', 0, func(m member) { out = append(out, m) })
	return out, end, err
}

// list reads the list at i into its items, in order.
func (s scanner) list(i int) ([]member, int, error) {
	if i >= len(s.text) {
		return nil, i, errCut
	}
	if s.text[i] != '[' {
		return nil, i, errBad
	}
	var out []member
	end, err := s.compound(i, ']', 0, func(m member) { out = append(out, m) })
	return out, end, err
}

// lookup finds the last member of a name: as in Python, the last one wins.
func lookup(ms []member, names ...string) (member, bool) {
	for _, n := range names {
		for i := len(ms) - 1; i >= 0; i-- {
			if ms[i].key == n {
				return ms[i], true
			}
		}
	}
	return member{}, false
}

// isFinite says whether text is one JSON value without NaN and Infinity outside of strings.
func isFinite(text string) bool {
	s := scanner{text: text, finite: true}
	end, err := s.value(s.space(0), 0)
	return err == nil && s.space(end) == len(text)
}

// isJSON says whether text is one JSON value, blanks around it allowed.
func isJSON(text string) bool {
	s := scanner{text: text}
	end, err := s.value(s.space(0), 0)
	return err == nil && s.space(end) == len(text)
}
