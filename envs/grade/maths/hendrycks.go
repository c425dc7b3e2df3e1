package maths

import (
	"strings"

	"hermes/internal/late"
)

var (
	shortFrac = late.Compile(`\\frac\s*(?:\{([^{}]*)\}|([^\s{\\]))\s*(?:\{([^{}]*)\}|([^\s{\\]))`)
	shortRoot = late.Compile(`\\sqrt([^{\[])`)
	slash     = late.Compile(`^(-?\d+)/(-?\d+)$`)
	bareDot   = late.Compile(`(^|[\s{])\.(\d)`)
)

// Hendrycks compares as the authors of the MATH data set do: two spellings are made alike
// (fractions, roots, blanks, units behind \text, signs of percent and dollar) and must then
// be the same text. It is much narrower than [Equal]: 0.1, 4 is not 4, 0.1.
func Hendrycks(gold, answer string) Result {
	a, b := strip(gold), strip(answer)
	return Result{Equal: a == b, Gold: a, Answer: b}
}

func strip(s string) string {
	s = strings.NewReplacer("\n", "", `\!`, "", `\\`, `\`, "tfrac", "frac", "dfrac", "frac", `\left`, "", `\right`, "",
		`^{\circ}`, "", `^\circ`, "", `\$`, "", `\%`, "", "%", "").Replace(s)
	if value, unit, ok := strings.Cut(s, `\text{ `); ok && !strings.Contains(unit, `\text{ `) {
		s = value
	}
	s = bareDot.ReplaceAllString(s, "${1}0.$2")
	if name, value, ok := strings.Cut(s, "="); ok && len(name) <= 2 && !strings.Contains(value, "=") {
		s = value
	}
	s = shortRoot.ReplaceAllString(s, `\sqrt{$1}`)
	s = shortFrac.ReplaceAllString(strings.ReplaceAll(s, " ", ""), `\frac{$1$2}{$3$4}`)
	if s == "0.5" {
		return `\frac{1}{2}`
	}
	return slash.ReplaceAllString(s, `\frac{$1}{$2}`)
}
