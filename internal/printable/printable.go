// Package printable keeps what models, tools, servers and files wrote from steering the
// terminal that shows it. Control characters are shown instead of obeyed: ESC as ␛, and what
// turns the direction of text as its number, <U+202E>, so that nothing is hidden and nothing
// happens.
package printable

import (
	"fmt"
	"html"
	"io"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

// Text is text of several lines: line ends and tabs stay, a line end of two characters is one.
func Text(text string) string {
	if plain(text) {
		return text
	}
	var b strings.Builder
	b.Grow(len(text) + 16)
	text = strings.ReplaceAll(text, "\r\n", "\n")
	for len(text) > 0 {
		r, n := utf8.DecodeRuneInString(text)
		add(&b, r, n)
		text = text[n:]
	}
	return b.String()
}

// Line is text on one line: every kind of blank is a space.
func Line(text string) string {
	return Text(strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) {
			return ' '
		}
		return r
	}, text))
}

// HTML is a page as [Text] shows it: what it puts for a character is text there, and no tag.
func HTML(page string) string {
	if plain(page) {
		return page
	}
	var b, one strings.Builder
	b.Grow(len(page) + 16)
	page = strings.ReplaceAll(page, "\r\n", "\n")
	for len(page) > 0 {
		r, n := utf8.DecodeRuneInString(page)
		if r < utf8.RuneSelf {
			add(&b, r, n)
		} else {
			one.Reset()
			add(&one, r, n)
			b.WriteString(html.EscapeString(one.String()))
		}
		page = page[n:]
	}
	return b.String()
}

// plain reports whether text is ASCII without control characters other than line ends and tabs.
func plain(text string) bool {
	for i := range len(text) {
		if c := text[i]; c >= 0x7f || c < ' ' && c != '\n' && c != '\t' {
			return false
		}
	}
	return true
}

// add writes the character r, which took n bytes.
func add(b *strings.Builder, r rune, n int) {
	switch {
	case r == '\n' || r == '\t':
		b.WriteRune(r)
	case r < ' ':
		b.WriteRune('\u2400' + r) // the pictures of control characters
	case r == 0x7f:
		b.WriteRune('\u2421')
	case r == utf8.RuneError && n == 1:
		b.WriteRune(utf8.RuneError) // a byte that is no character: some terminals obey 0x9b
	case unicode.Is(unicode.Cc, r), unicode.Is(unicode.Bidi_Control, r), r == '\u2028', r == '\u2029':
		fmt.Fprintf(b, "<U+%04X>", r)
	default:
		b.WriteRune(r)
	}
}

// Writer passes on what is written to it as [Text] shows it. A character that comes in parts is
// passed on once it is whole. Writes may come from any number of goroutines.
type Writer struct {
	mu   sync.Mutex
	to   io.Writer
	held []byte // a character begun, or a carriage return that may be half of a line end
}

// NewWriter writes to w.
func NewWriter(w io.Writer) *Writer { return &Writer{to: w} }

// Write returns how many of its bytes were taken; they may not all have been passed on.
func (w *Writer) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	text := string(w.held) + string(p)
	w.held = w.held[:0]
	if n := open(text); n > 0 {
		w.held = append(w.held, text[len(text)-n:]...)
		text = text[:len(text)-n]
	}
	if text == "" {
		return len(p), nil
	}
	if _, err := io.WriteString(w.to, Text(text)); err != nil {
		return 0, err
	}
	return len(p), nil
}

// open is how many bytes at the end of text wait for more.
func open(text string) int {
	if strings.HasSuffix(text, "\r") {
		return 1
	}
	for n := 1; n < utf8.UTFMax && n <= len(text); n++ {
		end := text[len(text)-n:]
		if utf8.RuneStart(end[0]) {
			if !utf8.FullRuneInString(end) {
				return n
			}
			return 0
		}
	}
	return 0
}
