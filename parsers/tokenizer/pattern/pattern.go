// Package pattern matches the regular expressions of tokenizer files: as Oniguruma does
// (tokenizer.json) or as Rust's fancy-regex does (tiktoken), with their Unicode tables.
// It backtracks within a budget; what it does not know exactly it refuses when compiling.
package pattern

import (
	"errors"
	"fmt"
	"unicode/utf8"
)

// Dialect says whose rules decide where engines differ.
type Dialect uint8

// Oniguruma with Ruby's syntax is used by tokenizer.json, Rust by tiktoken files.
const (
	Oniguruma Dialect = iota
	Rust
)

// ErrBudget says that a text made a pattern backtrack beyond its budget.
var ErrBudget = errors.New("pattern backtracks too long on this text")

const (
	maxNodes  = 20_000
	maxSets   = 512     // different classes
	maxWork   = 50_000  // steps of looking for what a match can begin with
	maxFrames = 200_000 // depth of backtracking
)

// Pattern is a compiled expression, safe for concurrent use.
type Pattern struct {
	source string
	start  *node
	first  *set // code points that a match can begin with; nil: any, or it can be empty
	skip   *set // a failed match cannot succeed within the run of this set
}

// String returns the source.
func (p *Pattern) String() string { return p.source }

// Compile compiles src. The error names what is not supported.
func Compile(src string, d Dialect) (*Pattern, error) {
	wrap := func(err error) (*Pattern, error) { return nil, fmt.Errorf("compile pattern %.200q: %w", src, err) }
	if len(src) > maxSource {
		return wrap(fmt.Errorf("longer than %d bytes", maxSource))
	}
	if !utf8.ValidString(src) {
		return wrap(errors.New("not UTF-8"))
	}
	ps := &parser{src: src, dialect: d}
	t, err := ps.alternatives()
	if err == nil && ps.more() {
		err = ps.fail("unmatched )")
	}
	if err != nil {
		return wrap(err)
	}
	c := &compiler{sets: map[string]*set{}}
	p := &Pattern{source: src, start: c.build(t, &node{op: opAccept})}
	if c.nodes > maxNodes || len(c.sets) > maxSets {
		return wrap(fmt.Errorf("more than %d nodes after expansion or %d classes", maxNodes, maxSets))
	}
	if f := c.firsts(p.start, 0); f != nil {
		p.first = c.set(f)
	}
	if n := p.start; n.op == opSet && n.hi < 0 && n.lo >= 1 {
		p.skip = n.set
	}
	return p, nil
}

// Next returns the first match at or behind from; ok is false if there is none.
func (p *Pattern) Next(text string, from int) (start, end int, ok bool, err error) {
	m := matcher{text: text, budget: budget(text)}
	return p.next(&m, from)
}

// budget bounds the steps of backtracking over one text: less than a second of them.
func budget(text string) int { return 30_000_000 + 200*len(text) }

func (p *Pattern) next(m *matcher, from int) (start, end int, ok bool, err error) {
	text := m.text
	for at := from; at <= len(text); {
		if p.first != nil {
			for at < len(text) && p.first.at(text, at) < 0 {
				at += size(text, at)
			}
			if at == len(text) {
				break
			}
		}
		if e := m.match(p.start, at); e >= 0 {
			return at, e, true, nil
		}
		if m.budget < 0 {
			return 0, 0, false, ErrBudget
		}
		if p.skip != nil {
			if behind, n := p.skip.run(text, at, -1); n > 0 {
				at = behind
				continue
			}
		}
		if at == len(text) {
			break
		}
		at += size(text, at)
	}
	return 0, 0, false, nil
}

// All calls yield with every match from left to right, see [Scan.Next].
func (p *Pattern) All(text string, yield func(start, end int)) error {
	s := p.Scan(text)
	for s.Next() {
		yield(s.Start, s.End)
	}
	return s.Err
}

// Scan walks over the matches in one text.
type Scan struct {
	Start, End int   // of the last match
	Err        error // why it ended before the text did, or nil
	p          *Pattern
	m          matcher
	at, last   int
}

// Scan begins a walk over the matches in text.
func (p *Pattern) Scan(text string) Scan {
	return Scan{p: p, m: matcher{text: text, budget: budget(text)}, last: -1}
}

// Next steps to the next match from left to right, an empty one only where it does not
// follow the match before, as Oniguruma's and Rust's iterators do.
func (s *Scan) Next() bool {
	for s.at <= len(s.m.text) {
		start, end, ok, err := s.p.next(&s.m, s.at)
		if err != nil || !ok {
			s.Err = err
			break
		}
		if start == end && end == s.last {
			if s.at == len(s.m.text) {
				break
			}
			s.at += size(s.m.text, s.at)
			continue
		}
		s.Start = start
		s.End = end
		s.at = end
		s.last = end
		return true
	}
	s.at = len(s.m.text) + 1
	return false
}

func size(text string, i int) int {
	if text[i] < utf8.RuneSelf {
		return 1
	}
	_, n := utf8.DecodeRuneInString(text[i:])
	return n
}
