package maths

import (
	"math/big"
	"strings"

	"hermes/internal/late"
)

const (
	gapOf   = `((?:\\[,;: ]|~|\s|\\text\w*\s*\{|\\mathrm\s*\{|\\mbox\s*\{|\\,)*)`
	nameOf  = `([A-Za-z]+|[€£¥$])`
	raised2 = `(?:\^\s*\{?([23])\}?|([²³]))?`
)

var (
	// perUnit is 5 m/s, 60 miles per hour, 5 g/cm³, 5 \frac{\text{m}}{\text{s}}, heat a temperature
	perUnit = late.Compile(`[\d})]` + gapOf + nameOf + raised2 + `(\s*\}?\s*/\s*|\s+per\s+)(?:\\(?:text|mathrm|mbox)\s*\{\s*)?` + nameOf + `\.?[\s}]*` + raised2 + `[}.\s]*$`)
	perFrac = late.Compile(`[\d})]((?:\\[,;: ]|~|\s)*\\[dt]?frac\s*\{\s*(?:\\(?:text|mathrm)\s*)?\{?\s*([A-Za-z]+)[\s}]*\{\s*(?:\\(?:text|mathrm)\s*)?\{?\s*([A-Za-z]+)\s*\}?` + raised2 + `[\s}]*$)`)
	heat    = late.Compile(`[\d})]((?:\\[,;: ]|~|\s|\$)*(?:\^\s*(?:\{\s*\\circ\s*\}|\\circ)|°|\\degree)[\s$]*(?:\\(?:text|mathrm|mbox)\s*\{\s*)?([CFK])[\s}.]*|\s*(?i:degrees?\s+(celsius|fahrenheit|[CF])\b)\.?\s*)$`)
)

// compound is the unit of two, or the temperature, behind an expression, and where it begins.
func compound(s string) (u unit, at int, ok bool) {
	tail := s[max(0, len(s)-80):]
	if !strings.ContainsAny(tail, "/°") && !strings.Contains(tail, "per") && !strings.Contains(tail, "frac") && !strings.Contains(tail, "circ") && !strings.Contains(tail, "egree") {
		return unit{}, 0, false // most expressions have none
	}
	if m := heat.FindStringSubmatchIndex(s); m != nil {
		scale := s[max(m[4], m[6], 0):][:1]
		u, ok = unitNamed("°" + strings.ToUpper(scale))
		return u, m[2], ok
	}
	if m := perFrac.FindStringSubmatch(s); m != nil {
		u, ok = quotient(m[2], "", m[3], m[4]+m[5])
		return u, len(s) - len(m[1]), ok
	}
	m := perUnit.FindStringSubmatchIndex(s)
	if m == nil {
		return unit{}, 0, false
	}
	part := func(i int) string {
		if m[2*i] < 0 {
			return ""
		}
		return s[m[2*i]:m[2*i+1]]
	}
	over, under := part(2), part(6)
	if part(1) == "" && len(over) == 1 && over+under != "ms" { // 3a/b is a fraction
		return unit{}, 0, false
	}
	u, ok = quotient(over, part(3)+part(4), under, part(7)+part(8))
	return u, m[2], ok
}

func quotient(over, power, under, of string) (unit, bool) {
	a, ok1 := unitSaid(over)
	b, ok2 := unitSaid(under)
	if !ok1 || !ok2 {
		return unit{}, false
	}
	x, y := sized(a, power), sized(b, of)
	return unit{dimension: measure(a, power) + "/" + measure(b, of), size: x.Quo(x, y).RatString()}, true
}

// sized is how many of the smallest a power of a unit is.
func sized(u unit, power string) *big.Rat {
	one, ok := new(big.Rat).SetString(u.size)
	if !ok {
		return new(big.Rat)
	}
	all := new(big.Rat).Set(one)
	for range times(power) - 1 {
		all.Mul(all, one)
	}
	return all
}

func measure(u unit, power string) string {
	return u.dimension + []string{"", "", "²", "³"}[times(power)]
}

func times(power string) int {
	switch power {
	case "2", "²":
		return 2
	case "3", "³":
		return 3
	}
	return 1
}

// alikeUnits tells whether a word may mean either: 30 degrees of any thermometer, pounds of money.
func alikeUnits(a, b unit) bool {
	return a.dimension == "angle" && (b.dimension == "°C" || b.dimension == "°F") ||
		a.dimension == "pounds" && b.dimension == "mass" && b.size == "45359237/100000"
}
