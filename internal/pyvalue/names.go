package pyvalue

import (
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"golang.org/x/text/unicode/runenames"
)

// maxName bounds the name of a character, in bytes.
const maxName = 128

// character finds a character by its name or one of its aliases, in letters of any case.
func character(name string) (rune, bool) {
	if len(name) > maxName {
		return 0, false
	}
	name = strings.ToUpper(name)
	if code, ok := strings.CutPrefix(name, "CJK UNIFIED IDEOGRAPH-"); ok {
		v, err := strconv.ParseUint(code, 16, 32)
		return rune(v), err == nil && v <= utf8.MaxRune && len(code) >= 4 && len(code) <= 5 && strings.HasPrefix(runenames.Name(rune(v)), "<CJK Ideograph")
	}
	if syllable, ok := strings.CutPrefix(name, "HANGUL SYLLABLE "); ok {
		return hangul(syllable)
	}
	if n, ok := strings.CutPrefix(name, "VS"); ok {
		v, err := strconv.Atoi(n)
		switch {
		case err != nil || strconv.Itoa(v) != n || v < 1 || v > 256: // another name
		case v <= 16:
			return rune(0xfe00 + v - 1), true
		default:
			return rune(0xe0100 + v - 17), true
		}
	}
	r, ok := byName()[name]
	return r, ok
}

// byName is made when the first name is met: about 34,000 entries.
var byName = sync.OnceValue(func() map[string]rune {
	names := map[string]rune{}
	for r := rune(0); r <= utf8.MaxRune; r++ {
		if name := runenames.Name(r); name != "" && name[0] != '<' {
			names[name] = r
		}
	}
	for line := range strings.Lines(aliases) {
		code, name, _ := strings.Cut(strings.TrimSpace(line), " ")
		if v, err := strconv.ParseUint(code, 16, 32); err == nil {
			names[name] = rune(v)
		}
	}
	return names
})

// hangul composes a syllable from the names of its letters, as Unicode names it.
func hangul(name string) (rune, bool) {
	leads := strings.Fields("G GG N D DD R M B BB S SS . J JJ C K T P H")
	vowels := strings.Fields("A AE YA YAE EO E YEO YE O WA WAE OE YO U WEO WE WI YU EU YI I")
	tails := strings.Fields(". G GG GS N NJ NH D L LG LM LB LS LT LP LH M B BS S SS NG J C K T P H")
	for l, lead := range leads {
		rest, ok := strings.CutPrefix(name, strings.Trim(lead, "."))
		if !ok {
			continue
		}
		for v, vowel := range vowels {
			end, ok := strings.CutPrefix(rest, vowel)
			if !ok {
				continue
			}
			for t, tail := range tails {
				if end == strings.Trim(tail, ".") {
					return rune(0xac00 + (l*len(vowels)+v)*len(tails) + t), true
				}
			}
		}
	}
	return 0, false
}
