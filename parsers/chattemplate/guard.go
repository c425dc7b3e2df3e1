package chattemplate

import (
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"hermes/internal/late"
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

// escaped is a character as Python's repr, or JSON in ASCII, spells those beyond the first
// plane that are not printable.
var escaped = late.Regexp(`\\U00(?:0f|10)[0-9a-f]{4}|\\ud[89ab][0-9a-f]{2}\\ud[c-f][0-9a-f]{2}`)

// twins reports whether r is the twin of a character.
func (g *guard) twins(r rune) bool { return r >= g.base && r < g.base+0xFFFE }

// restore changes the twins in s back, those that were escaped on their way, too.
func (g *guard) restore(s string) string {
	if g.used == 0 {
		return s
	}
	var b strings.Builder
	b.Grow(len(s))
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		if g.twins(r) {
			b.WriteRune(r - g.base)
		} else {
			b.WriteString(s[i : i+n]) // bytes that are no text stay as they are
		}
		i += n
	}
	s = b.String()
	if !strings.Contains(s, `\`) {
		return s
	}
	return escaped.ReplaceAllStringFunc(s, func(spelling string) string {
		var r rune
		for _, hex := range strings.FieldsFunc(spelling, func(r rune) bool { return r == '\\' || r == 'u' || r == 'U' }) {
			n, err := strconv.ParseUint(hex, 16, 32)
			if err != nil {
				return spelling
			}
			if r == 0 {
				r = rune(n)
			} else {
				r = utf16.DecodeRune(r, rune(n))
			}
		}
		if g.twins(r) {
			return string(r - g.base)
		}
		return spelling
	})
}
