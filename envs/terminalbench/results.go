package terminalbench

import (
	"maps"
	"slices"
	"strings"

	"hermes/internal/late"
)

// results are tests by name: did they pass?
type results map[string]bool

// parsers read the output of run-tests.sh. A new one is a function and a line here.
func parsers() map[string]func(output string) results {
	return map[string]func(string) results{"pytest": readPytest, "swebench": readSWE}
}

func parserNames() []string { return slices.Sorted(maps.Keys(parsers())) }

var (
	colours = late.Regexp("\x1b\\[[0-9;]*m")
	summary = late.Regexp(`(?m)^=+ short test summary info =+\s*$`)
	outcome = late.Regexp(`^(PASSED|FAILED|ERROR|SKIPPED|XFAIL|XPASS)\s+(.+)$`)
)

// readPytest reads what follows the last summary. A test that failed under any
// parameter, or twice, has failed.
func readPytest(output string) results {
	output = strings.ReplaceAll(colours.ReplaceAllString(output, ""), "\r", "")
	at := summary.FindAllStringIndex(output, -1)
	if at == nil {
		return nil
	}
	r := results{}
	for line := range strings.Lines(output[at[len(at)-1][1]:]) {
		m := outcome.FindStringSubmatch(strings.TrimSpace(line))
		if m == nil {
			continue
		}
		name := strings.TrimSpace(m[2])
		if i := strings.LastIndex(name, " - "); i > 0 {
			name = name[:i]
		}
		plain, _, _ := strings.Cut(name, "[") // a parameter may hold anything
		name = name[strings.LastIndexByte(plain, '/')+1:]
		r.add(name, m[1] == "PASSED" || m[1] == "XFAIL" || m[1] == "SKIPPED")
	}
	return r
}

// readSWE reads the lines between the benchmark's two marks.
func readSWE(output string) results {
	_, rest, ok := strings.Cut(output, "SWEBench results starts here")
	body, _, ended := strings.Cut(rest, "SWEBench results ends here")
	if !ok || !ended {
		return nil
	}
	r := results{}
	for line := range strings.Lines(body) {
		line = strings.TrimSpace(line)
		if name, state, ok := strings.Cut(line, "<-|-|->"); ok {
			state = strings.ToUpper(strings.TrimSpace(state))
			r.add(strings.TrimSpace(name), state == "PASSED" || state == "XFAIL")
		} else if line == "PASSED" || line == "FAILED" { // the benchmark's own script tells the whole
			r.add("resolved", line == "PASSED")
		}
	}
	return r
}

func (r results) add(name string, passed bool) {
	if was, seen := r[name]; seen {
		passed = passed && was
	}
	r[name] = passed
}
