package shell

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"hermes/internal/late"
)

// Quote makes one word of a shell.
func Quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

var ansi = late.Regexp(`\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[PX^_][^\x1b]*\x1b\\|[ -/]*[0-~])`)

// Clean makes text of an output: valid UTF-8 without escape sequences of a terminal.
func Clean(raw []byte) string {
	return strings.ReplaceAll(ansi.ReplaceAllString(strings.ToValidUTF8(string(raw), "\uFFFD"), ""), "\x00", "")
}

// HeadTail keeps limit characters of an output, 40 % from its head and 60 % from its tail.
// dropped are bytes that were left out before, in the middle.
func HeadTail(s string, limit int, dropped int64) string {
	n := utf8.RuneCountInString(s)
	if n <= limit && dropped == 0 {
		return s
	}
	first := min(limit, n) * 2 / 5
	last := min(limit, n) - first
	runes := []rune(s)
	left := int64(n-first-last) + dropped
	return fmt.Sprintf("%s\n\n[... %d of %d characters left out ...]\n\n%s", string(runes[:first]), left, int64(n)+dropped, string(runes[n-last:]))
}
