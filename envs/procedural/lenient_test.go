package procedural_test

import (
	"math/rand/v2"
	"strings"
	"testing"

	"hermes/envs/procedural"
)

// TestForms: an answer may look otherwise as long as it can be read in one way only.
func TestForms(t *testing.T) {
	made := map[string]procedural.Puzzle{}
	for _, g := range procedural.Builtin() {
		made[g.Name] = g.Make(rand.New(rand.NewPCG(11, 3)), 3)
	}
	replace := func(name string, pairs ...string) string {
		return strings.NewReplacer(pairs...).Replace(made[name].Answer)
	}
	json := func(name string) string {
		return `{"` + replace(name, " = ", `": "`, ", ", `", "`) + `"}`
	}
	lists := func(name string) string { return "[[" + replace(name, " ", ", ", "\n", "],\n[") + "]]" }
	first := func(name string) string { return strings.SplitN(made[name].Answer, "\n", 2)[0] }
	tests := []struct {
		name, answer string
		right        bool
	}{
		{"linear_systems", json("linear_systems"), true},
		{"linear_systems", replace("linear_systems", ", ", "\n", " ", ""), true},
		{"linear_systems", replace("linear_systems", "x = ", ""), false},
		{"linear_systems", made["linear_systems"].Answer + ", w = 1", false},
		{"linear_systems", made["linear_systems"].Answer + ", " + made["linear_systems"].Answer, false},
		{"polynomial_equations", "x = " + replace("polynomial_equations", ", ", ", x = "), true},
		{"polynomial_equations", made["polynomial_equations"].Answer + ", 99", false},
		{"satisfiability", replace("satisfiability", "true", "1", "false", "0"), true},
		{"satisfiability", json("satisfiability"), true},
		{"satisfiability", replace("satisfiability", "true", "maybe"), false},
		{"graph_color", json("graph_color"), true},
		{"graph_color", replace("graph_color", "1", "4"), false},
		{"graph_color", replace("graph_color", "1", "x", "2", "1", "x", "2"), false},
		{"course_schedule", replace("course_schedule", ", ", " -> "), true},
		{"course_schedule", "none", false},
		{"weighted_path", replace("weighted_path", ", ", " → "), true},
		{"sorting_steps", "[" + made["sorting_steps"].Answer + "]", true},
		{"sudoku", lists("sudoku"), true},
		{"sudoku", replace("sudoku", " ", ""), true},
		{"grid_rules", lists("grid_rules"), true},
		{"grid_rules", replace("grid_rules", "\n", " "), false},
		{"group_anagrams", `[["` + replace("group_anagrams", ", ", `", "`, "\n", `"], ["`) + `"]]`, true},
		{"group_anagrams", replace("group_anagrams", "\n", ", "), false},
		{"tower_of_hanoi", replace("tower_of_hanoi", "Move disk ", "", "from peg ", "", "to peg ", ""), true},
		{"tower_of_hanoi", first("tower_of_hanoi"), false},
		{"n_queens", replace("n_queens", " ", "", "_", "."), true},
		{"n_queens", first("n_queens"), false},
		{"zebra_puzzles", strings.ToUpper(replace("zebra_puzzles", ":", " -", ",", "")), true},
		{"zebra_puzzles", first("zebra_puzzles"), false},
		{"family_relationships", strings.ToUpper(made["family_relationships"].Answer) + ".", true},
		{"calendar_arithmetic", made["calendar_arithmetic"].Answer + " or later", false},
		{"polygon_area", made["polygon_area"].Answer + "0.0.0", false},
		{"program_output", replace("program_output", " ", ", "), true},
	}
	for _, tt := range tests {
		if err := made[tt.name].Check(tt.answer); (err == nil) != tt.right {
			t.Errorf("%s: %q: %v, want right: %v (%s)", tt.name, tt.answer, err, tt.right, made[tt.name].Answer)
		}
	}
	// The dress of an answer is taken off, its thousands are read; lists stay lists.
	sum := procedural.Puzzle{Answer: "-1234567"}
	for answer, right := range map[string]bool{
		"-1,234,567":              true,
		"$-1234567$":              true,
		`\boxed{-1{,}234{,}567}.`: true,
		"**-1234567**":            true,
		`\(-1234567\)`:            true,
		"1,234,567":               false,
		"-12,34567":               false,
		"-1234567 or -1":          false,
		`\boxed{}`:                false,
		"":                        false,
	} {
		if err := sum.Judge(answer); (err == nil) != right {
			t.Errorf("%q: %v, want right: %v", answer, err, right)
		}
	}
	for name, p := range made {
		if err := p.Judge("$" + p.Answer + "$"); err != nil {
			t.Errorf("%s between dollars: %v", name, err)
		}
	}
	// A detour is a way too; what leads nowhere is not.
	h := made["tower_of_hanoi"]
	line := strings.Fields(h.Answer)
	disk := line[2]
	from := line[5]
	to := line[8]
	detour := "Move disk " + disk + " from peg " + from + " to peg " + to + "\nMove disk " + disk + " from peg " + to + " to peg " + from + "\n" + h.Answer
	if err := h.Check(detour); err != nil {
		t.Errorf("a detour: %v", err)
	}
}
