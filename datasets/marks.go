package datasets

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/parquet-go/parquet-go"
)

// marksKey names the metadata of a Parquet file that holds [marks].
const marksKey = "hermes.columns"

// marks say what a Parquet schema cannot, so that rows come back as they were. A column is
// named by its path in the schema.
type marks struct {
	// Mixed columns hold values of several kinds: texts as they are, other values as their
	// JSON. No text of theirs reads as such a value.
	Mixed [][]string `json:"mixed,omitempty"`
	// Absent columns hold no null that was written out: null is a member that is not there.
	Absent [][]string `json:"absent,omitempty"`
}

// marks lists the marks of all columns under s, and the mixed columns whose texts cannot be
// distinguished from their other values, such as "5" beside 5.
func (s *shape) marks(path []string, m *marks, blurred *[]string) {
	switch s.kind {
	case mixed:
		if s.other {
			*blurred = append(*blurred, spelled(path))
		} else {
			m.Mixed = append(m.Mixed, path)
		}
	case listing:
		s.item.marks(slices.Concat(path, []string{"list", "element"}), m, blurred)
	case object:
		for _, key := range sortedKeys(s.kids) {
			kid, at := s.kids[key], slices.Concat(path, []string{key})
			if !kid.nulls {
				m.Absent = append(m.Absent, at)
			}
			kid.marks(at, m, blurred)
		}
	}
}

// spelled is a path for people: messages[].content.
func spelled(path []string) string {
	return strings.ReplaceAll(strings.Join(path, "."), ".list.element", "[]")
}

// readMarks returns the marks of a file, by joined path; those of other writers are empty.
func readMarks(f *parquet.File) (mixed, absent map[string]bool) {
	mixed, absent = map[string]bool{}, map[string]bool{}
	var m marks
	text, ok := f.Lookup(marksKey)
	if !ok || json.Unmarshal([]byte(text), &m) != nil {
		return mixed, absent
	}
	for _, path := range m.Mixed {
		mixed[joined(path)] = true
	}
	for _, path := range m.Absent {
		absent[joined(path)] = true
	}
	return mixed, absent
}

func joined(path []string) string { return strings.Join(path, "\x00") }
