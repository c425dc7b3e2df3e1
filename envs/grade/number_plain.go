package grade

import (
	"strings"
	"unicode/utf8"

	"hermes/envs/grade/written"
	"hermes/internal/late"
)

var (
	// opposite is -(5), continental 1.234,5 and 1.234.567
	opposite    = late.Compile(`(^|[^\w)\]}])-\s?\(\s*([\d.,]+)\s*\)`)
	continental = late.Compile(`(^|[^\d.,])(\d{1,3}(?:\.\d{3})+,\d+|\d{1,3}(?:\.\d{3}){2,})($|[^\d,.]|[,.](?:\D|$))`)
	absolute    = late.Compile(`\|\s?-\s?([\d.,]+)\s?\|`)
	// scale is that of a temperature, coin a sign of money behind a number
	scale = late.Compile(`^\s?(?:\$?\s?(?:\^\s?\{?\s?\\circ\s?\}?|°)\s?(?:\\(?:text|mathrm)\s?\{\s?)?([CFK])\b|(?i:degrees?\s+(c)elsius|degrees?\s+(f)ahrenheit|degrees?\s+(c)\b|degrees?\s+(f)\b))`)
	coin  = late.Compile(`^\s?([€£¥$])`)
)

// plainly writes numbers in the forms that are read: -5 for -(5), 1234.5 for 1.234,5, 5.5 for "5
// and a half", 5e-3 for 5‰.
func plainly(text string) string {
	if strings.Contains(text, "-(") || strings.Contains(text, "- (") {
		text = opposite.ReplaceAllString(text, "$1-$2")
	}
	if strings.Count(text, "|") == 2 { // no table
		text = absolute.ReplaceAllString(text, "$1")
	}
	if pointed(text) {
		text = continental.ReplaceAllStringFunc(text, func(s string) string {
			m := continental.FindStringSubmatch(s)
			return m[1] + strings.NewReplacer(".", "", ",", ".").Replace(m[2]) + m[3]
		})
	}
	return written.Plain(text)
}

// pointed tells whether a point has three digits and another point or a comma behind it: most
// texts have none.
func pointed(text string) bool {
	for i := 1; i+4 < len(text); i++ {
		if c := text[i+4]; text[i] == '.' && (c == ',' || c == '.') {
			return true
		}
	}
	return false
}

// sign is the unit of the number at a place that is written as a sign: 30 °C, $5, 5 €. A $ that
// has another one beside it is one of LaTeX.
func sign(text string, from, to int) string {
	if rest := strings.TrimLeft(text[to:], " "); rest == "" || rest[0] < utf8.RuneSelf && strings.IndexByte("^$\\d", rest[0]) < 0 {
		return coinOf(text, from, to)
	}
	if m := scale.FindStringSubmatch(text[to:]); m != nil {
		return "°" + strings.ToUpper(m[1]+m[2]+m[3]+m[4]+m[5])
	}
	return coinOf(text, from, to)
}

// coinOf is the money of the number at a place.
func coinOf(text string, from, to int) string {
	unit := strings.TrimLeft(text[from:to], "-+−")
	if m := coin.FindStringSubmatch(text[to:]); m != nil && strings.IndexAny(unit, "$€£¥") != 0 {
		unit = m[1]
	}
	r, _ := utf8.DecodeRuneInString(unit)
	switch {
	case r == '€':
		return "euros"
	case r == '£':
		return "GBP"
	case r == '¥':
		return "yen"
	case r == '$' && strings.Count(text, "$") == 1:
		return "dollars"
	}
	return ""
}
