package edit

import (
	"bytes"
	"fmt"
	"strings"
	"unicode/utf8"
)

const unshown = "\uFFFD"

// NotUTF8 says what a reader of a file should know whose bytes are not all shown; "" of
// UTF-8.
func NotUTF8(data []byte) string {
	if utf8.Valid(data) {
		return ""
	}
	count, first := 0, 0
	for rest, line := data, 1; len(rest) > 0; {
		r, n := utf8.DecodeRune(rest)
		if r == utf8.RuneError && n == 1 {
			count++
			if first == 0 {
				first = line
			}
		}
		if r == '\n' {
			line++
		}
		rest = rest[n:]
	}
	return fmt.Sprintf("This file is not UTF-8: %d of its bytes, the first in line %d, are shown as U+FFFD. Change it with patch, which keeps these bytes; write_file would lose them. The terminal has iconv and od for a closer look.", count, first)
}

// UTF16 reports whether a file begins with a byte order mark of UTF-16.
func UTF16(data []byte) bool {
	return bytes.HasPrefix(data, []byte{0xff, 0xfe}) || bytes.HasPrefix(data, []byte{0xfe, 0xff})
}

// LosesBytes reports whether a text that is to take the place of a file that is not UTF-8 holds
// more U+FFFD than the file itself: these mark bytes that would be lost.
func LosesBytes(before, after string) bool {
	return !utf8.ValidString(before) && strings.Count(after, unshown) > strings.Count(before, unshown)
}

// shownAs finds a text as it is shown. Bytes that are not UTF-8 are one U+FFFD a run.
func shownAs(content, old string) []span {
	if !strings.Contains(old, unshown) || utf8.ValidString(content) || !utf8.ValidString(old) {
		return nil
	}
	var shown strings.Builder
	var at []int // offset in content of each byte of shown
	for i := 0; i < len(content); {
		part := content[i : i+shownLen(content[i:])]
		text := strings.ToValidUTF8(part, unshown)
		shown.WriteString(text)
		for range len(text) {
			at = append(at, i)
		}
		i += len(part)
	}
	at = append(at, len(content))
	spans := occurrences(shown.String(), old) // whole characters: both are UTF-8
	for i, s := range spans {
		spans[i] = span{at[s.from], at[s.to]}
	}
	return spans
}

// shownLen is the length of the first character as it is shown: of a character, or of a run
// of bytes that belong to none.
func shownLen(s string) int {
	r, n := utf8.DecodeRuneInString(s)
	if r != utf8.RuneError || n != 1 {
		return n
	}
	for n < len(s) {
		if r, m := utf8.DecodeRuneInString(s[n:]); r != utf8.RuneError || m != 1 {
			break
		}
		n++
	}
	return n
}

// restore puts the bytes of was back for each U+FFFD of text, in order; it is refused where
// there are more or fewer of them.
func restore(was, text string) (string, bool) {
	var bytes []string
	for len(was) > 0 {
		n := shownLen(was)
		if r, _ := utf8.DecodeRuneInString(was); r == utf8.RuneError {
			bytes = append(bytes, was[:n])
		}
		was = was[n:]
	}
	parts := strings.Split(text, unshown)
	if len(parts) == 1 {
		return text, true // the bytes are to go
	}
	if len(parts) != len(bytes)+1 {
		return "", false
	}
	var b strings.Builder
	for i, p := range parts {
		b.WriteString(p)
		if i < len(bytes) {
			b.WriteString(bytes[i])
		}
	}
	return b.String(), true
}
