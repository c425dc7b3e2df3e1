package maths

import (
	"math/big"
	"regexp"
	"strings"
)

// unitWords are the units that are read behind a number in a sentence. "in" is not: it is a
// word in most of them. Neither are N, J and other single letters that name variables.
const unitWords = `units|cm|mm|km|nm|kg|mg|m[lL]|cl|cL|mph|kmh|min|mins|sec|secs|hrs?|ms|rads?|radians?|k[NJWV]|[kMG]?Hz|kPa|Pa|MJ|MW|mA|lbs?|oz|gal|yd|mi|m|g|s|h|L|inch(?:es)?|ft|feet|foot|yards?|miles?|(?:centi|kilo|milli|nano)?met(?:er|re)s?|degrees?|dollars?|cents?|euros?|yen|USD|EUR|GBP|JPY|hours?|minutes?|seconds?|days?|weeks?|months?|years?|(?:kilo|milli)?grams?|pounds?|ounces?|tons?|tonnes?|(?:milli|centi)?lit(?:er|re)s?|gallons?|quarts?|pints?|(?:kilo)?(?:newtons?|joules?|watts?|hertz|volts?)|amperes?`

// unit is a measure of a dimension, how many of the smallest one.
type unit struct {
	dimension string
	size      string // a rational number
	power     int    // 0 and 1: itself; 2: its square
}

// unitNamed knows the units by their names in lower case, without a plural s, and by signs
// in which large letters are others than small ones.
func unitNamed(name string) (unit, bool) {
	u, ok := map[string]unit{
		"nm": {"length", "1/1000000000", 0}, "mm": {"length", "1/1000", 0}, "millimeter": {"length", "1/1000", 0}, "millimetre": {"length", "1/1000", 0},
		"cm": {"length", "1/100", 0}, "centimeter": {"length", "1/100", 0}, "centimetre": {"length", "1/100", 0},
		"m": {"length", "1", 0}, "meter": {"length", "1", 0}, "metre": {"length", "1", 0},
		"km": {"length", "1000", 0}, "kilometer": {"length", "1000", 0}, "kilometre": {"length", "1000", 0},
		"in": {"length", "127/5000", 0}, "inch": {"length", "127/5000", 0}, "inche": {"length", "127/5000", 0},
		"ft": {"length", "381/1250", 0}, "foot": {"length", "381/1250", 0}, "feet": {"length", "381/1250", 0},
		"yd": {"length", "1143/1250", 0}, "yard": {"length", "1143/1250", 0}, "mi": {"length", "201168/125", 0}, "mile": {"length", "201168/125", 0},
		"unit": {"units", "1", 0},
		"mg":   {"mass", "1/1000", 0}, "milligram": {"mass", "1/1000", 0}, "g": {"mass", "1", 0}, "gram": {"mass", "1", 0}, "kg": {"mass", "1000", 0}, "kilogram": {"mass", "1000", 0},
		"pound": {"mass", "45359237/100000", 0}, "lb": {"mass", "45359237/100000", 0}, "ounce": {"mass", "45359237/1600000", 0}, "oz": {"mass", "45359237/1600000", 0},
		"ton": {"mass", "1000000", 0}, "tonne": {"mass", "1000000", 0},
		"ms": {"time", "1/1000", 0}, "s": {"time", "1", 0}, "sec": {"time", "1", 0}, "second": {"time", "1", 0}, "minute": {"time", "60", 0}, "min": {"time", "60", 0}, "h": {"time", "3600", 0}, "hr": {"time", "3600", 0}, "hour": {"time", "3600", 0},
		"day": {"time", "86400", 0}, "week": {"time", "604800", 0}, "month": {"months", "1", 0}, "year": {"months", "12", 0},
		"ml": {"volume", "1/1000", 0}, "mL": {"volume", "1/1000", 0}, "milliliter": {"volume", "1/1000", 0}, "millilitre": {"volume", "1/1000", 0}, "cl": {"volume", "1/100", 0}, "cL": {"volume", "1/100", 0}, "centiliter": {"volume", "1/100", 0}, "centilitre": {"volume", "1/100", 0},
		"l": {"volume", "1", 0}, "L": {"volume", "1", 0}, "liter": {"volume", "1", 0}, "litre": {"volume", "1", 0},
		"gallon": {"volume", "3785411784/1000000000", 0}, "gal": {"volume", "3785411784/1000000000", 0}, "quart": {"volume", "946352946/1000000000", 0}, "pint": {"volume", "473176473/1000000000", 0},
		"cent": {"dollars", "1/100", 0}, "dollar": {"dollars", "1", 0}, "$": {"dollars", "1", 0}, "USD": {"dollars", "1", 0}, "euro": {"euros", "1", 0}, "€": {"euros", "1", 0}, "EUR": {"euros", "1", 0},
		"£": {"pounds", "1", 0}, "GBP": {"pounds", "1", 0}, "¥": {"yen", "1", 0}, "yen": {"yen", "1", 0}, "JPY": {"yen", "1", 0},
		"degree": {"angle", "1", 0}, "°": {"angle", "1", 0}, "rad": {"radians", "1", 0}, "radian": {"radians", "1", 0}, "mph": {"speed", "1", 0}, "kmh": {"speed", "1000000/1609344", 0},
		"N": {"force", "1", 0}, "newton": {"force", "1", 0}, "kN": {"force", "1000", 0}, "kilonewton": {"force", "1000", 0},
		"J": {"energy", "1", 0}, "joule": {"energy", "1", 0}, "kJ": {"energy", "1000", 0}, "kilojoule": {"energy", "1000", 0}, "MJ": {"energy", "1000000", 0},
		"W": {"watts", "1", 0}, "watt": {"watts", "1", 0}, "kW": {"watts", "1000", 0}, "kilowatt": {"watts", "1000", 0}, "MW": {"watts", "1000000", 0},
		"V": {"volts", "1", 0}, "volt": {"volts", "1", 0}, "kV": {"volts", "1000", 0}, "kilovolt": {"volts", "1000", 0}, "A": {"current", "1", 0}, "ampere": {"current", "1", 0}, "mA": {"current", "1/1000", 0},
		"Pa": {"pressure", "1", 0}, "kPa": {"pressure", "1000", 0}, "Hz": {"frequency", "1", 0}, "hertz": {"frequency", "1", 0}, "kHz": {"frequency", "1000", 0}, "MHz": {"frequency", "1000000", 0}, "GHz": {"frequency", "1000000000", 0},
	}[name]
	return u, ok
}

var (
	ofUnit = regexp.MustCompile(`[\d})]((?:\\[,;: ]|~|\s|\\text\w*\{|\\mathrm\{|\\mbox\{)*)(?:(square|cubic|sq\.?)\s+)?([A-Za-z]+|[€£¥°])\.?[\s}]*(?:\^\s*\{?([23])\}?|([²³]))?[}.\s]*$`)
	money  = regexp.MustCompile(`^[\s(]*[-+]?\s*(?:\\?(\$)|([€£¥]))\s*[-+]?[\d.\\]`)
	round  = regexp.MustCompile(`(?:\^\s*(?:\{\s*\\circ\s*\}|\\circ)|\\degree)[\s.}]*$`)
)

// unitOf is the unit behind an expression, or the sign of money before it.
func unitOf(s string) (unit, bool) {
	s = strings.TrimRight(s, "$ ")
	if m := ofUnit.FindStringSubmatch(s); m != nil && (len(m[3]) > 1 || m[1] != "") { // 3m is a product
		if u, ok := unitSaid(m[3]); ok {
			switch {
			case strings.HasPrefix(m[2], "sq"), m[4] == "2", m[5] == "²":
				u.power = 2
			case m[2] != "", m[4] == "3", m[5] == "³":
				u.power = 3
			}
			return u, true
		}
	}
	if m := money.FindStringSubmatch(s); m != nil {
		return unitNamed(m[1] + m[2])
	}
	if round.MatchString(s) {
		return unitNamed("°")
	}
	return unit{}, false
}

// unitSaid knows a unit as it is written: a sign, or a word, perhaps of several.
func unitSaid(name string) (unit, bool) {
	for _, n := range []string{name, strings.TrimSuffix(name, "s"), strings.ToLower(name), strings.TrimSuffix(strings.ToLower(name), "s")} {
		if u, ok := unitNamed(n); ok {
			return u, true
		}
	}
	return unit{}, false
}

// rates says how the units of two expressions go together: known is false where one has
// none; ok is false where they measure different things; else rate is the size of a's unit
// in that of b.
func rates(a, b string) (rate *big.Rat, known, ok bool) {
	u, ok1 := unitOf(a)
	v, ok2 := unitOf(b)
	if !ok1 || !ok2 || u == v {
		return nil, false, true
	}
	x, ok1 := new(big.Rat).SetString(u.size)
	y, ok2 := new(big.Rat).SetString(v.size)
	if u.dimension != v.dimension || u.power != v.power || !ok1 || !ok2 {
		return nil, true, false
	}
	one := x.Quo(x, y)
	rate = new(big.Rat).Set(one)
	for range u.power - 1 {
		rate.Mul(rate, one)
	}
	return rate, true, true
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
