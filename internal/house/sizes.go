package house

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
)

// Bounds of packages, in lines without tests.
const (
	packageMost = 3500
	packageP90  = 2500 // nine of ten packages have no more
	fewPackages = 10   // of fewer there is no p90 to hold
)

// Sizes finds packages over 3,500 lines, and more than one in ten over 2,500. Lines of tests do
// not count, neither of files nor of packages for tests, which import testing. A package that is
// excused may be over the first bound; it counts in the second as any other does.
func Sizes(t *Tree) []Finding {
	lines := map[string]int{}
	for _, f := range t.code() {
		lines[f.Dir()] += bytes.Count(f.Raw, []byte("\n"))
	}
	for _, f := range t.code() {
		for _, im := range f.AST.Imports {
			if importPath(im) == "testing" {
				delete(lines, f.Dir())
			}
		}
	}
	var out []Finding
	var dirs []string
	for dir, n := range lines {
		dirs = append(dirs, dir)
		if n > packageMost && !excused(large(), dir, "*") {
			out = append(out, Finding{File: dir, Text: fmt.Sprintf("the package has %d lines, more than %d: find a leaf that becomes a package below", n, packageMost)})
		}
	}
	slices.SortFunc(dirs, func(a, b string) int { return cmp.Compare(lines[a], lines[b]) })
	if len(dirs) < fewPackages {
		return out
	}
	at := (9*len(dirs)+9)/10 - 1
	if n := lines[dirs[at]]; n > packageP90 {
		out = append(out, Finding{File: dirs[at], Text: fmt.Sprintf("p90 of the packages has %d lines, more than %d", n, packageP90)})
	}
	return out
}
