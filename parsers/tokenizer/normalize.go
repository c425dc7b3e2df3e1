package tokenizer

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"hermes/parsers/tokenizer/pattern"
	"hermes/parsers/tokenizer/unidata"
)

// normalizer rewrites text before it is split. first says that the text begins the input;
// the answer's first, that its beginning is still there for the input's.
type normalizer interface {
	apply(text string, first bool) (string, bool, error)
}

// textual is a normalizer that never removes the beginning of a text.
type textual func(string) string

func (f textual) apply(text string, first bool) (string, bool, error) { return f(text), first, nil }

type replacing struct {
	find *pattern.Pattern // nil: literal
	text string
	with string
}

func (r replacing) apply(text string, first bool) (string, bool, error) {
	if r.find == nil {
		if r.text == "" {
			return text, first, nil
		}
		return strings.ReplaceAll(text, r.text, r.with), first && !(r.with == "" && strings.HasPrefix(text, r.text)), nil
	}
	var b strings.Builder
	at := 0
	err := r.find.All(text, func(start, end int) {
		b.WriteString(text[at:start])
		b.WriteString(r.with)
		at = end
		if start == 0 && end > 0 && r.with == "" {
			first = false
		}
	})
	b.WriteString(text[at:])
	return b.String(), first, err
}

type stripping struct{ left, right bool }

func (s stripping) apply(text string, first bool) (string, bool, error) {
	if s.right {
		text = strings.TrimRightFunc(text, unicode.IsSpace)
	}
	if s.left {
		cut := strings.TrimLeftFunc(text, unicode.IsSpace)
		first = first && len(cut) == len(text)
		text = cut
	}
	return text, first, nil
}

func prepending(s string) textual {
	return func(text string) string {
		if text == "" {
			return text
		}
		return s + text
	}
}

func lowercase(text string) string {
	var b strings.Builder
	b.Grow(len(text))
	lower := unidata.Lowers()
	for i := 0; i < len(text); {
		if c := text[i]; c < utf8.RuneSelf {
			if 'A' <= c && c <= 'Z' {
				c += 'a' - 'A'
			}
			b.WriteByte(c)
			i++
			continue
		}
		c, n := utf8.DecodeRuneInString(text[i:])
		if s, ok := lower[c]; ok {
			b.WriteString(s)
		} else {
			b.WriteString(text[i : i+n])
		}
		i += n
	}
	return b.String()
}

// unicodeForm normalizes with the tables of an older Unicode version. Code points that it
// does not know are passed through; the texts before and behind them are normalized apart.
func unicodeForm(f norm.Form) textual {
	return func(text string) string {
		if ascii(text) {
			return text
		}
		var b strings.Builder
		flags, begin := unidata.Flags(), 0
		for i, c := range text {
			if c >= 0x300 && flags.Is(c, unidata.Inert) {
				b.WriteString(form(f, text[begin:i]))
				begin = i + utf8.RuneLen(c)
				b.WriteString(text[i:begin])
			}
		}
		if begin == 0 {
			return form(f, text)
		}
		b.WriteString(form(f, text[begin:]))
		return b.String()
	}
}

func ascii(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// form is f without the stream-safe limit of golang.org/x/text, which would put a joiner
// into long runs of combining marks.
func form(f norm.Form, text string) string {
	marks := 0
	for i, c := range text {
		if c < 0x300 {
			marks = 0
			continue
		}
		if f.PropertiesString(text[i:]).BoundaryBefore() {
			marks = 0
			continue
		}
		marks++
		if marks > 9 { // one code point decomposes to at most three marks
			return longForm(f, text)
		}
	}
	return f.String(text)
}

type marked struct {
	c   rune
	ccc uint8
}

func longForm(f norm.Form, text string) string {
	compat := f == norm.NFKC || f == norm.NFKD
	dec := norm.NFD
	if compat {
		dec = norm.NFKD
	}
	var out []marked
	for i, c := range text {
		d := dec.PropertiesString(text[i:]).Decomposition()
		if d == nil {
			d = []byte(dec.String(string(c))) // Hangul
		}
		for _, r := range string(d) {
			out = append(out, marked{r, norm.NFD.PropertiesString(string(r)).CCC()})
		}
	}
	for i := 0; i < len(out); {
		k := i
		for k < len(out) && out[k].ccc != 0 {
			k++
		}
		slices.SortStableFunc(out[i:k], func(a, b marked) int { return int(a.ccc) - int(b.ccc) })
		i = k + 1
	}
	if f == norm.NFC || f == norm.NFKC {
		out = composed(out)
	}
	var b strings.Builder
	for _, m := range out {
		b.WriteRune(m.c)
	}
	return b.String()
}

// composed joins starters with what follows them (canonical composition).
func composed(in []marked) []marked {
	out, starter := in[:0:0], -1
	for _, m := range in {
		if starter >= 0 {
			last := out[len(out)-1].ccc
			blocked := len(out)-1 > starter && (last >= m.ccc || last == 0)
			if !blocked {
				pair := norm.NFC.String(string([]rune{out[starter].c, m.c}))
				if one, n := utf8.DecodeRuneInString(pair); n == len(pair) {
					out[starter].c = one
					continue
				}
			}
		}
		out = append(out, m)
		if m.ccc == 0 {
			starter = len(out) - 1
		}
	}
	return out
}
