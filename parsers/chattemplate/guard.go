package chattemplate

import (
	"strings"
	"unicode/utf8"
)

// guard keeps what a message says apart from what the template says. Where a
// value spells a control token, or ends with the beginning of one, one character
// of the spelling is exchanged for its twin in a private plane of Unicode. The
// template carries the twin along as it would the character (trim, tojson, slices,
// splits), so after rendering a control token in the text can only be the
// template's, and the twins are changed back. Whether the template treated the twin
// differently shows in a second, plain rendering, see render.
type guard struct {
	specials *matcher
	base     rune            // of the twins: plane 15 or 16, whichever the values do not use; 0: neither is free
	spare    map[string]bool // spellings that are left as they are
	used     int             // characters exchanged
	saw      [2]bool         // a value has characters of plane 15, of plane 16
	found    map[string]bool // spellings that values contain
}

var planes = [2]rune{0xF0000, 0x100000}

// twin exchanges the character at s[i:].
func (g *guard) twin(b *strings.Builder, s string) int {
	r, n := utf8.DecodeRuneInString(s)
	if r == utf8.RuneError || r >= 0xFFFE {
		b.WriteString(s[:n])
		return n
	}
	b.WriteRune(g.base + r)
	g.used++
	return n
}

// text is s with its spellings disarmed.
func (g *guard) text(s string) string {
	if s == "" {
		return s
	}
	marks := g.marks(s)
	if len(marks) == 0 || g.base == 0 {
		return s
	}
	var b strings.Builder
	b.Grow(len(s) + 4*len(marks))
	at := 0
	for _, m := range marks {
		b.WriteString(s[at:m])
		at = m + g.twin(&b, s[m:])
	}
	b.WriteString(s[at:])
	return b.String()
}

// note keeps a spelling; most values contain none.
func (g *guard) note(tok string) {
	if g.found == nil {
		g.found = map[string]bool{}
	}
	g.found[tok] = true
}

// marks are the bytes of s at which a character must be exchanged, in order.
func (g *guard) marks(s string) []int {
	var out []int
	end := len(strings.TrimRight(s, blank))
	for i := 0; i < len(s); i++ {
		if c := s[i]; c >= 0xF3 {
			g.saw[0] = g.saw[0] || c == 0xF3 && i+1 < len(s) && s[i+1] >= 0xB0
			g.saw[1] = g.saw[1] || c == 0xF4
		} else if !g.specials.first[c] {
			continue
		}
		n, partial := g.specials.match(s[i:])
		if !partial && n == 0 && end < len(s) && i < end {
			_, partial = g.specials.match(s[i:end])
		}
		if n > 0 {
			tok := s[i : i+n]
			g.note(tok)
			if g.spare[tok] {
				continue
			}
		}
		if n > 0 || partial {
			out = append(out, i)
		}
	}
	return out
}

// restore changes the twins in s back.
func (g *guard) restore(s string) string {
	if g.used == 0 {
		return s
	}
	return strings.Map(func(r rune) rune {
		if r >= g.base && r < g.base+0xFFFE {
			return r - g.base
		}
		return r
	}, s)
}
