package tokenizer

import (
	"strings"
	"unicode/utf8"
)

// gpt2 is the pattern that ByteLevel splits with.
const gpt2 = `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`

// byteRune is the printable character of byte b in byte-level vocabularies: itself where
// printable, else one of the 68 code points from U+0100.
func byteRune(b byte) rune {
	switch {
	case '!' <= b && b <= '~', 0xA1 <= b && b <= 0xAC, 0xAE <= b:
		return rune(b)
	case b <= ' ':
		return 0x100 + rune(b)
	case b <= 0xA0:
		return 0x100 + rune(b) - 0x7F + 33
	}
	return 0x143
}

// runeByte is the inverse of byteRune.
func runeByte(c rune) (byte, bool) {
	switch {
	case '!' <= c && c <= '~', 0xA1 <= c && c <= 0xAC, 0xAE <= c && c <= 0xFF:
		return byte(c), true
	case 0x100 <= c && c <= 0x120:
		return byte(c - 0x100), true
	case 0x121 <= c && c <= 0x142:
		return byte(c - 0x121 + 0x7F), true
	}
	return 0xAD, c == 0x143
}

// spell writes raw bytes in the byte alphabet.
func spell(raw string) string {
	var b strings.Builder
	b.Grow(2 * len(raw))
	for i := range len(raw) {
		b.WriteRune(byteRune(raw[i]))
	}
	return b.String()
}

// unspell is the inverse; false if s has a character outside of the alphabet.
func unspell(s string) (string, bool) {
	plain := true
	for i := range len(s) {
		if s[i] < '!' || s[i] > '~' {
			plain = false
			break
		}
	}
	if plain {
		return s, true
	}
	b := make([]byte, 0, len(s))
	for _, c := range s {
		raw, ok := runeByte(c)
		if !ok {
			return "", false
		}
		b = append(b, raw)
	}
	return string(b), true
}

// lossy moves the decided beginning of b into out, invalid parts as U+FFFD one for each
// maximal subpart, and returns what could still become a character. At the end nothing
// is kept.
func lossy(out *strings.Builder, b []byte, end bool) []byte {
	for len(b) > 0 {
		if c, n := utf8.DecodeRune(b); c != utf8.RuneError || n > 1 {
			out.Write(b[:n])
			b = b[n:]
			continue
		}
		n, whole := subpart(b)
		if !whole && !end {
			return b
		}
		out.WriteString("\uFFFD")
		b = b[n:]
	}
	return b
}

// subpart returns the length of the maximal subpart at the beginning of b, which does not
// begin with a character; whole is false if more bytes could complete it.
func subpart(b []byte) (n int, whole bool) {
	lo := byte(0x80)
	hi := byte(0xBF)
	need := 0
	switch c := b[0]; {
	case 0xC2 <= c && c <= 0xDF:
		need = 1
	case c == 0xE0:
		need, lo = 2, 0xA0
	case c == 0xED:
		need, hi = 2, 0x9F
	case 0xE1 <= c && c <= 0xEF:
		need = 2
	case c == 0xF0:
		need, lo = 3, 0x90
	case c == 0xF4:
		need, hi = 3, 0x8F
	case 0xF1 <= c && c <= 0xF3:
		need = 3
	default:
		return 1, true
	}
	for n = 1; n <= need; n++ {
		if n == len(b) {
			return n, false
		}
		if b[n] < lo || b[n] > hi {
			return n, true
		}
		lo, hi = 0x80, 0xBF
	}
	return n, true
}

// ByteSpelling is how byte-level vocabularies spell a byte.
func ByteSpelling(b byte) string { return string(byteRune(b)) }
