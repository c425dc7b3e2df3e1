package servers

import (
	"errors"
	"fmt"
	"math"
	"strconv"

	"hermes/trajectory"
)

// numbers walks over JSON lists of numbers, whose syntax was checked before.
type numbers struct {
	b   []byte
	at  int
	bad error
}

func (s *numbers) space() {
	for s.at < len(s.b) && (s.b[s.at] == ' ' || s.b[s.at] == '\n' || s.b[s.at] == '\t' || s.b[s.at] == '\r') {
		s.at++
	}
}

func (s *numbers) null() bool { return string(s.b) == "null" }

// list enters a list.
func (s *numbers) list() {
	if s.space(); s.at < len(s.b) && s.b[s.at] == '[' {
		s.at++
		return
	}
	if s.bad == nil {
		s.bad = fmt.Errorf("no list of numbers near %.20q", s.b[min(s.at, len(s.b)):])
	}
}

// more reports whether the list goes on, and steps behind its end when it does not.
func (s *numbers) more() bool {
	if s.bad != nil {
		return false
	}
	if s.space(); s.at < len(s.b) && s.b[s.at] == ',' {
		s.at++
		s.space()
	}
	if s.at >= len(s.b) {
		return false
	}
	if s.b[s.at] == ']' {
		s.at++
		return false
	}
	return true
}

func (s *numbers) word() []byte {
	from := s.at
	for s.at < len(s.b) && s.b[s.at] != ',' && s.b[s.at] != ']' && s.b[s.at] > ' ' {
		s.at++
	}
	return s.b[from:s.at]
}

func (s *numbers) id() (trajectory.Token, error) {
	w := s.word()
	n := int64(0)
	for i, c := range w {
		if c < '0' || c > '9' || i > 9 {
			n = -1
			break
		}
		n = n*10 + int64(c-'0')
	}
	if n < 0 || n > math.MaxInt32 || len(w) == 0 {
		return 0, fmt.Errorf("%.40q is not a token id", w)
	}
	return trajectory.Token(n), nil
}

// float reads a number; null and words such as NaN are NaN.
func (s *numbers) float() (float32, error) {
	w := s.word()
	if string(w) == "null" {
		return float32(math.NaN()), nil
	}
	v, err := strconv.ParseFloat(string(w), 32)
	if err != nil && !errors.Is(err, strconv.ErrRange) {
		return 0, fmt.Errorf("%.40q is not a log-prob", w)
	}
	return float32(v), nil
}

// skip steps over a value that is a word, a string or null.
func (s *numbers) skip() {
	if s.b[s.at] != '"' {
		if len(s.word()) == 0 {
			s.at++ // a stray bracket: move on
		}
		return
	}
	for s.at++; s.at < len(s.b) && s.b[s.at] != '"'; s.at++ {
		if s.b[s.at] == '\\' {
			s.at++
		}
	}
	s.at++
}

func (s *numbers) err() error { return s.bad }
