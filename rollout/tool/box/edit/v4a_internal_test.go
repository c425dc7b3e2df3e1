package edit

import (
	"slices"
	"strings"
	"testing"
)

// TestApplyKeepsTheLastEnd: where the last line of a file has no line feed, the one in its
// place has none.
func TestApplyKeepsTheLastEnd(t *testing.T) {
	for _, tt := range []struct {
		file, want string
		lines      []string
	}{
		{"a\nb", "a\nB", []string{" a", "-b", "+B"}},
		{"a\nb", "A\nb", []string{"-a", "+A", " b"}},
		{"a\r\nb", "a\r\nB\r\nC", []string{"-b", "+B", "+C"}},
		{"a\nb", "a\nb\nc\n", []string{" b", "+c"}},
		{"a\nb\n", "a\nB\n", []string{"-b", "+B"}},
	} {
		if got, err := apply(tt.file, []hunk{{lines: tt.lines}}); err != nil || got != tt.want {
			t.Errorf("%q, %q: %q, %v, want %q", tt.file, tt.lines, got, err, tt.want)
		}
	}
}

// A hunk made of real lines changes exactly the lines it names; the reverse hunk undoes it.
func FuzzApply(f *testing.F) {
	f.Add("a\nb\nc\nd\n", uint8(1), uint8(2), "X")
	f.Add("a\r\n\r\n b\r\nend", uint8(0), uint8(3), "\tq")
	f.Fuzz(func(t *testing.T, content string, from, count uint8, fresh string) {
		rows := rowsOf(content)
		if len(rows) == 0 || strings.ContainsAny(fresh, "\r\n") || strings.Contains(strings.ReplaceAll(content, "\r\n", ""), "\r") {
			return // a lone carriage return becomes part of a line end
		}
		at := int(from) % len(rows)
		n := min(int(count)%4, len(rows)-at)
		var forth, back hunk
		for _, r := range rows[:at] {
			forth.lines, back.lines = append(forth.lines, " "+r.text), append(back.lines, " "+r.text)
		}
		for _, r := range rows[at : at+n] {
			forth.lines, back.lines = append(forth.lines, "-"+r.text), append(back.lines, "+"+r.text)
		}
		forth.lines, back.lines = append(forth.lines, "+"+fresh), append(back.lines, "-"+fresh)
		for _, r := range rows[at+n:] {
			forth.lines, back.lines = append(forth.lines, " "+r.text), append(back.lines, " "+r.text)
		}
		got, err := apply(content, []hunk{forth})
		if err != nil {
			if at+n == 0 && len(rows) == 0 {
				return
			}
			t.Fatalf("%q: %v", content, err)
		}
		texts := func(s string) (l []string) {
			for _, r := range rowsOf(s) {
				l = append(l, r.text)
			}
			return l
		}
		if want := slices.Concat(texts(content)[:at], []string{fresh}, texts(content)[at+n:]); !slices.Equal(texts(got), want) {
			t.Fatalf("got %q, want %q", texts(got), want)
		}
		if undone, err := apply(got, []hunk{back}); err != nil || !slices.Equal(texts(undone), texts(content)) {
			t.Fatalf("undone: %q, %v; want %q", undone, err, content)
		}
	})
}
