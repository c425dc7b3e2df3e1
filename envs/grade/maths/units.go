package maths

import (
	"math/big"
	"strings"

	"hermes/internal/late"
)

// unitWords are the units that are read behind a number in a sentence. "in" is not: it is a
// word in most of them. Neither are N, J and other single letters that name variables.
const unitWords = `units|am|pm|AM|PM|cm|mm|km|nm|kg|mg|m[lL]|cl|cL|mph|kmh|min|mins|sec|secs|hrs?|ms|rads?|radians?|k[NJWV]|[kMG]?Hz|kPa|Pa|MJ|MW|mA|lbs?|oz|gal|yd|mi|m|g|s|h|L|inch(?:es)?|ft|feet|foot|yards?|miles?|(?:centi|kilo|milli|nano)?met(?:er|re)s?|degrees?|dollars?|cents?|euros?|yen|USD|EUR|GBP|JPY|hours?|minutes?|seconds?|days?|weeks?|months?|years?|(?:kilo|milli)?grams?|pounds?|ounces?|tons?|tonnes?|(?:milli|centi)?lit(?:er|re)s?|gallons?|quarts?|pints?|(?:kilo)?(?:newtons?|joules?|watts?|hertz|volts?)|amperes?`

// unit is a measure of a dimension, how many of the smallest one.
type unit struct {
	dimension string
	size      string // a rational number
	power     int    // 0 and 1: itself; 2: its square
}

// unitNamed knows the units by their names in lower case, without a plural s, and by signs
// in which large letters are others than small ones.
func unitNamed(name string) (unit, bool) {
	switch name {
	case "nm":
		return unit{"length", "1/1000000000", 0}, true
	case "mm", "millimeter", "millimetre":
		return unit{"length", "1/1000", 0}, true
	case "cm", "centimeter", "centimetre":
		return unit{"length", "1/100", 0}, true
	case "m", "meter", "metre":
		return unit{"length", "1", 0}, true
	case "km", "kilometer", "kilometre":
		return unit{"length", "1000", 0}, true
	case "in", "inch", "inche":
		return unit{"length", "127/5000", 0}, true
	case "ft", "foot", "feet":
		return unit{"length", "381/1250", 0}, true
	case "yd", "yard":
		return unit{"length", "1143/1250", 0}, true
	case "mi", "mile":
		return unit{"length", "201168/125", 0}, true
	case "unit":
		return unit{"units", "1", 0}, true
	case "mg", "milligram":
		return unit{"mass", "1/1000", 0}, true
	case "g", "gram":
		return unit{"mass", "1", 0}, true
	case "kg", "kilogram":
		return unit{"mass", "1000", 0}, true
	case "pound", "lb":
		return unit{"mass", "45359237/100000", 0}, true
	case "ounce", "oz":
		return unit{"mass", "45359237/1600000", 0}, true
	case "ton", "tonne":
		return unit{"mass", "1000000", 0}, true
	case "ms":
		return unit{"time", "1/1000", 0}, true
	case "s", "sec", "second":
		return unit{"time", "1", 0}, true
	case "minute", "min":
		return unit{"time", "60", 0}, true
	case "h", "hr", "hour":
		return unit{"time", "3600", 0}, true
	case "day":
		return unit{"time", "86400", 0}, true
	case "week":
		return unit{"time", "604800", 0}, true
	case "month":
		return unit{"months", "1", 0}, true
	case "year":
		return unit{"months", "12", 0}, true
	case "ml", "mL", "milliliter", "millilitre":
		return unit{"volume", "1/1000", 0}, true
	case "cl", "cL", "centiliter", "centilitre":
		return unit{"volume", "1/100", 0}, true
	case "l", "L", "liter", "litre":
		return unit{"volume", "1", 0}, true
	case "gallon", "gal":
		return unit{"volume", "3785411784/1000000000", 0}, true
	case "quart":
		return unit{"volume", "946352946/1000000000", 0}, true
	case "pint":
		return unit{"volume", "473176473/1000000000", 0}, true
	case "cent":
		return unit{"dollars", "1/100", 0}, true
	case "dollar", "$", "USD":
		return unit{"dollars", "1", 0}, true
	case "euro", "€", "EUR":
		return unit{"euros", "1", 0}, true
	case "£", "GBP":
		return unit{"pounds", "1", 0}, true
	case "¥", "yen", "JPY":
		return unit{"yen", "1", 0}, true
	case "degree", "°":
		return unit{"angle", "1", 0}, true
	case "rad", "radian":
		return unit{"radians", "1", 0}, true
	case "mph":
		return unit{"length/time", "1397/3125", 0}, true
	case "kmh":
		return unit{"length/time", "5/18", 0}, true
	case "am", "pm": // of a clock
		return unit{name, "1", 0}, true
	case "°C", "°F", "K":
		return unit{name, "1", 0}, true
	case "N", "newton":
		return unit{"force", "1", 0}, true
	case "kN", "kilonewton":
		return unit{"force", "1000", 0}, true
	case "J", "joule":
		return unit{"energy", "1", 0}, true
	case "kJ", "kilojoule":
		return unit{"energy", "1000", 0}, true
	case "MJ":
		return unit{"energy", "1000000", 0}, true
	case "W", "watt":
		return unit{"watts", "1", 0}, true
	case "kW", "kilowatt":
		return unit{"watts", "1000", 0}, true
	case "MW":
		return unit{"watts", "1000000", 0}, true
	case "V", "volt":
		return unit{"volts", "1", 0}, true
	case "kV", "kilovolt":
		return unit{"volts", "1000", 0}, true
	case "A", "ampere":
		return unit{"current", "1", 0}, true
	case "mA":
		return unit{"current", "1/1000", 0}, true
	case "Pa":
		return unit{"pressure", "1", 0}, true
	case "kPa":
		return unit{"pressure", "1000", 0}, true
	case "Hz", "hertz":
		return unit{"frequency", "1", 0}, true
	case "kHz":
		return unit{"frequency", "1000", 0}, true
	case "MHz":
		return unit{"frequency", "1000000", 0}, true
	case "GHz":
		return unit{"frequency", "1000000000", 0}, true
	}
	return unit{}, false
}

var (
	ofUnit = late.Compile(`(?:[\d})]|\\pi\b|π)((?:\\[,;: ]|~|\s|\\text\w*\{|\\mathrm\{|\\mbox\{)*)(?:(square|cubic|sq\.?)\s+)?([A-Za-z]+|[€£¥°])\.?[\s}]*(?:\^\s*\{?([23])\}?|([²³]))?[}.\s]*$`)
	money  = late.Compile(`^[\s(]*[-+]?\s*(?:\\?(\$)|([€£¥]))\s*[-+]?[\d.\\]`)
	round  = late.Compile(`(?:\^\s*(?:\{\s*\\circ\s*\}|\\circ)|\\degree)[\s.}]*$`)
)

// unitOf is the unit behind an expression, or the sign of money before it.
func unitOf(s string) (unit, bool) {
	s = strings.TrimRight(s, "$ ")
	if u, _, ok := compound(s); ok {
		return u, true
	}
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
	if !ok1 || !ok2 || u == v || alikeUnits(u, v) || alikeUnits(v, u) {
		return nil, false, true
	}
	x, ok1 := new(big.Rat).SetString(u.size)
	y, ok2 := new(big.Rat).SetString(v.size)
	if u.dimension != v.dimension || u.power != v.power || !ok1 || !ok2 {
		return nil, true, false
	}
	one := x.Quo(x, y)
	rate = new(big.Rat).Set(one)
	for range u.power - 1 { // of itself, or its square or cube
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
