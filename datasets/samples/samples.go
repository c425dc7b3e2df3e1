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
	"bufio"
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
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

// Names returns the tasks' ids in the order of the rows.
func Names() []string {
	var out []string
	in := bufio.NewScanner(bytes.NewReader(Tasks()))
	in.Buffer(nil, len(tasks)+1)
	for in.Scan() {
		var row struct {
			ID string `json:"id"`
		}
		if err := json.Unmarshal(in.Bytes(), &row); err != nil { // the file is ours and tested
			panic(fmt.Sprintf("samples: row %d: %v", len(out)+1, err))
		}
		out = append(out, row.ID)
	}
	return out
}
