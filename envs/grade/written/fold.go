// Package written reads answers as people and models write them: signs in all their
// shapes, and the place of the answer itself in a text.
//
// The functions hold no state and are safe for concurrent use.
package written

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// Fold writes signs that mean the same in one way: full-width, bold and circled letters and
// digits as plain ones, every dash that is a minus as "-", superscripts as ^{…}, subscripts
// as _{…}, ½ as 1/2, curly quotation marks as straight ones, the full stop and comma of
// Chinese as . and ,. What cannot be seen goes.
func Fold(text string) string {
	if plainASCII(text) {
		return text
	}
	var b strings.Builder
	b.Grow(len(text) + 16)
	rs := []rune(text)
	for i := 0; i < len(rs); i++ {
		r := rs[i]
		if r < utf8.RuneSelf {
			b.WriteRune(r)
			continue
		}
		if r == '⁻' && i+1 < len(rs) && rs[i+1] >= '0' && rs[i+1] <= '9' && (i == 0 || opens(rs[i-1])) {
			b.WriteByte('-') // ⁻3
			continue
		}
		if s, open := script(r), "^{"; s != 0 {
			if isSub(r) {
				open = "_{"
			}
			b.WriteString(open)
			for sub := isSub(r); i < len(rs) && script(rs[i]) != 0 && isSub(rs[i]) == sub; i++ {
				b.WriteRune(script(rs[i]))
			}
			b.WriteByte('}')
			i--
			continue
		}
		if f := vulgar(r); f != "" {
			if i > 0 && rs[i-1] >= '0' && rs[i-1] <= '9' {
				b.WriteByte(' ') // of a mixed number
			}
			b.WriteString(f)
			continue
		}
		before, after := rune(0), rune(0)
		if i > 0 {
			before = rs[i-1]
		}
		if i+1 < len(rs) {
			after = rs[i+1]
		}
		b.WriteString(sign(r, before, after))
	}
	return b.String()
}

func plainASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// sign is one character in its plain form.
func sign(r, before, after rune) string {
	switch {
	case strings.ContainsRune("\u200b\u200c\u200d\u200e\u200f\u2060\ufeff\u00ad\ufe0f\ufe0e", r):
		return ""
	case strings.ContainsRune("−–‐‑‒﹣－⁃➖", r):
		return "-"
	case r == '—' || r == '―' || r == '﹘': // a minus where a number follows at once, else a break in a sentence
		if number := after >= '0' && after <= '9' || after >= '０' && after <= '９' || after == '.' || after == '\\' || after == '$'; number && opens(before) {
			return "-"
		}
	case strings.ContainsRune("“”„‟«»「」『』＂", r):
		return `"`
	case strings.ContainsRune("‘’‚‛", r):
		return "'"
	case r == '。' || r == '．':
		return "."
	case r == '、':
		return ","
	case r == '【' || r == '〔':
		return "["
	case r == '】' || r == '〕':
		return "]"
	case r == '∕' || r == '⁄' || r == '／':
		return "/"
	case r == '∗' || r == '⋅' || r == '∙':
		return "*"
	case r == '∶':
		return ":"
	case r >= 0x0660 && r <= 0x0669, r >= 0x06f0 && r <= 0x06f9, r >= 0x0966 && r <= 0x096f:
		return string('0' + (r-6*(r/0x966))&0xf) // three rows of digits, the last begins at 6
	case r == '℃', r == '℉', r >= 0xff01 && r <= 0xffee, r >= 0x1d400 && r <= 0x1d7ff, r >= 0x2460 && r <= 0x24ea, r == 0x3000:
		return norm.NFKC.String(string(r))
	}
	return string(r)
}

// opens tells whether a number can begin behind r.
func opens(r rune) bool {
	return r == 0 || unicode.IsSpace(r) || strings.ContainsRune("([{=:,;*$\"'`<>+/：（，", r)
}

// script is the plain character of a superscript or subscript; 0: it is none.
func script(r rune) rune {
	switch r {
	case '¹':
		return '1'
	case '²':
		return '2'
	case '³':
		return '3'
	case '⁺', '₊':
		return '+'
	case '⁻', '₋':
		return '-'
	case 'ⁿ', 'ₙ':
		return 'n'
	case 'ⁱ':
		return 'i'
	case 'ˣ', 'ₓ':
		return 'x'
	case '⁄':
		return 0
	}
	switch {
	case r == '⁰' || r >= '⁴' && r <= '⁹':
		return '0' + r - '⁰'
	case r >= '₀' && r <= '₉':
		return '0' + r - '₀'
	}
	return 0
}

func isSub(r rune) bool { return r >= '₀' && r <= '₎' || r == 'ₙ' || r == 'ₓ' }

func vulgar(r rune) string {
	i := strings.IndexRune("½⅓⅔¼¾⅕⅖⅗⅘⅙⅚⅐⅛⅜⅝⅞⅑⅒", r)
	if i < 0 {
		return ""
	}
	list := strings.Fields("1/2 1/3 2/3 1/4 3/4 1/5 2/5 3/5 4/5 1/6 5/6 1/7 1/8 3/8 5/8 7/8 1/9 1/10")
	return list[utf8.RuneCountInString("½⅓⅔¼¾⅕⅖⅗⅘⅙⅚⅐⅛⅜⅝⅞⅑⅒"[:i])]
}
