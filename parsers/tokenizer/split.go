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
	regex  *pattern.Pattern // what find looks for, if it is a pattern
	runes  *runeClass       // what find looks for, if it is single code points
	how    behavior
	invert bool
}

func (c cutting) split(text string, _ bool, yield func(string)) error {
	if c.regex != nil && (c.how == isolated || c.how == removed) {
		return c.scan(text, yield)
	}
	if c.runes != nil && c.how <= contiguous && !c.invert {
		c.runs(text, yield)
		return nil
	}
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

// scan cuts by a pattern, isolated or removed, without a closure for each text.
func (c cutting) scan(text string, yield func(string)) error {
	matches, rest := c.how == isolated || c.invert, c.how == isolated || !c.invert
	s, at := c.regex.Scan(text), 0
	for s.Next() {
		if rest && at < s.Start {
			yield(text[at:s.Start])
		}
		if matches {
			yield(text[s.Start:s.End])
		}
		at = s.End
	}
	if rest && at < len(text) {
		yield(text[at:])
	}
	return s.Err
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

// runeClass is the code points that have a flag.
type runeClass struct {
	ascii [utf8.RuneSelf]bool
	flag  uint8
}

// at reports whether the code point at text[i:] is in the class, and its size.
func (r *runeClass) at(text string, i int) (bool, int) {
	if b := text[i]; b < utf8.RuneSelf {
		return r.ascii[b], 1
	}
	c, n := utf8.DecodeRuneInString(text[i:])
	return unidata.Flags().Is(c, r.flag), n
}

// cuttingFlag cuts at single code points that have a flag.
func cuttingFlag(flag uint8, how behavior) cutting {
	class := &runeClass{flag: flag}
	for c := range rune(utf8.RuneSelf) {
		class.ascii[c] = unidata.Flags().Is(c, flag)
	}
	return cutting{find: findingRunes(func(c rune) bool { return unidata.Flags().Is(c, flag) }), runes: class, how: how}
}

// runs cuts by single code points, isolated, removed or contiguous, in one pass.
func (c cutting) runs(text string, yield func(string)) {
	begin, last := 0, false
	for i := 0; i < len(text); {
		is, n := c.runes.at(text, i)
		if i > begin && (is != last || is && c.how == isolated) {
			if !last || c.how != removed {
				yield(text[begin:i])
			}
			begin = i
		}
		last = is
		i += n
	}
	if begin < len(text) && (!last || c.how != removed) {
		yield(text[begin:])
	}
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
