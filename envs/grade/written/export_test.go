package written

import "strings"

// DeniedSlowly is Denied with the patterns alone, whatever the text has.
func DeniedSlowly(before string) bool {
	before = end(before)
	if denying.MatchString(before) || ruling.MatchString(before) {
		return true
	}
	m := doubting.FindStringIndex(before)
	if m == nil {
		return false
	}
	at := doubt.FindStringIndex(before[m[0]:])
	return at == nil || !doubtful.MatchString(before[:m[0]+at[0]])
}

// DeniedBehindSlowly is DeniedBehind with the pattern alone.
func DeniedBehindSlowly(behind string) bool {
	return wrongBehind.MatchString(behind[:min(len(behind), 100)])
}

// Halved writes the halves of a text in digits, whatever it has.
func Halved(text string) string {
	if !strings.Contains(text, "and") {
		return text // only in small letters
	}
	return halved(text)
}

// Spoken writes the signs in words of a text, whatever it has.
func Spoken(text string) string { return spoken.ReplaceAllString(Unwrap(text), "$1-$2") }
