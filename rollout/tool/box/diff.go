package box

import (
	"fmt"
	"strings"
)

// Bounds of a diff: lines around a change, and how many changed lines are worth the
// search for the shortest way.
const (
	diffContext = 3
	diffEdits   = 1000
)

// edit is one line of a diff: ' ', '-' or '+'.
type edit struct {
	op   byte
	text string // with its line feed
}

// unified is the difference between two versions of a file as `diff -u` writes it; empty if
// there is none. An empty name stands for a file that does not exist.
func unified(oldName, newName, a, b string) string {
	if a == b {
		return ""
	}
	edits := lineEdits(strings.SplitAfter(a, "\n"), strings.SplitAfter(b, "\n"))
	var out strings.Builder
	fmt.Fprintf(&out, "--- %s\n+++ %s\n", diffName("a/", oldName), diffName("b/", newName))
	for from := 0; from < len(edits); {
		if edits[from].op == ' ' {
			from++
			continue
		}
		start, end := max(0, from-diffContext), hunkEnd(edits, from)
		writeHunk(&out, edits, start, end)
		from = end
	}
	return out.String()
}

func diffName(prefix, name string) string {
	if name == "" {
		return "/dev/null"
	}
	return prefix + strings.TrimPrefix(name, "/")
}

// hunkEnd is where the context after the last change of a hunk ends.
func hunkEnd(edits []edit, at int) int {
	last := at
	for i := at; i < len(edits) && i <= last+2*diffContext; i++ {
		if edits[i].op != ' ' {
			last = i
		}
	}
	return min(len(edits), last+1+diffContext)
}

func writeHunk(out *strings.Builder, edits []edit, start, end int) {
	oldLine, newLine := 1, 1
	for _, e := range edits[:start] {
		if e.op != '+' {
			oldLine++
		}
		if e.op != '-' {
			newLine++
		}
	}
	oldN, newN := 0, 0
	for _, e := range edits[start:end] {
		if e.op != '+' {
			oldN++
		}
		if e.op != '-' {
			newN++
		}
	}
	if oldN == 0 {
		oldLine--
	}
	if newN == 0 {
		newLine--
	}
	fmt.Fprintf(out, "@@ -%d,%d +%d,%d @@\n", oldLine, oldN, newLine, newN)
	for _, e := range edits[start:end] {
		out.WriteByte(e.op)
		out.WriteString(e.text)
		if !strings.HasSuffix(e.text, "\n") {
			out.WriteString("\n\\ No newline at end of file\n")
		}
	}
}

// lineEdits turns a into b with few edits (Myers). The parts of SplitAfter that are empty
// (after a final line feed) are no lines.
func lineEdits(a, b []string) []edit {
	a, b = noEmptyEnd(a), noEmptyEnd(b)
	head := 0
	for head < len(a) && head < len(b) && a[head] == b[head] {
		head++
	}
	tail := 0
	for tail < len(a)-head && tail < len(b)-head && a[len(a)-1-tail] == b[len(b)-1-tail] {
		tail++
	}
	var edits []edit
	for _, l := range a[:head] {
		edits = append(edits, edit{' ', l})
	}
	edits = append(edits, middle(a[head:len(a)-tail], b[head:len(b)-tail])...)
	for _, l := range a[len(a)-tail:] {
		edits = append(edits, edit{' ', l})
	}
	return edits
}

func noEmptyEnd(lines []string) []string {
	if n := len(lines); n > 0 && lines[n-1] == "" {
		return lines[:n-1]
	}
	return lines
}

// middle is Myers' greedy algorithm; too many edits become one block.
func middle(a, b []string) []edit {
	limit := min(len(a)+len(b), diffEdits)
	v := make([]int, 2*limit+3)
	at := func(k int) int { return k + limit + 1 }
	var trace [][]int
	for d := 0; d <= limit; d++ {
		trace = append(trace, append([]int(nil), v[at(-d)-1:at(d)+2]...))
		for k := -d; k <= d; k += 2 {
			x := v[at(k-1)] + 1
			if k == -d || k != d && v[at(k-1)] < v[at(k+1)] {
				x = v[at(k+1)]
			}
			y := x - k
			for x < len(a) && y < len(b) && a[x] == b[y] {
				x, y = x+1, y+1
			}
			v[at(k)] = x
			if x >= len(a) && y >= len(b) {
				return walkBack(trace, a, b)
			}
		}
	}
	var edits []edit
	for _, l := range a {
		edits = append(edits, edit{'-', l})
	}
	for _, l := range b {
		edits = append(edits, edit{'+', l})
	}
	return edits
}

func walkBack(trace [][]int, a, b []string) []edit {
	var back []edit
	x, y := len(a), len(b)
	for d := len(trace) - 1; d >= 0; d-- {
		v := trace[d]
		at := func(k int) int { return k + d + 1 }
		k := x - y
		prev := k - 1
		if k == -d || k != d && v[at(k-1)] < v[at(k+1)] {
			prev = k + 1
		}
		px := 0
		if d > 0 {
			px = v[at(prev)]
		}
		py := px - prev
		if d == 0 {
			py = 0
		}
		for x > px && y > py {
			x, y = x-1, y-1
			back = append(back, edit{' ', a[x]})
		}
		if d > 0 {
			if x == px {
				y--
				back = append(back, edit{'+', b[y]})
			} else {
				x--
				back = append(back, edit{'-', a[x]})
			}
		}
	}
	edits := make([]edit, len(back))
	for i, e := range back {
		edits[len(back)-1-i] = e
	}
	return edits
}
