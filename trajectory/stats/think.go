package stats

import "strings"

// hasThink reports whether a text opens a thinking block that is not empty.
func hasThink(s string) bool {
	for _, tag := range []string{"<think>", "<REASONING_SCRATCHPAD>"} {
		_, rest, ok := strings.Cut(s, tag)
		if !ok {
			continue
		}
		inner, _, _ := strings.Cut(rest, "</")
		if strings.TrimSpace(inner) != "" {
			return true
		}
	}
	return false
}
