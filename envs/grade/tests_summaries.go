package grade

import (
	"strconv"

	"hermes/internal/late"
)

// summary is how a framework says how many tests passed and failed: one pattern a line, in which
// the group names say what is counted. Where all are counted and not those that passed, they are
// what is left.
type summary struct{ line *late.Regexp }

var frameworks = []summary{
	// jest, vitest
	{late.Compile(`(?m)^\s*Tests:?\s+(?:(?P<failed>\d+) failed[,|\s]+)?(?:\d+ (?:skipped|todo|pending)[,|\s]+)*(?:(?P<passed>\d+) passed)?(?:[,|\s]+\d+ (?:skipped|todo))*(?:,? \d+ total|\s+\(\d+\))\s*$`)},
	// cargo
	{late.Compile(`(?m)^test result: (?:ok|FAILED)\. (?P<passed>\d+) passed; (?P<failed>\d+) failed;`)},
	// Maven and JUnit
	{late.Compile(`(?m)^(?:\[\w+\] )?Tests run: (?P<all>\d+), Failures: (?P<failed>\d+)(?:, Errors: (?P<errors>\d+))?(?:, Skipped: (?P<skipped>\d+))?\s*$`)},
	// RSpec
	{late.Compile(`(?m)^(?P<all>\d+) examples?, (?P<failed>\d+) failures?(?:, (?P<skipped>\d+) pending)?\s*$`)},
	// CTest
	{late.Compile(`(?m)^\d+% tests passed, (?P<failed>\d+) tests? failed out of (?P<all>\d+)\s*$`)},
	// PHPUnit
	{late.Compile(`(?m)^Tests: (?P<all>\d+), Assertions: \d+(?:, Errors: (?P<errors>\d+))?(?:, Failures: (?P<failed>\d+))?(?:, [A-Z]\w+: \d+)*\.\s*$`)},
	// mocha
	{late.Compile(`(?m)^\s*(?P<passed>\d+) passing \([^)]*\)\s*\n(?:\s*\d+ pending\s*\n)?(?:\s*(?P<failed>\d+) failing\b)?`)},
}

// read lists the summaries of an output; nil: there is none.
func (s summary) read(out string) (list []count) {
	for _, m := range s.line.FindAllStringSubmatch(out, -1) {
		n := map[string]int{}
		for i, name := range s.line.SubexpNames() {
			if name != "" && m[i] != "" {
				v, err := strconv.Atoi(m[i])
				if err != nil {
					return []count{{}}
				}
				n[name] += v
			}
		}
		c := count{n["passed"], n["failed"] + n["errors"]}
		if all := n["all"] - n["skipped"]; all > 0 {
			c.passed = max(0, all-c.failed)
		}
		if c.passed+c.failed > 0 { // a part without tests says nothing of the others
			list = append(list, c)
		}
	}
	return list
}
