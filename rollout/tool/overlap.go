package tool

import (
	"path"
	"strings"
)

// overlap reports whether two paths of a box may name the same file or one contains the
// other. The box's working directory is not known here, so a relative path overlaps with
// every absolute one whose tail it equals, and "." with everything.
func overlap(a, b string) bool {
	a, b = path.Clean(a), path.Clean(b)
	if a == "." || b == "." || strings.HasPrefix(a, "..") || strings.HasPrefix(b, "..") {
		return true
	}
	if path.IsAbs(a) == path.IsAbs(b) {
		return within(a, b) || within(b, a)
	}
	rel, abs := a, b
	if path.IsAbs(a) {
		rel, abs = b, a
	}
	head, _, _ := strings.Cut(rel, "/")
	for _, part := range strings.Split(abs, "/") {
		if part == head {
			return true
		}
	}
	return strings.HasPrefix(rel, "~")
}

func within(a, b string) bool { return a == b || strings.HasPrefix(a, strings.TrimSuffix(b, "/")+"/") }
