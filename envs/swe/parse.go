package swe

import (
	"cmp"
	"slices"
	"strings"

	"hermes/internal/late"
)

// Results are the states of tests by name: PASSED, FAILED, ERROR, SKIPPED, XFAIL, XPASS.
type Results map[string]string

var (
	pytestLine = late.Regexp(`^(PASSED|FAILED|ERROR|SKIPPED|XFAIL|XPASS) (?:\[\d+\] )?(.+?)(?: - .*)?$`)
	pytestTail = late.Regexp(`^(\S+::.+?) (PASSED|FAILED|ERROR|SKIPPED|XFAIL|XPASS)(?: +\[ *\d+%\])?$`)
	unittest   = late.Regexp(`^(.+?) \.\.\. (?:.* )?(ok|FAIL|ERROR|skipped.*|expected failure)$`)
	unittested = late.Regexp(`^(FAIL|ERROR): (.+)$`)
	colours    = late.Regexp("\x1b\\[[0-9;]*m")
)

// Parse reads the output of pytest (-rA or -v) and of unittest (-v, also Django's). A test
// that failed anywhere has failed, whatever else is printed of it.
func Parse(output string) Results {
	r := Results{}
	for line := range strings.Lines(colours.ReplaceAllString(output, "")) {
		line = strings.TrimSpace(line)
		if name, ok := strings.CutPrefix(line, "PASSED "); ok {
			r.add(name, "PASSED") // no reason follows: t[a - b] is a name
		} else if m := pytestLine.FindStringSubmatch(line); m != nil {
			r.add(m[2], m[1])
		} else if m := pytestTail.FindStringSubmatch(line); m != nil {
			r.add(m[1], m[2])
		} else if m := unittested.FindStringSubmatch(line); m != nil {
			r.add(m[2], map[string]string{"FAIL": "FAILED", "ERROR": "ERROR"}[m[1]])
		} else if m := unittest.FindStringSubmatch(line); m != nil {
			state := map[string]string{"ok": "PASSED", "FAIL": "FAILED", "ERROR": "ERROR", "expected failure": "XFAIL"}[m[2]]
			state = cmp.Or(state, "SKIPPED")
			r.add(m[1], state)
		}
	}
	return r
}

func (r Results) add(name, state string) {
	if was := r[name]; was != "FAILED" && was != "ERROR" {
		r[name] = state
	}
}

// failed tells whether any test failed.
func (r Results) failed() bool {
	for _, s := range r {
		if s == "FAILED" || s == "ERROR" {
			return true
		}
	}
	return false
}

// passed tells whether a test passed, or has one of the other states. Names that were cut
// in the middle of a parameter match by their beginning, if all that match agree.
func (r Results) passed(name string, also ...string) bool {
	good := func(state string) bool { return slices.Contains(append([]string{"PASSED", "XFAIL"}, also...), state) }
	if s, ok := r[name]; ok {
		return good(s)
	}
	if strings.Count(name, "[") <= strings.Count(name, "]") {
		return false
	}
	found := false
	for other, s := range r {
		if strings.HasPrefix(other, name) {
			if !good(s) {
				return false
			}
			found = true
		}
	}
	return found
}
