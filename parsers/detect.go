package parsers

import (
	"slices"
	"strings"
)

// clue ties a family to what its chat templates contain.
type clue struct {
	family string
	all    []string // the template contains each of these
	none   []string // and none of these
}

// DetectFamily guesses the family from the source of a chat template: from the markers
// with which it writes the calls of earlier turns or tells the model how to write them.
// why is the marker that decided. ok is false where no clue fits; a template that prints
// no calls gives none.
func DetectFamily(template string) (family, why string, ok bool) {
	for _, c := range clues {
		if c.fits(template) {
			return c.family, c.all[0], true
		}
	}
	return "", "", false
}

func (c clue) fits(template string) bool {
	for _, m := range c.all {
		if !strings.Contains(template, m) {
			return false
		}
	}
	return !slices.ContainsFunc(c.none, func(m string) bool { return strings.Contains(template, m) })
}
