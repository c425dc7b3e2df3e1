package house

import (
	"regexp"
	"strings"
)

var (
	wideRegister = regexp.MustCompile(`\b[YZ]([0-9]|[12][0-9]|3[01])\b`)
	xRegister    = regexp.MustCompile(`\bX([0-9]|[12][0-9]|3[01])\b`)
)

// Vectors finds instructions of SSE in assembly that uses the wide registers of AVX:
// while those are in use, each costs about 70 cycles on some processors. No test of values
// would notice.
func Vectors(t *Tree) []Finding {
	var out []Finding
	for _, f := range t.Files {
		if !strings.HasSuffix(f.Path, ".s") || !wideRegister.Match(f.Raw) {
			continue
		}
		for i, line := range strings.Split(string(f.Raw), "\n") {
			code, _, _ := strings.Cut(line, "//")
			if code = strings.TrimSpace(code); !strings.HasPrefix(code, "V") && !strings.HasPrefix(code, "#") && xRegister.MatchString(code) {
				out = append(out, Finding{File: f.Path, Line: i + 1, Text: "an instruction of SSE beside those of AVX; take the one with a V"})
			}
		}
	}
	return out
}
