package grade_test

import (
	"bytes"
	"encoding/json"
	"os"
	"testing"
)

// Neighbours of answers that were judged wrongly: [kind, gold, answer, what is right].
func TestNeighbours(t *testing.T) {
	data, err := os.ReadFile("testdata/neighbours.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	var list []graded
	for line := range bytes.Lines(data) {
		var kind, gold, answer string
		var right float64
		if err := json.Unmarshal(line, &[]any{&kind, &gold, &answer, &right}); err != nil {
			t.Fatal(err)
		}
		row, err := json.Marshal(map[string]string{"answer": gold})
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, graded{kind, string(row), answer, right})
	}
	if len(list) < 500 {
		t.Fatalf("%d rows", len(list))
	}
	table(t, list)
}
