package procedural_test

import (
	"bufio"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"hermes/envs/procedural"
	"hermes/internal/realdata"
)

// TestReasoningGym holds our checks against rows of another project: where it has the same
// kind of puzzle, its answer is right here too, and a spoilt one is not.
func TestReasoningGym(t *testing.T) {
	f, err := os.Open(realdata.Path(t, "reasoning-gym", "examples.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	type meta struct {
		Puzzle   json.RawMessage `json:"puzzle"`
		Words    []string        `json:"words"`
		Numbers  []int64         `json:"numbers"`
		Disks    int             `json:"num_disks"`
		Pegs     int             `json:"num_pegs"`
		Start    int             `json:"start_peg"`
		Target   int             `json:"target_peg"`
		Relation string          `json:"relationship"`
	}
	asked := map[string]int{}
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var row struct {
			Generator, Question, Answer string
			Metadata                    meta
		}
		if err := json.Unmarshal(lines.Bytes(), &row); err != nil {
			var other struct{ Generator string } // metadata of another form
			if json.Unmarshal(lines.Bytes(), &other) != nil {
				t.Fatal(err)
			}
			continue
		}
		m := row.Metadata
		var check func(string) error
		var wrong string
		switch row.Generator {
		case "mini_sudoku":
			var cells [][]int
			if err := json.Unmarshal(m.Puzzle, &cells); err != nil {
				t.Fatal(err)
			}
			var flat []int
			for _, r := range cells {
				flat = append(flat, r...)
			}
			check, wrong = procedural.SudokuCheck(flat, 2, 2), strings.Replace(row.Answer, "1", "2", 1)
		case "n_queens":
			var cells [][]string
			if err := json.Unmarshal(m.Puzzle, &cells); err != nil {
				t.Fatal(err)
			}
			var given []int
			for _, r := range cells {
				at := strings.Index(strings.Join(r, ""), "Q")
				given = append(given, at)
			}
			check, wrong = procedural.QueensCheck(given), strings.Replace(row.Answer, "Q _", "_ Q", 1)
		case "tower_of_hanoi":
			start := make([]int, m.Disks)
			for i := range start {
				start[i] = m.Start - 1
			}
			check = procedural.HanoiCheck(start, m.Pegs, m.Target-1)
			wrong, _, _ = strings.Cut(row.Answer, "\n")
		case "puzzle24":
			check, wrong = procedural.Check24(m.Numbers), row.Answer+" + 0"
		case "group_anagrams":
			check, wrong = procedural.AnagramCheck(m.Words), strings.Replace(row.Answer, `"], ["`, `", "`, 1)
		case "family_relationships":
			check, wrong = procedural.OneWord(m.Relation), "grand"+row.Answer
		default:
			continue
		}
		asked[row.Generator]++
		if err := check(row.Answer); err != nil {
			t.Errorf("%s: %q: %v", row.Generator, row.Answer, err)
		}
		if check(wrong) == nil {
			t.Errorf("%s: accepts %q", row.Generator, wrong)
		}
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	if len(asked) != 6 {
		t.Errorf("kinds that were asked: %v, want 6", asked)
	}
}
