package edit

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Replace puts new in the place of old. It returns the strategy that found old. Without
// all, old must be found exactly once. Bytes outside of what was found never change.
func Replace(content, old, new string, all bool) (result, strategy string, err error) {
	switch {
	case old == "":
		return "", "", fmt.Errorf("old_string is empty")
	case old == new:
		return "", "", fmt.Errorf("old_string and new_string are the same")
	}
	if crlf(content) && !strings.Contains(old, "\r") {
		old, new = strings.ReplaceAll(old, "\n", "\r\n"), toCRLF(new)
	}
	f := find(content, old)
	switch {
	case len(f.spans) == 0:
		return "", "", fmt.Errorf("old_string was not found in the file%s", didYouMean(content, old))
	case len(f.spans) > 1 && !all:
		return "", "", fmt.Errorf("old_string was found %d times; add lines around it so that it is unique, or set replace_all=true", len(f.spans))
	}
	if f.strategy == "escapes resolved" {
		new = unescape(new)
	}
	var b strings.Builder
	at := 0
	for _, s := range f.spans {
		was := content[s.from:s.to]
		if f.strategy != "exact" {
			if drift := escapeDrift(was, new); drift != "" {
				return "", "", fmt.Errorf("new_string contains %s where the file has no backslash; write the characters as they should stand in the file", drift)
			}
		}
		b.WriteString(content[at:s.from])
		put := new
		if f.strategy == "bytes that are not UTF-8" {
			var ok bool
			put, ok = restore(was, new)
			if !ok {
				return "", "", errUnshown
			}
		}
		if f.lines {
			put = sameEnds(was, reindent(was, old, new))
		}
		b.WriteString(put)
		at = s.to
	}
	b.WriteString(content[at:])
	if LosesBytes(content, b.String()) {
		return "", "", errUnshown
	}
	return b.String(), f.strategy, nil
}

// errUnshown refuses a change that would lose bytes of a file that is not UTF-8.
var errUnshown = errors.New("the file is not UTF-8, and new_string holds U+FFFD for bytes that cannot be shown: let it hold as many of them as old_string, or leave these bytes out of both")

// escapeDrift finds quotes that a fuzzy replacement would put behind a backslash.
func escapeDrift(was, new string) string {
	for _, q := range []string{`\'`, `\"`} {
		if strings.Contains(new, q) && !strings.Contains(was, q) && strings.Contains(was, q[1:]) {
			return q
		}
	}
	return ""
}

// crlf reports whether most lines end with a carriage return.
func crlf(s string) bool {
	n := strings.Count(s, "\r\n")
	return n > 0 && 2*n > strings.Count(s, "\n")
}

// LineEnds returns a new content of a file with the line ends of the old one: CR LF where most
// of its lines have it and the new content has none.
func LineEnds(before, after string) string {
	if crlf(before) && !strings.Contains(after, "\r\n") {
		return toCRLF(after)
	}
	return after
}

func toCRLF(s string) string {
	return strings.ReplaceAll(strings.ReplaceAll(s, "\r\n", "\n"), "\n", "\r\n")
}

// reindent moves the lines of new as far as the found lines are away from old: only if
// every line is away by the same blanks.
func reindent(was, old, new string) string {
	had, said := strings.Split(was, "\n"), strings.Split(old, "\n")
	add, cut, ok := shift(had, said)
	lines := strings.Split(new, "\n")
	if !ok {
		if steps, ok := stepsOf(had, said); ok {
			for i, l := range lines {
				lines[i] = steps.line(l)
			}
		}
		return strings.Join(lines, "\n")
	}
	for i, l := range lines {
		lines[i] = shifted(l, add, cut)
	}
	return strings.Join(lines, "\n")
}

func shifted(line, add, cut string) string {
	if strings.TrimSpace(line) == "" {
		return line
	}
	return add + strings.TrimPrefix(line, cut)
}

// shift finds the blanks that are in the file but not in old (add), or the other way
// round (cut).
func shift(was, old []string) (add, cut string, ok bool) {
	known := false
	for i := range min(len(was), len(old)) {
		if strings.TrimSpace(old[i]) == "" || strings.TrimSpace(was[i]) == "" {
			continue
		}
		wi, oi := indent(was[i]), indent(old[i])
		a, hasA := strings.CutSuffix(wi, oi)
		c, hasC := strings.CutSuffix(oi, wi)
		if !hasA && !hasC {
			return "", "", false
		}
		if !hasA {
			a = ""
		}
		if !hasC || hasA {
			c = ""
		}
		if known && (a != add || c != cut) {
			return "", "", false
		}
		add = a
		cut = c
		known = true
	}
	return add, cut, known
}

func indent(line string) string { return line[:len(line)-len(strings.TrimLeft(line, " \t"))] }

// sameEnds gives the lines of put the ends of those that it replaces, where each of them ends
// with CR LF in a file of other lines.
func sameEnds(was, put string) string {
	if strings.Contains(put, "\r") || !strings.HasSuffix(was, "\r") && !strings.HasSuffix(was, "\r\n") || strings.Count(was, "\n") > strings.Count(was, "\r\n") {
		return put
	}
	put = toCRLF(put)
	if strings.HasSuffix(was, "\r") && !strings.HasSuffix(put, "\r\n") {
		put += "\r" // its line feed stays
	}
	return put
}

// steps say how a file indents whose lines were named with tabs in place of blanks, or the
// other way round: a tab for width blanks.
type steps struct {
	width int
	tabs  bool // the file has tabs
	more  int  // blanks that the lines were named with and the file has not
}

// stepsOf compares the found lines with those that named them. Where several ways explain
// the difference, one without blanks too many counts.
func stepsOf(was, old []string) (found steps, ok bool) {
	for _, width := range []int{4, 8, 2, 3} {
		for _, tabs := range []bool{true, false} {
			s, fits := compare(was, old, width, tabs)
			if fits && s.more == 0 {
				return s, true
			}
			if fits && !ok {
				found, ok = s, true
			}
		}
	}
	return found, ok
}

// compare says whether all lines are indented by the same more in old than in was.
func compare(was, old []string, width int, tabs bool) (steps, bool) {
	s := steps{width: width, tabs: tabs}
	seen := false
	for i := range min(len(was), len(old)) {
		if strings.TrimSpace(old[i]) == "" {
			continue
		}
		has, ok1 := columns(was[i], width, tabs)
		named, ok2 := columns(old[i], width, !tabs)
		if !ok1 || !ok2 || seen && named-has != s.more {
			return s, false
		}
		s.more, seen = named-has, true
	}
	return s, seen
}

// columns is how far a line is indented; ok: by tabs alone, or by blanks alone.
func columns(line string, width int, tabs bool) (n int, ok bool) {
	in := indent(line)
	if tabs {
		return width * len(in), strings.Trim(in, "\t") == ""
	}
	return len(in), strings.Trim(in, " ") == ""
}

// line is a line of the replacement, indented as the file is.
func (s steps) line(l string) string {
	n, ok := columns(l, s.width, !s.tabs)
	n -= s.more
	rest := strings.TrimLeft(l, " \t")
	switch {
	case rest == "" || !ok || n < 0:
		return l
	case s.tabs && n%s.width == 0:
		return strings.Repeat("\t", n/s.width) + rest
	case !s.tabs:
		return strings.Repeat(" ", n) + rest
	}
	return l
}

// didYouMean shows the places of the file that are most like the first line of old.
func didYouMean(content, old string) string {
	anchor := ""
	for l := range strings.SplitSeq(old, "\n") {
		anchor = strings.TrimSpace(l)
		if anchor != "" {
			break
		}
	}
	if anchor == "" {
		return ""
	}
	lines := Lines(content)
	type place struct {
		line int
		like float64
	}
	var places []place
	for i, l := range lines[:min(len(lines), 2000)] {
		if r, ok := alike(strings.TrimSpace(l), anchor, 0.3); ok && r > 0.3 {
			places = append(places, place{i, r})
		}
	}
	slices.SortStableFunc(places, func(a, b place) int { return cmp.Compare(b.like, a.like) })
	var b strings.Builder
	for n, p := range places[:min(len(places), 3)] {
		if n == 0 {
			b.WriteString(". Did you mean one of these places?")
		}
		b.WriteString("\n")
		for i := max(0, p.line-2); i < min(len(lines), p.line+3); i++ {
			fmt.Fprintf(&b, "\n%6d|%s", i+1, Clip(strings.TrimSuffix(lines[i], "\r"), 200))
		}
	}
	return b.String()
}
