package edit

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Op is what a section of a patch does to its file.
type Op string

// The operations.
const (
	Update Op = "update"
	Add    Op = "add"
	Delete Op = "delete"
	Move   Op = "move" // and update
)

// Section is the part of a patch that is about one file.
type Section struct {
	Op   Op
	Path string
	To   string // Move: the new path
	Text string // Add: the content

	hunks []hunk
}

// hunk is one change. Lines begin with ' ', '-' or '+'.
type hunk struct {
	hint  string
	lines []string
}

// Parse reads a V4A patch: sections between *** Begin Patch and *** End Patch. Errors name
// the line.
func Parse(patch string) ([]Section, error) {
	var sections []Section
	var cur *Section
	begun, ended := false, false
	for i, line := range strings.Split(strings.TrimSuffix(strings.ReplaceAll(patch, "\r\n", "\n"), "\n"), "\n") {
		at := func(format string, args ...any) error {
			return fmt.Errorf("line %d of the patch: %s", i+1, fmt.Sprintf(format, args...))
		}
		trimmed := strings.TrimSpace(line)
		switch {
		case ended:
			if trimmed != "" && trimmed != "```" {
				return nil, at("text after *** End Patch")
			}
			continue
		case trimmed == "*** Begin Patch" && !begun:
			begun = true
			continue
		case trimmed == "*** End Patch":
			ended = true
			continue
		case trimmed == "*** End of File":
			continue
		case strings.HasPrefix(line, "*** "):
			s, err := header(trimmed, cur)
			if err != nil {
				return nil, at("%v", err)
			}
			if s != nil {
				begun = true
				sections = append(sections, *s)
				cur = &sections[len(sections)-1]
			}
			continue
		case !begun || cur == nil:
			if trimmed == "" || strings.HasPrefix(trimmed, "```") {
				continue
			}
			return nil, at("expected *** Begin Patch or *** Update File: PATH, got %q", Clip(line, 60))
		}
		if err := cur.add(line); err != nil {
			return nil, at("%v", err)
		}
	}
	if len(sections) == 0 {
		return nil, errors.New("the patch names no file")
	}
	for i := range sections {
		if err := sections[i].finish(); err != nil {
			return nil, err
		}
	}
	return sections, nil
}

// header reads a line with three stars.
func header(line string, cur *Section) (*Section, error) {
	for _, h := range []struct {
		prefix string
		op     Op
	}{
		{"*** Update File:", Update}, {"*** Add File:", Add}, {"*** Delete File:", Delete}, {"*** Move File:", Move},
	} {
		rest, ok := strings.CutPrefix(line, h.prefix)
		if !ok {
			continue
		}
		s := &Section{Op: h.op, Path: strings.TrimSpace(rest)}
		if h.op == Move {
			from, to, ok := strings.Cut(s.Path, "->")
			s.Path, s.To = strings.TrimSpace(from), strings.TrimSpace(to)
			if !ok || s.To == "" {
				return nil, errors.New("expected *** Move File: SOURCE -> TARGET")
			}
		}
		if s.Path == "" {
			return nil, errors.New("the file's name is missing")
		}
		return s, nil
	}
	if to, ok := strings.CutPrefix(line, "*** Move to:"); ok && cur != nil && cur.Op == Update && cur.To == "" && strings.TrimSpace(to) != "" {
		cur.Op, cur.To = Move, strings.TrimSpace(to)
		return nil, nil
	}
	return nil, fmt.Errorf("unknown section %q", Clip(line, 60))
}

// add takes a line of a section.
func (s *Section) add(line string) error {
	switch {
	case s.Op == Delete:
		if strings.TrimSpace(line) != "" {
			return fmt.Errorf("unexpected %q in a deleted file", Clip(line, 60))
		}
	case s.Op == Add:
		text, ok := strings.CutPrefix(line, "+")
		if !ok && line != "" {
			return fmt.Errorf("lines of an added file begin with +, got %q", Clip(line, 60))
		}
		s.Text += text + "\n"
	case strings.HasPrefix(line, "@@"):
		hint := strings.TrimSpace(strings.TrimPrefix(line, "@@"))
		hint = strings.TrimSpace(strings.TrimSuffix(hint, "@@"))
		s.hunks = append(s.hunks, hunk{hint: hint})
	default:
		if line == "" {
			line = " " // a blank line of context whose blank was lost
		}
		if strings.IndexByte(" +-", line[0]) < 0 {
			return fmt.Errorf("lines of a hunk begin with a blank, + or -, got %q", Clip(line, 60))
		}
		if len(s.hunks) == 0 {
			s.hunks = append(s.hunks, hunk{})
		}
		h := &s.hunks[len(s.hunks)-1]
		h.lines = append(h.lines, line)
	}
	return nil
}

// finish drops blank lines that only separated sections, and refuses empty changes.
func (s *Section) finish() error {
	for i := range s.hunks {
		h := &s.hunks[i]
		for len(h.lines) > 0 && h.lines[len(h.lines)-1] == " " {
			h.lines = h.lines[:len(h.lines)-1]
		}
	}
	s.hunks = slices.DeleteFunc(s.hunks, func(h hunk) bool {
		return !slices.ContainsFunc(h.lines, func(l string) bool { return l[0] != ' ' })
	})
	if s.Op == Update && len(s.hunks) == 0 {
		return fmt.Errorf("%s: the patch changes nothing", s.Path)
	}
	return nil
}

// row is a line of a file with its own line end.
type row struct{ text, end string }

func rowsOf(content string) []row {
	var rows []row
	for l := range strings.Lines(content) {
		switch {
		case strings.HasSuffix(l, "\r\n"):
			rows = append(rows, row{l[:len(l)-2], "\r\n"})
		case strings.HasSuffix(l, "\n"):
			rows = append(rows, row{l[:len(l)-1], "\n"})
		default:
			rows = append(rows, row{l, ""})
		}
	}
	return rows
}

// Apply returns the content of an updated or moved file after the section's hunks. Lines that
// no hunk names stay as they are, byte by byte; lines of context keep the file's own text.
func (s Section) Apply(content string) (string, error) { return apply(content, s.hunks) }

func apply(content string, hunks []hunk) (string, error) {
	rows := rowsOf(content)
	end := "\n"
	if crlf(content) {
		end = "\r\n"
	}
	done := 0 // rows before it were changed by earlier hunks
	for n, h := range hunks {
		at, count, err := locate(rows, h, done)
		if err != nil {
			return "", fmt.Errorf("hunk %d: %w", n+1, err)
		}
		fresh := h.merge(rows[at:at+count], end)
		if at > 0 && rows[at-1].end == "" && len(fresh) > 0 {
			rows[at-1].end = end
		}
		rows = slices.Concat(rows[:at], fresh, rows[at+count:])
		for i := range len(rows) - 1 {
			if rows[i].end == "" {
				rows[i].end = end
			}
		}
		done = at + len(fresh)
	}
	var b strings.Builder
	for _, r := range rows {
		b.WriteString(r.text)
		b.WriteString(r.end)
	}
	if LosesBytes(content, b.String()) {
		return "", errors.New("the file is not UTF-8, and added lines hold U+FFFD for bytes that cannot be shown: keep those lines as context, or use mode replace on the part beside these bytes")
	}
	return b.String(), nil
}

// merge builds the new rows out of the old ones.
func (h hunk) merge(was []row, end string) []row {
	var old, texts []string
	for _, l := range h.lines {
		if l[0] != '+' {
			old = append(old, l[1:])
		}
	}
	for _, r := range was {
		texts = append(texts, r.text)
	}
	add, cut, _ := shift(texts, old)
	var fresh []row
	i := 0
	for _, l := range h.lines {
		switch l[0] {
		case ' ':
			fresh = append(fresh, was[i])
			i++
		case '-':
			i++
		case '+':
			fresh = append(fresh, row{shifted(l[1:], add, cut), end})
		}
	}
	if n := len(was); n > 0 && was[n-1].end == "" && len(h.lines[len(h.lines)-1]) > 1 && h.lines[len(h.lines)-1][0] == '+' && h.lastOld() == '-' {
		fresh[len(fresh)-1].end = "" // the last line of the file had no end, and has none
	}
	return fresh
}

// lastOld is the sign of the last line of the hunk that is in the file.
func (h hunk) lastOld() byte {
	for _, l := range slices.Backward(h.lines) {
		if l[0] != '+' {
			return l[0]
		}
	}
	return 0
}

// locate finds the rows that a hunk replaces.
func locate(rows []row, h hunk, from int) (at, count int, err error) {
	var old []string
	for _, l := range h.lines {
		if l[0] != '+' {
			old = append(old, l[1:])
		}
	}
	hinted := -1
	if h.hint != "" {
		hinted = hintRow(rows, h.hint, from)
	}
	if len(old) == 0 {
		switch {
		case h.hint == "":
			return len(rows), 0, nil
		case hinted < 0:
			return 0, 0, fmt.Errorf("the hint %q was not found", Clip(h.hint, 80))
		}
		return hinted + 1, 0, nil
	}
	var b strings.Builder
	for _, r := range rows {
		b.WriteString(r.text) // has no line feed
		b.WriteByte('\n')
	}
	text := b.String()
	places := wholeLines(text, strings.Join(old, "\n")+"\n")
	places = slices.DeleteFunc(places, func(p int) bool { return p < from })
	if hinted >= 0 && len(places) > 1 {
		if i := slices.IndexFunc(places, func(p int) bool { return p >= hinted-len(old)+1 }); i >= 0 {
			places = places[i : i+1]
		}
	}
	switch {
	case len(places) == 0:
		return 0, 0, fmt.Errorf("its lines were not found in the file%s", didYouMean(text, strings.Join(old, "\n")))
	case len(places) > 1:
		return 0, 0, fmt.Errorf("its lines were found %d times; add context or an @@ hint @@", len(places))
	}
	return places[0], len(old), nil
}

// wholeLines finds the rows where old begins, with the strategies of find that work by line.
func wholeLines(text, old string) []int {
	lines, want := lineSpans(text), strings.Split(strings.TrimSuffix(old, "\n"), "\n")
	plain := func(s string) string {
		var b strings.Builder
		for _, r := range s {
			b.WriteString(plainRune(r))
		}
		return b.String()
	}
	norms := []func(int, string) string{
		func(_ int, s string) string { return s },
		func(_ int, s string) string { return strings.TrimRight(s, " \t") },
		func(_ int, s string) string { return strings.TrimSpace(s) },
		func(_ int, s string) string { return blanks.ReplaceAllString(strings.TrimSpace(s), " ") },
		func(_ int, s string) string { return strings.ToValidUTF8(strings.TrimSpace(s), unshown) },
		func(_ int, s string) string { return plain(strings.TrimSpace(s)) },
	}
	for _, norm := range norms {
		if spans := windows(text, lines, want, true, norm); len(spans) > 0 {
			return rowNumbers(lines, spans)
		}
	}
	return nil
}

func rowNumbers(lines, spans []span) []int {
	var rows []int
	for _, s := range spans {
		i, _ := slices.BinarySearchFunc(lines, s.from, func(l span, from int) int { return l.from - from })
		rows = append(rows, i)
	}
	return rows
}

// hintRow finds the row that a hint quotes, whole or else in part, from the given row on.
func hintRow(rows []row, hint string, from int) int {
	for _, is := range []func(string) bool{
		func(s string) bool { return strings.TrimSpace(s) == hint },
		func(s string) bool { return strings.Contains(s, hint) },
	} {
		for i := from; i < len(rows); i++ {
			if is(rows[i].text) {
				return i
			}
		}
	}
	return -1
}
