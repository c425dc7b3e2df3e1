package grade

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"hermes/datasets"
)

// NeedError says that a row lacks what a grader needs.
type NeedError struct {
	Row    string
	Fields []string // any of these would do
	Has    []string
}

func (e *NeedError) Error() string {
	has := "nothing to be judged by"
	if len(e.Has) > 0 {
		has = strings.Join(e.Has, ", ")
	}
	return fmt.Sprintf("row %s has no %s; it has %s (--map renames a field, the key field of the grader names one)", e.Row, strings.Join(e.Fields, ", "), has)
}

// answers are the fields in which a gold answer is looked for.
func answers() []string { return []string{"answer", "expected", "ground_truth", "solution"} }

// field returns the first of a row's fields that is there, and its name.
func field(row datasets.Row, names ...string) (json.RawMessage, string, error) {
	for _, name := range names {
		if raw := lookup(row, name); len(raw) > 0 && string(bytes.TrimSpace(raw)) != "null" {
			return raw, name, nil
		}
	}
	return nil, "", &NeedError{Row: row.ID, Fields: names, Has: has(row)}
}

func lookup(row datasets.Row, name string) json.RawMessage {
	s := row.Scoring
	switch name {
	case "answer":
		return s.Answer
	case "expected":
		return s.Expected
	case "expected_tools":
		return s.ExpectedTools
	case "rubric":
		return s.Rubric
	case "checker":
		return s.Checker
	case "ground_truth", "reward_model.ground_truth":
		if len(s.GroundTruth) == 0 && name == "ground_truth" {
			return row.Extra[name] // as the rows of the Berkeley leaderboard have it
		}
		return s.GroundTruth
	case "solution":
		return s.Solution
	}
	return row.Extra[name]
}

func has(row datasets.Row) []string {
	var out []string
	for _, name := range append(answers(), "expected_tools", "rubric", "checker") {
		if len(lookup(row, name)) > 0 && row.Extra[name] == nil {
			out = append(out, name)
		}
	}
	return append(out, slices.Sorted(maps.Keys(row.Extra))...)
}

// Gold names where a grader finds its gold answer. The zero value looks for answer,
// expected, ground_truth and solution, in this order.
type Gold struct {
	Field string `yaml:"field"`
}

func (g Gold) raw(row datasets.Row) (json.RawMessage, string, error) {
	if g.Field != "" {
		return field(row, g.Field)
	}
	return field(row, answers()...)
}

// texts are the gold answers: a list of texts is several, of which one suffices.
func (g Gold) texts(row datasets.Row) ([]string, error) {
	raw, name, err := g.raw(row)
	if err != nil {
		return nil, err
	}
	var list []json.RawMessage
	if json.Unmarshal(raw, &list) != nil {
		list = []json.RawMessage{raw}
	}
	var out []string
	for _, one := range list {
		text := plain(one)
		if strings.TrimSpace(text) == "" {
			return nil, fmt.Errorf("row %s: %s is empty", row.ID, name)
		}
		out = append(out, text)
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("row %s: %s is an empty list", row.ID, name)
	}
	return out, nil
}

// plain is the text of a JSON value: itself if it is text.
func plain(raw json.RawMessage) string {
	if text, ok := asText(raw); ok {
		return text
	}
	return string(bytes.TrimSpace(raw))
}

func asText(raw json.RawMessage) (string, bool) {
	var s string
	err := json.Unmarshal(raw, &s)
	return s, err == nil
}

func clip(raw []byte) string {
	if len(raw) > 80 {
		return strings.ToValidUTF8(string(raw[:80]), "") + "…"
	}
	return string(raw)
}
