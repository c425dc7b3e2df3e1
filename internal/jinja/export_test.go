package jinja

import (
	"maps"
	"slices"
)

// Names are those of all filters, tests and methods of texts.
func Names() (filters, tests, methods []string) {
	l := shared()
	return slices.Sorted(maps.Keys(l.filters)), slices.Sorted(maps.Keys(l.tests)), slices.Sorted(maps.Keys(l.str))
}
