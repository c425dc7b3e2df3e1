package printable_test

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"hermes/internal/printable"
)

func TestText(t *testing.T) {
	tests := []struct{ name, text, want string }{
		{"plain", "a\tb\nc ~", "a\tb\nc ~"},
		{"other scripts", "ñ 日本 🙂 e\u0301 عربي", "ñ 日本 🙂 e\u0301 عربي"},
		{"clears the screen", "\x1b[2J", "␛[2J"},
		{"a title", "\x1b]0;pwn\x07", "␛]0;pwn␇"},
		{"writes over", "done\rfail\b\b", "done␍fail␈␈"},
		{"line ends of two characters", "a\r\nb", "a\nb"},
		{"C1", "\u009b2J\u0085", "<U+009B>2J<U+0085>"},
		{"C1 as a byte", "\x9b2J", "\ufffd2J"},
		{"delete, NUL", "\x7f\x00", "␡␀"},
		{"turned around", "sec\u202eond\u2066", "sec<U+202E>ond<U+2066>"},
		{"other line ends", "a\u2028b", "a<U+2028>b"},
	}
	for _, tt := range tests {
		if got := printable.Text(tt.text); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
	if got := printable.Line(" a\r\nb\x1b\t"); got != " a  b␛ " {
		t.Errorf("one line: %q", got)
	}
}

// FuzzWriter: however a text is cut, the writer shows what Text shows, and nothing of it steers
// a terminal.
func FuzzWriter(f *testing.F) {
	f.Add("a\r\nb\x1b[0m🙂\u009b", uint8(1))
	f.Add("\xf0\x9f\x99", uint8(2))
	f.Add("\r\r\n", uint8(1))
	f.Fuzz(func(t *testing.T, text string, step uint8) {
		var b strings.Builder
		w := printable.NewWriter(&b)
		for rest := text; rest != ""; {
			n := min(len(rest), int(step%7)+1)
			if k, err := w.Write([]byte(rest[:n])); k != n || err != nil {
				t.Fatal(k, err)
			}
			rest = rest[n:]
		}
		want := printable.Text(text)
		if got := b.String(); !strings.HasPrefix(want, got) || utf8.RuneCountInString(want)-utf8.RuneCountInString(got) > 3 {
			t.Fatalf("%q was shown as %q, want %q", text, got, want)
		}
		if i := strings.IndexFunc(want, func(r rune) bool {
			return r != '\n' && r != '\t' && (unicode.Is(unicode.Cc, r) || unicode.Is(unicode.Bidi_Control, r))
		}); i >= 0 {
			t.Fatalf("%q holds a control character", want)
		}
	})
}

// TestHTML: a page is shown as it was but for what steers, and gets no tag by it.
func TestHTML(t *testing.T) {
	for in, want := range map[string]string{
		"<p title=\"a\">x – \t\r\n</p>": "<p title=\"a\">x – \t\n</p>", "<p>\x1b[2J\u202e\u009b</p>": "<p>␛[2J&lt;U+202E&gt;&lt;U+009B&gt;</p>", "<p>plain</p>": "<p>plain</p>",
	} {
		if got := printable.HTML(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}
