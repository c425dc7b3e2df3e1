package written

import (
	"strings"

	"hermes/internal/late"
)

var (
	permille = late.Compile(`(\d)\s?(?:‰|per\s?mille?\b)`)
	halves   = late.Compile(`(?i)(^|[^\d.,])(\d+)\s+and\s+(?:((?:a|one)[\s-]half)|((?:a|one)\s+quarter)|(three\s+quarters)|(\d+/\d+))`)
)

// Plain writes numbers that are said in words in digits: 5.5 for "5 and a half", 5e-3 for 5‰.
func Plain(text string) string {
	if strings.Contains(text, "‰") || strings.Contains(text, "mil") {
		text = permille.ReplaceAllString(text, "${1}e-3")
	}
	if !strings.Contains(text, "and") || !strings.Contains(text, "/") && !has(strings.ToLower(text), "half", "quarter") {
		return text // most texts, at little cost
	}
	return halved(text)
}

// halved writes "5 and a half" as 5.5.
func halved(text string) string {
	return halves.ReplaceAllStringFunc(text, func(s string) string {
		m := halves.FindStringSubmatch(s)
		switch {
		case m[3] != "":
			return m[1] + m[2] + ".5"
		case m[4] != "":
			return m[1] + m[2] + ".25"
		case m[5] != "":
			return m[1] + m[2] + ".75"
		}
		return m[1] + m[2] + " " + m[6]
	})
}
