package parsers_test

import (
	"strings"
	"testing"

	"hermes/parsers"
)

// A damaged call between two good ones loses neither.
func TestBadCallKeepsItsNeighbours(t *testing.T) {
	// One call a turn; and a Python list whose string is broken has no way back.
	skip := map[string]string{"gigachat3": "", "pythonic": `"}`, "llama4_pythonic": `"}`, "lfm2": `"}`}
	for _, f := range families() {
		three := f.Format(parsers.Parsed{Calls: []parsers.Call{{Name: "ls", Arguments: `{"path": "FIRST"}`},
			{Name: "ls", Arguments: `{"path": "BROKEN"}`}, {Name: "ls", Arguments: `{"path": "LAST"}`}}})
		for _, damage := range []string{`"}`, `{{{`, `x" "y`, `]`, `</x>`} {
			if s, ok := skip[f.Name]; ok && (s == "" || s == damage) {
				continue
			}
			in := strings.Replace(three, "BROKEN", damage, 1)
			got := f.Parse(in, parsers.ParseOptions{Tools: probeTools})
			var args string
			for _, c := range got.Calls {
				args += c.Arguments
			}
			if !strings.Contains(args, "FIRST") || !strings.Contains(args, "LAST") {
				t.Errorf("%s: %q: %s, faults %+v", f.Name, in, args, got.Faults)
			}
		}
	}
}
