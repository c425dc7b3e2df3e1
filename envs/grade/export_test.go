package grade

import "reflect"

// Quick compares what a text is searched for with what the patterns alone find in all of it;
// it returns which search differs, and how many patterns matched.
func Quick(text string) (differs string, matched int) {
	add := func(what string, quick, all bool) {
		if all {
			matched++
		}
		if quick != all {
			differs = what
		}
	}
	add("powers", hasPower(text) && powers.MatchString(text), powers.MatchString(text))
	add("units", hasPower(text) && units.MatchString(text), units.MatchString(text))
	add("named", named(text), name.MatchString(text[max(0, len(text)-40):]))
	for _, number := range []string{"5", "-", "$", ".", "€", "−"} {
		lead := text + number[:1]
		m := dashes.FindStringIndex(lead)
		add("range", inRange(lead), m != nil && ranges.MatchString(lead[:m[0]]))
	}
	marks := answerIs.FindAllStringSubmatchIndex(text, -1)
	if add("announced", marks != nil, marks != nil); !reflect.DeepEqual(announced(text), marks) {
		differs = "announced"
	}
	return differs, matched
}
