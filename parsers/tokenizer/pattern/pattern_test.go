package pattern_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"hermes/parsers/tokenizer/pattern"
)

func all(t testing.TB, p *pattern.Pattern, text string) []string {
	t.Helper()
	var out []string
	if err := p.All(text, func(start, end int) { out = append(out, text[start:end]) }); err != nil {
		t.Fatalf("%s on %.80q: %v", p, text, err)
	}
	return out
}

func TestMatches(t *testing.T) {
	onig, rust := pattern.Oniguruma, pattern.Rust
	for _, tt := range []struct {
		dialect   pattern.Dialect
		src, text string
		want      []string
	}{
		{onig, `a|ab`, "abab", []string{"a", "a"}},
		{onig, `\s+(?!\S)|\s+`, "a   b  ", []string{"  ", " ", "  "}},
		{onig, `\s+$`, "a \n b ", []string{" ", " "}}, // $ is before a newline too
		{onig, ` +$`, "a \nb ", []string{" ", " "}},
		{rust, ` +$`, "a \nb ", []string{" "}},
		{onig, `\d{1,3}+`, "12345", []string{"12345"}}, // Ruby: a repeat of the count, not a possessive one
		{rust, `\d{1,3}+`, "12345", []string{"123", "45"}},
		{onig, `(?i:'s|'ll)`, "'S 'ſ 'lL", []string{"'S", "'ſ", "'lL"}},
		{onig, `[\p{L}&&[^\p{Han}]]+`, "ab你好c", []string{"ab", "c"}},
		{onig, `(?<=a)b|(?<!a)c`, "abcac", []string{"b", "c"}},
		{onig, `(?>a+)b|a`, "aab aa", []string{"aab", "a", "a"}},
		{onig, `a++a|b`, "aaab", []string{"b"}},
		{onig, `(?:ab)*?c`, "ababc", []string{"ababc"}},
		{onig, `(?:a*)*b`, "aaab", []string{"aaab"}},
		{onig, `x*`, "axb", []string{"", "x", ""}},
		{onig, `[]a-]+`, "a-]b", []string{"a-]"}},
		{onig, `(?:ab){2,3}`, "ababababab", []string{"ababab", "abab"}},
		{onig, `\bq\w`, "qu aqu q1", []string{"qu", "q1"}},
		{onig, `[一-龥\u3040-ゟ]+`, "x你の9", []string{"你の"}},
		{onig, `[^\r\n]+`, "a\r\nb", []string{"a", "b"}},
	} {
		p, err := pattern.Compile(tt.src, tt.dialect)
		if err != nil {
			t.Errorf("%s: %v", tt.src, err)
			continue
		}
		if got := all(t, p, tt.text); !slices.Equal(got, tt.want) {
			t.Errorf("%s on %q: %q, want %q", tt.src, tt.text, got, tt.want)
		}
	}
}

func TestRefusals(t *testing.T) {
	for _, src := range []string{`(a`, `a)`, `[a`, `*a`, `(a)\1`, `\p{Nope}`, `(?<name>a)`, `(?<=ab)c`, `a{5,2}`, `a{1001}`, `\`, `[[:alpha:]]`, `\X`, `\h`,
		"\xff", strings.Repeat("(", 100), strings.Repeat("a", 20_000), `(?:(?:(?:(?:ab){99}){99}){99}){99}`, `(?i:ss)`} {
		if _, err := pattern.Compile(src, pattern.Oniguruma); err == nil {
			t.Errorf("%.40q compiled", src)
		}
	}
}

func TestHostileTextEnds(t *testing.T) {
	p, err := pattern.Compile(`(?:a|aa)+$x`, pattern.Oniguruma)
	if err != nil {
		t.Fatal(err)
	}
	err = p.All(strings.Repeat("a", 5000), func(int, int) {})
	if !errors.Is(err, pattern.ErrBudget) {
		t.Errorf("no budget: %v", err)
	}
	p, err = pattern.Compile(`\s+$`, pattern.Rust)
	if err != nil {
		t.Fatal(err)
	}
	if got := all(t, p, strings.Repeat(" ", 1<<20)+"x"); len(got) != 0 {
		t.Errorf("%d matches", len(got))
	}
}

// Matches lie in the text, from left to right.
func FuzzPattern(f *testing.F) {
	f.Add(`(?i:'s|'t)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|\s+(?!\S)`, "it's 1234  ok", true)
	f.Add(`(?:a|b?)*?[^a&&[b-z]]{2,}`, "abcabc", false)
	f.Add(`(?:a?|b?|c?)(?:a?|b?|c?)(?:a?|b?)*`, "abc\xff", false)
	f.Fuzz(func(t *testing.T, src, text string, rust bool) {
		d := pattern.Oniguruma
		if rust {
			d = pattern.Rust
		}
		p, err := pattern.Compile(src, d)
		if err != nil {
			return
		}
		at := 0
		_ = p.All(text[:min(len(text), 300)], func(start, end int) {
			if start < at || end < start || end > len(text) {
				t.Fatalf("%q on %q: %d to %d behind %d", src, text, start, end, at)
			}
			at = end
		})
	})
}
