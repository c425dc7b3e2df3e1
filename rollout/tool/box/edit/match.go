package edit

import (
	"strings"

	"hermes/internal/late"
)

// span is a piece of a text in bytes.
type span struct{ from, to int }

// found is where a text was found and how.
type found struct {
	strategy string
	spans    []span
	lines    bool // spans are whole lines; replacements follow their indentation
}

// find looks for old in content with one strategy after the other, from exact to vague. The
// first that finds anything wins. They forgive white space, indentation, escapes and
// typographic characters, and nothing else: a line that is only alike is another line.
func find(content, old string) found {
	if spans := occurrences(content, old); len(spans) > 0 {
		return found{"exact", spans, false}
	}
	lines := lineSpans(content)
	want := strings.Split(strings.TrimSuffix(old, "\n"), "\n")
	tail := strings.HasSuffix(old, "\n")
	if strings.TrimSpace(old) == "" {
		return found{}
	}
	byLine := func(name string, norm func(int, string) string) found {
		return found{name, windows(content, lines, want, tail, norm), true}
	}
	for _, try := range []func() found{
		func() found {
			return byLine("lines trimmed", func(_ int, s string) string { return strings.TrimSpace(s) })
		},
		func() found {
			return byLine("blanks collapsed", func(_ int, s string) string { return blanks.ReplaceAllString(s, " ") })
		},
		func() found {
			return byLine("indentation ignored", func(_ int, s string) string { return strings.TrimLeft(s, " \t") })
		},
		func() found { return found{"escapes resolved", occurrences(content, unescape(old)), false} },
		func() found {
			return byLine("first and last line trimmed", func(i int, s string) string {
				if i == 0 || i == len(want)-1 {
					return strings.TrimSpace(s)
				}
				return s
			})
		},
		func() found { return found{"bytes that are not UTF-8", shownAs(content, old), false} },
		func() found { return found{"typographic characters", typographic(content, old), false} },
	} {
		if f := try(); len(f.spans) > 0 {
			return f
		}
	}
	return found{}
}

var blanks = late.Regexp(`[ \t]+`)

// occurrences lists where part is in s, without overlaps.
func occurrences(s, part string) []span {
	var spans []span
	if part == "" {
		return nil
	}
	for at := 0; ; {
		i := strings.Index(s[at:], part)
		if i < 0 {
			return spans
		}
		spans = append(spans, span{at + i, at + i + len(part)})
		at += i + len(part)
	}
}

// lineSpans are the lines of a text without their line feeds.
func lineSpans(s string) []span {
	var spans []span
	for at := 0; at < len(s); {
		end := strings.IndexByte(s[at:], '\n')
		if end < 0 {
			return append(spans, span{at, len(s)})
		}
		spans = append(spans, span{at, at + end})
		at += end + 1
	}
	return spans
}

// over is the span of n lines from line i on; with tail it includes the last line feed.
func over(content string, lines []span, i, n int, tail bool) span {
	s := span{lines[i].from, lines[i+n-1].to}
	if tail && s.to < len(content) {
		s.to++
	}
	return s
}

// windows lists where all lines are equal after norm; norm knows the line's place in want.
func windows(content string, lines []span, want []string, tail bool, norm func(int, string) string) []span {
	normed := make([]string, len(want))
	for i, w := range want {
		normed[i] = norm(i, w)
	}
	var spans []span
	for i := 0; i+len(want) <= len(lines); i++ {
		equal := true
		for j := range want {
			if norm(j, content[lines[i+j].from:lines[i+j].to]) != normed[j] {
				equal = false
				break
			}
		}
		if equal {
			spans = append(spans, over(content, lines, i, len(want), tail))
			i += len(want) - 1
		}
	}
	return spans
}

var unescaper = strings.NewReplacer(`\n`, "\n", `\t`, "\t", `\r`, "\r", `\"`, `"`, `\'`, `'`, `\\`, `\`)

func unescape(s string) string { return unescaper.Replace(s) }

// plainRune maps typographic characters to those of a keyboard.
func plainRune(r rune) string {
	switch r {
	case '\u2018', '\u2019', '\u201a', '\u201b', '\u2032':
		return "'"
	case '\u201c', '\u201d', '\u201e', '\u201f', '\u2033':
		return `"`
	case '\u2010', '\u2011', '\u2012', '\u2013', '\u2014', '\u2015', '\u2212':
		return "-"
	case '\u00a0', '\u2002', '\u2003', '\u2009', '\u202f', '\u3000':
		return " "
	case '\u2026':
		return "..."
	}
	return string(r)
}

// typographic compares with typographic characters replaced and maps back to the original.
func typographic(content, old string) []span {
	var plain, want strings.Builder
	var at []int // offset in content of each byte of plain
	for i, r := range content {
		p := plainRune(r)
		if r == '\uFFFD' {
			p = content[i : i+1]
		}
		plain.WriteString(p)
		for range len(p) {
			at = append(at, i)
		}
	}
	at = append(at, len(content))
	for _, r := range old {
		want.WriteString(plainRune(r))
	}
	var spans []span
	for _, s := range occurrences(plain.String(), want.String()) {
		from, to := at[s.from], at[s.to]
		if s.from > 0 && at[s.from-1] == from || s.to < len(at)-1 && at[s.to-1] == to {
			continue // would cut a character in two
		}
		spans = append(spans, span{from, to})
	}
	return spans
}
