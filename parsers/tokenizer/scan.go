package tokenizer

import (
	"bytes"
	"encoding/json"
	"strconv"
	"unicode/utf8"
)

// scanner walks JSON without building it: vocabularies are large, and encoding/json
// would pass over them three times.
type scanner struct {
	b  []byte
	at int
}

const maxNesting = 200

func (s *scanner) fail(what string) error { return malformed("byte %d: %s", s.at, what) }

func (s *scanner) space() byte {
	for s.at < len(s.b) {
		switch c := s.b[s.at]; c {
		case ' ', '\n', '\t', '\r':
			s.at++
		default:
			return c
		}
	}
	return 0
}

func (s *scanner) expect(c byte) error {
	if s.space() != c {
		return s.fail("expected " + strconv.QuoteRune(rune(c)))
	}
	s.at++
	return nil
}

// more steps to the next element of a list that ends with end; first says that none was read.
func (s *scanner) more(end byte, first bool) (bool, error) {
	c := s.space()
	if c == end {
		s.at++
		return false, nil
	}
	if first {
		return true, nil
	}
	return true, s.expect(',')
}

// object calls f at the value of every key; f must consume it.
func (s *scanner) object(f func(key string) error) error {
	if err := s.expect('{'); err != nil {
		return err
	}
	for first := true; ; first = false {
		if ok, err := s.more('}', first); err != nil || !ok {
			return err
		}
		key, err := s.text()
		if err == nil {
			err = s.expect(':')
		}
		if err == nil {
			err = f(key)
		}
		if err != nil {
			return err
		}
	}
}

// array calls f at every element.
func (s *scanner) array(f func() error) error {
	if err := s.expect('['); err != nil {
		return err
	}
	for first := true; ; first = false {
		if ok, err := s.more(']', first); err != nil || !ok {
			return err
		}
		if err := f(); err != nil {
			return err
		}
	}
}

// value skips one value and returns it.
func (s *scanner) value() ([]byte, error) {
	s.space()
	start := s.at
	if err := s.skip(0); err != nil {
		return nil, err
	}
	return s.b[start:s.at], nil
}

func (s *scanner) skip(depth int) error {
	if depth > maxNesting {
		return s.fail("nested too deeply")
	}
	switch c := s.space(); c {
	case '{':
		return s.object(func(string) error { return s.skip(depth + 1) })
	case '[':
		return s.array(func() error { return s.skip(depth + 1) })
	case '"':
		_, err := s.quoted()
		return err
	case 0:
		return s.fail("unexpected end")
	}
	start := s.at
	for s.at < len(s.b) && bytes.IndexByte([]byte(" \n\t\r,]}"), s.b[s.at]) < 0 {
		s.at++
	}
	if !json.Valid(s.b[start:s.at]) {
		s.at = start
		return s.fail("bad value")
	}
	return nil
}

// quoted returns a string with its quotes, unchecked inside.
func (s *scanner) quoted() ([]byte, error) {
	if s.space() != '"' {
		return nil, s.fail("expected a string")
	}
	start := s.at
	for i := s.at + 1; i < len(s.b); i++ {
		switch s.b[i] {
		case '\\':
			i++
		case '"':
			s.at = i + 1
			return s.b[start:s.at], nil
		}
	}
	return nil, s.fail("string without an end")
}

// text reads a string.
func (s *scanner) text() (string, error) {
	start := s.at
	q, err := s.quoted()
	if err != nil {
		return "", err
	}
	in := q[1 : len(q)-1]
	plain := true
	for _, c := range in {
		if c == '\\' || c < ' ' {
			plain = false
			break
		}
	}
	if plain && utf8.Valid(in) {
		return string(in), nil
	}
	var out string
	if err := json.Unmarshal(q, &out); err != nil || !utf8.Valid(in) {
		s.at = start
		return "", s.fail("bad string")
	}
	return out, nil
}

// number reads a non-negative integer below limit.
func (s *scanner) number(limit int) (int, error) {
	c := s.space()
	start, v := s.at, 0
	for ; '0' <= c && c <= '9' && v <= limit; c = s.b[s.at] {
		v = v*10 + int(c-'0')
		s.at++
		if s.at == len(s.b) {
			break
		}
	}
	if s.at == start || v >= limit {
		return 0, s.fail("not an id below " + strconv.Itoa(limit))
	}
	return v, nil
}
