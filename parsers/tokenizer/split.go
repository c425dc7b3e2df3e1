package tokenizer

import (
	"strings"
	"unicode/utf8"

	"hermes/parsers/tokenizer/pattern"
	"hermes/parsers/tokenizer/unidata"
)

// splitter is a pre-tokenizer. Pieces may be rewritten; empty ones are dropped.
type splitter interface {
	split(text string, first bool, yield func(piece string)) error
}

// behavior of the matches of a splitter.
type behavior uint8

const (
	isolated behavior = iota
	removed
	contiguous
	mergedWithPrevious
	mergedWithNext
)

// finder calls yield for the parts of text, matches and what lies between, in order.
type finder func(text string, yield func(start, end int, match bool)) error

type cutting struct {
	find   finder
	how    behavior
	invert bool
}

func (c cutting) split(text string, _ bool, yield func(string)) error {
	if c.how == isolated {
		return c.find(text, func(start, end int, _ bool) { yield(text[start:end]) })
	}
	if c.how == removed {
		return c.find(text, func(start, end int, match bool) {
			if match == c.invert {
				yield(text[start:end])
			}
		})
	}
	type part struct {
		start, end int
		match      bool
	}
	var parts []part
	err := c.find(text, func(start, end int, match bool) { parts = append(parts, part{start, end, match != c.invert}) })
	if err != nil {
		return err
	}
	n := len(parts)
	starts := make([]bool, n) // part begins a piece
	for i, p := range parts {
		switch c.how {
		case contiguous:
			starts[i] = i == 0 || p.match != parts[i-1].match
		case mergedWithPrevious:
			starts[i] = i == 0 || !p.match || parts[i-1].match
		case mergedWithNext:
			starts[i] = i == 0 || !parts[i-1].match || p.match
		}
	}
	if c.how == contiguous && n > 0 && !parts[0].match {
		starts[0] = true
	}
	for i := 0; i < n; {
		k := i + 1
		for k < n && !starts[k] {
			k++
		}
		yield(text[parts[i].start:parts[k-1].end])
		i = k
	}
	return nil
}

func finding(p *pattern.Pattern) finder {
	return func(text string, yield func(int, int, bool)) error {
		at := 0
		err := p.All(text, func(start, end int) {
			if at < start {
				yield(at, start, false)
			}
			yield(start, end, true)
			at = end
		})
		if at < len(text) {
			yield(at, len(text), false)
		}
		return err
	}
}

func findingText(s string) finder {
	return func(text string, yield func(int, int, bool)) error {
		at := 0
		for s != "" {
			k := strings.Index(text[at:], s)
			if k < 0 {
				break
			}
			if k > 0 {
				yield(at, at+k, false)
			}
			yield(at+k, at+k+len(s), true)
			at += k + len(s)
		}
		if at < len(text) {
			yield(at, len(text), false)
		}
		return nil
	}
}

// findingRunes matches single code points.
func findingRunes(is func(rune) bool) finder {
	return func(text string, yield func(int, int, bool)) error {
		at := 0
		for i := 0; i < len(text); {
			c, n := utf8.DecodeRuneInString(text[i:])
			if is(c) {
				if at < i {
					yield(at, i, false)
				}
				yield(i, i+n, true)
				at = i + n
			}
			i += n
		}
		if at < len(text) {
			yield(at, len(text), false)
		}
		return nil
	}
}

// findingFlag matches single code points that have a flag.
func findingFlag(flag uint8) finder {
	return findingRunes(func(c rune) bool { return unidata.Flags().Is(c, flag) })
}

// prefixing is the part of ByteLevel that puts a space in front.
type prefixing struct{}

func (prefixing) split(text string, _ bool, yield func(string)) error {
	if !strings.HasPrefix(text, " ") {
		text = " " + text
	}
	yield(text)
	return nil
}

// spelled rewrites bytes into the byte alphabet, for what must see it so.
type spelled struct{}

func (spelled) split(text string, _ bool, yield func(string)) error {
	yield(spell(text))
	return nil
}

type metaspace struct {
	mark   string
	scheme string // always, first, never
	cut    bool
}

func (m metaspace) split(text string, first bool, yield func(string)) error {
	text = strings.ReplaceAll(text, " ", m.mark)
	if (m.scheme == "always" || m.scheme == "first" && first) && !strings.HasPrefix(text, m.mark) {
		text = m.mark + text
	}
	if !m.cut {
		yield(text)
		return nil
	}
	return cutting{find: findingText(m.mark), how: mergedWithNext}.split(text, false, yield)
}

type fixed int

func (n fixed) split(text string, _ bool, yield func(string)) error {
	begin, count := 0, 0
	for i := range text {
		if count == int(n) {
			yield(text[begin:i])
			begin, count = i, 0
		}
		count++
	}
	yield(text[begin:])
	return nil
}
