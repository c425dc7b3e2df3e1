// Package samples is a set of small tasks for demos and tests: rows of CONTRACT §3 with
// the files of their box, a checker, and a script for the scripted model server.
//
// Most tasks end well. Those whose name begins with "fails-" end badly on purpose, each
// in another way, so that a report shows every ending; the key `ends` of a row says
// which: passed, wrong (the checker says no), turns (the turn limit), malformed (calls
// that cannot be read), length (an answer cut by the token limit). The tasks whose name
// begins with "code-" need python3 in the box.
package samples

import (
	_ "embed"
	"strings"
)

//go:embed tasks.jsonl
var tasks string

// Tasks returns the rows as JSONL, one task a line. The caller may change the slice.
func Tasks() []byte { return []byte(tasks) }

// WithoutCode returns the rows of [Tasks] that need no python3 in the box.
func WithoutCode() []byte {
	var out []byte
	for line := range strings.SplitAfterSeq(tasks, "\n") {
		if !strings.HasPrefix(line, `{"id": "code-`) {
			out = append(out, line...)
		}
	}
	return out
}
