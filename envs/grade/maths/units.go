package maths

import (
	"math/big"
	"regexp"
	"strings"
)

// unitWords are the units that are read behind a number in a sentence. "in" is not: it is a
// word in most of them.
const unitWords = `cm|mm|km|kg|mg|ml|mph|m|g|s|h|L|inch(?:es)?|ft|feet|foot|yards?|miles?|(?:centi|kilo|milli)?met(?:er|re)s?|degrees?|dollars?|cents?|euros?|hours?|minutes?|seconds?|days?|weeks?|months?|years?|(?:kilo|milli)?grams?|pounds?|(?:milli)?lit(?:er|re)s?`

// unit is a measure of a dimension, how many of the smallest one.
type unit struct {
	dimension string
	size      string // a rational number
}

// unitNamed knows the units by their names in lower case, without a plural s.
func unitNamed(name string) (unit, bool) {
	u, ok := map[string]unit{
		"mm": {"length", "1/1000"}, "millimeter": {"length", "1/1000"}, "millimetre": {"length", "1/1000"},
		"cm": {"length", "1/100"}, "centimeter": {"length", "1/100"}, "centimetre": {"length", "1/100"},
		"m": {"length", "1"}, "meter": {"length", "1"}, "metre": {"length", "1"},
		"km": {"length", "1000"}, "kilometer": {"length", "1000"}, "kilometre": {"length", "1000"},
		"in": {"length", "127/5000"}, "inch": {"length", "127/5000"}, "inche": {"length", "127/5000"},
		"ft": {"length", "381/1250"}, "foot": {"length", "381/1250"}, "feet": {"length", "381/1250"},
		"yd": {"length", "1143/1250"}, "yard": {"length", "1143/1250"}, "mi": {"length", "201168/125"}, "mile": {"length", "201168/125"},
		"mg": {"mass", "1/1000"}, "milligram": {"mass", "1/1000"}, "g": {"mass", "1"}, "gram": {"mass", "1"}, "kg": {"mass", "1000"}, "kilogram": {"mass", "1000"},
		"pound": {"mass", "45359237/100000"}, "lb": {"mass", "45359237/100000"},
		"s": {"time", "1"}, "second": {"time", "1"}, "minute": {"time", "60"}, "min": {"time", "60"}, "h": {"time", "3600"}, "hour": {"time", "3600"},
		"day": {"time", "86400"}, "week": {"time", "604800"}, "month": {"months", "1"}, "year": {"months", "12"},
		"ml": {"volume", "1/1000"}, "milliliter": {"volume", "1/1000"}, "millilitre": {"volume", "1/1000"}, "l": {"volume", "1"}, "liter": {"volume", "1"}, "litre": {"volume", "1"},
		"cent": {"dollars", "1/100"}, "dollar": {"dollars", "1"}, "euro": {"euros", "1"}, "degree": {"angle", "1"}, "mph": {"speed", "1"},
	}[name]
	return u, ok
}

var (
	ofUnit  = regexp.MustCompile(`[\d})]((?:\\[,;: ]|~|\s|\\text\w*\{|\\mathrm\{|\\mbox\{)*)(?:(square|cubic|sq\.?)\s+)?([A-Za-z]+)\.?[\s}]*(?:\^\s*\{?[23]\}?)?[.\s]*$`)
	squared = regexp.MustCompile(`square|cubic|\bsq\b|\^|[²³]`)
)

// unitOf is the unit behind an expression.
func unitOf(s string) (unit, bool) {
	m := ofUnit.FindStringSubmatch(strings.TrimRight(s, "$ "))
	if m == nil || len(m[3]) == 1 && m[1] == "" { // 3m is a product
		return unit{}, false
	}
	name := strings.ToLower(m[3])
	if u, ok := unitNamed(name); ok {
		return u, true
	}
	return unitNamed(strings.TrimSuffix(name, "s"))
}

// rates says how the units of two expressions go together: known is false where one has
// none; ok is false where they measure different things; else rate is the size of a's unit
// in that of b. Squares and cubes are not converted.
func rates(a, b string) (rate *big.Rat, known, ok bool) {
	u, ok1 := unitOf(a)
	v, ok2 := unitOf(b)
	if !ok1 || !ok2 || u == v {
		return nil, false, true
	}
	x, ok1 := new(big.Rat).SetString(u.size)
	y, ok2 := new(big.Rat).SetString(v.size)
	if u.dimension != v.dimension || !ok1 || !ok2 || squared.MatchString(a) || squared.MatchString(b) {
		return nil, true, false
	}
	return x.Quo(x, y), true, true
}

// Units says how many of the unit b one of the unit a is: 1 where either is none that is
// known. ok is false where they measure different things, or where they are not the same
// and powers of them are meant.
func Units(a, b string, power bool) (rate *big.Rat, ok bool) {
	rate, known, ok := rates("1 "+a, "1 "+b)
	if !known {
		return big.NewRat(1, 1), ok
	}
	return rate, ok && !power
}
