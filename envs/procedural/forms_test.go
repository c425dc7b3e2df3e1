package procedural_test

import (
	"context"
	"math/big"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"hermes/datasets"
	"hermes/envs"
	"hermes/envs/procedural"
	"hermes/rollout/play"
	"hermes/trajectory"
)

// TestWrittenForms are right answers as models write them, and wrong ones that look alike.
func TestWrittenForms(t *testing.T) {
	made := map[string]procedural.Puzzle{}
	for _, g := range procedural.Builtin() {
		made[g.Name] = g.Make(rand.New(rand.NewPCG(11, 3)), 3)
	}
	gold := func(name string) string { return made[name].Answer }
	replace := func(name string, pairs ...string) string { return strings.NewReplacer(pairs...).Replace(gold(name)) }
	each := func(text string) string { return strings.TrimSpace(strings.Join(strings.Split(text, ""), " ")) }
	lines := func(name, before string) string { return before + replace(name, "\n", "\n"+before) }
	houses := strings.Split(gold("zebra_puzzles"), "\n")
	upside := strings.Join([]string{houses[2], houses[1], houses[0]}, "\n")
	wrongly := strings.NewReplacer("1:", "2:", "2:", "1:").Replace(gold("zebra_puzzles"))
	tests := []struct {
		name, answer string
		right        bool
	}{
		{"chain_sum", "= " + gold("chain_sum"), false},
		{"chain_sum", "sum = " + gold("chain_sum"), true},
		{"chain_sum", replace("chain_sum", "-", "−"), true},
		{"chain_sum", "```\n" + gold("chain_sum") + "\n```", true},
		{"chain_sum", "```text\n" + gold("chain_sum") + "\n```", true},
		{"chain_sum", gold("chain_sum") + " or 7", false},
		{"simple_equations", "x = " + replace("simple_equations", "-", "−"), true},
		{"simple_equations", `\(x = ` + gold("simple_equations") + `\)`, true},
		{"base_conversion", strings.ToUpper(gold("base_conversion")), true},
		{"base_conversion", gold("base_conversion") + "_{99}", false},
		{"prime_factorization", strconv.Itoa(product(gold("prime_factorization"))) + " = " + gold("prime_factorization"), true},
		{"prime_factorization", replace("prime_factorization", "×", `\times`), true},
		{"prime_factorization", "7 = " + gold("prime_factorization"), false},
		{"countdown", replace("countdown", "*", `\cdot`, "(", "[", ")", "]"), true},
		{"puzzle24", replace("puzzle24", "*", `\times`, "/", `\div`), true},
		{"caesar_cipher", `"` + gold("caesar_cipher") + `."`, true},
		{"caesar_cipher", strings.ToUpper(gold("caesar_cipher")), true},
		{"caesar_cipher", replace("caesar_cipher", " ", ""), false},
		{"game_of_life", each(gold("game_of_life")), true},
		{"game_of_life", "```\n" + gold("game_of_life") + "\n```", true},
		{"game_of_life", replace("game_of_life", "#", ".", ".", "#"), false},
		{"shortest_path", strings.ReplaceAll(each(gold("shortest_path")), " ", " → "), true},
		{"shortest_path", "[" + strings.ReplaceAll(each(gold("shortest_path")), " ", ", ") + "]", true},
		{"polynomial_equations", "{" + gold("polynomial_equations") + "}", true},
		{"polynomial_equations", `\{` + gold("polynomial_equations") + `\}`, true},
		{"polynomial_equations", "x = " + replace("polynomial_equations", ", ", " or x = "), true},
		{"polynomial_equations", "x_1 = " + replace("polynomial_equations", ", ", ", x_2 = "), true},
		{"polynomial_equations", replace("polynomial_equations", ", ", ""), false},
		{"linear_systems", replace("linear_systems", ",", ""), true},
		{"linear_systems", "- " + replace("linear_systems", ", ", "\n- "), true},
		{"linear_systems", replace("linear_systems", ", ", " and "), true},
		{"satisfiability", replace("satisfiability", ",", ""), true},
		{"satisfiability", "```json\n{\"" + replace("satisfiability", " = ", "\": ", ", ", ", \"") + "}\n```", true},
		{"graph_color", replace("graph_color", ",", ""), true},
		{"graph_color", "Colours: " + gold("graph_color"), false},
		{"chinese_remainder", "n = " + gold("chinese_remainder"), true},
		{"course_schedule", replace("course_schedule", ", ", " → "), true},
		{"tower_of_hanoi", lines("tower_of_hanoi", "- "), true},
		{"group_anagrams", lines("group_anagrams", "- "), true},
		{"zebra_puzzles", strings.ReplaceAll(gold("zebra_puzzles"), ": ", " | name: "), true},
		{"zebra_puzzles", "| House | name | drink |\n|---|---|---|\n" + gold("zebra_puzzles"), true},
		{"zebra_puzzles", upside, true},
		{"zebra_puzzles", wrongly, false},
	}
	for _, tt := range tests {
		if err := made[tt.name].Judge(tt.answer); (err == nil) != tt.right {
			t.Errorf("%s: %q: %v, want right: %v (%s)", tt.name, tt.answer, err, tt.right, gold(tt.name))
		}
	}
	// Units, fractions and words in quotes, wherever a seed asks for them.
	seen := map[string]int{}
	for seed := range uint64(300) {
		level := int(seed%10) + 1
		at := func(g int) procedural.Puzzle {
			return procedural.Builtin()[g].Make(rand.New(rand.NewPCG(seed, 5)), level)
		}
		for i, g := range procedural.Builtin() {
			var forms []string
			wrong := ""
			switch g.Name {
			case "calendar_arithmetic":
				p := at(i)
				forms = []string{"(" + p.Answer + ")"}
				if !strings.Contains(p.Question, "form") {
					forms, wrong = []string{p.Answer + " days"}, p.Answer+" weeks"
				}
			case "course_schedule":
				if at(i).Answer != "none" {
					continue
				}
				forms = []string{`"none"`, "None."}
			case "polygon_area":
				p := at(i)
				if strings.Contains(p.Question, "How many") {
					forms, wrong = []string{p.Answer + " points"}, p.Answer+" units"
				} else {
					twice := strings.TrimSuffix(strings.TrimSuffix(p.Answer, ".5"), ".0")
					forms = []string{p.Answer + " square units", "Area = " + p.Answer, p.Answer + `\text{ units}^2`}
					if n, _ := strconv.Atoi(twice); strings.HasSuffix(p.Answer, ".5") {
						forms = append(forms, `\frac{`+strconv.Itoa(2*n+1)+`}{2}`)
					}
				}
			case "base_conversion":
				p := at(i)
				m := strings.Fields(p.Question)
				base := strings.TrimSuffix(m[10], ".")
				forms, wrong = []string{p.Answer + "_{" + base + "}", p.Answer + " (base " + base + ")", "```\n" + p.Answer + "\n```"}, p.Answer+"_"+base+"1"
			default:
				continue
			}
			seen[g.Name]++
			for _, f := range forms {
				if err := at(i).Judge(f); err != nil {
					t.Fatalf("%s: %q: %v\n%s", g.Name, f, err, at(i).Question)
				}
			}
			if wrong != "" && at(i).Judge(wrong) == nil {
				t.Fatalf("%s: %q is right\n%s", g.Name, wrong, at(i).Question)
			}
		}
	}
	if len(seen) != 4 {
		t.Errorf("seen: %v", seen)
	}
}

func product(factors string) int {
	n := 1
	for _, w := range strings.Split(factors, " × ") {
		p, _ := strconv.Atoi(w)
		n *= p
	}
	return n
}

// TestTagsThatAreSpokenOf: the tags of the answer may be named before they are used.
func TestTagsThatAreSpokenOf(t *testing.T) {
	env, err := procedural.New(procedural.Config{Generators: []string{"chain_sum"}})
	if err != nil {
		t.Fatal(err)
	}
	d, err := env.Rows(t.Context(), envs.Train, datasets.Options{Limit: 1})
	if err != nil {
		t.Fatal(err)
	}
	for row, err := range d.Rows(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		task, err := env.Task(row)
		if err != nil {
			t.Fatal(err)
		}
		text := "I put it into <answer> tags: <answer>" + task.Hidden.(procedural.Puzzle).Answer + "</answer>"
		rec, err := play.Player{}.Play(context.Background(), env, row, 0, []trajectory.Message{trajectory.Text(trajectory.Assistant, text)})
		if err != nil || rec.Score == nil || rec.Score.Reward != 1 {
			t.Errorf("%q: %+v, %v", text, rec.Score, err)
		}
	}
}

// TestProgramsStaySmall: numbers of a program end before those of a machine do, for
// Python's go on.
func TestProgramsStaySmall(t *testing.T) {
	for _, g := range procedural.Builtin() {
		if g.Name != "program_output" {
			continue
		}
		for seed := range uint64(1500) {
			p := g.Make(rand.New(rand.NewPCG(seed, 10)), 10)
			for _, w := range strings.Fields(p.Answer) {
				if len(w) > 11 {
					t.Fatalf("seed %d: %s\n%s", seed, p.Answer, p.Question)
				}
			}
		}
	}
}

// TestDressedAnswers: in every generator a label before the answer does not count, and a
// list whose items are set apart by "and" or arrows is the list.
func TestDressedAnswers(t *testing.T) {
	for _, g := range procedural.Builtin() {
		for seed := range uint64(10) {
			p := g.Make(rand.New(rand.NewPCG(seed, 3)), 3)
			for _, label := range []string{"Answer: ", "The answer is ", "Final answer: ", "the final answer is: "} {
				if err := p.Judge(label + p.Answer); err != nil {
					t.Errorf("%s: %q: %v", g.Name, label+p.Answer, err)
				}
			}
			if items := strings.Split(p.Answer, ", "); g.Name == "number_sorting" && len(items) > 1 {
				last := len(items) - 1
				for _, text := range []string{
					strings.Join(items[:last], ", ") + " and " + items[last],
					strings.Join(items[:last], ", ") + ", and " + items[last],
					strings.Join(items, " -> "),
					strings.Join(items, "→"),
				} {
					if err := p.Judge(text); err != nil {
						t.Errorf("%q: %v", text, err)
					}
				}
			}
		}
	}
}

// TestLargeProducts: no factorization is of a number that does not fit 64 bits.
func TestLargeProducts(t *testing.T) {
	for _, g := range procedural.Builtin() {
		if g.Name != "prime_factorization" {
			continue
		}
		for seed := range uint64(3000) {
			p := g.Make(rand.New(rand.NewPCG(seed, 10)), 10)
			want := big.NewInt(1)
			for _, word := range strings.Split(p.Answer, " × ") {
				n, ok := new(big.Int).SetString(word, 10)
				if !ok {
					t.Fatalf("seed %d: %s: answer %q", seed, p.Question, p.Answer)
				}
				want.Mul(want, n)
			}
			if !strings.Contains(p.Question, "Factor "+want.String()+" into") || p.Judge(p.Answer) != nil {
				t.Fatalf("seed %d: %s: answer %s", seed, p.Question, p.Answer)
			}
		}
	}
}
