// Package procedural is a family of reasoning tasks that are made, not collected: thirty
// generators, each with an exact checker. The same generator, version, seed and level
// give the same task on any machine; the level says how hard it is.
//
// A row holds no answer: the task is made again from its seed whenever it is scored. The
// answer is in <answer> tags; of several, the last counts. A task with more than one
// solution accepts all of them. There is no credit for parts.
package procedural

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"hermes/datasets"
	"hermes/envs"
	"hermes/envs/grade"
	"hermes/internal/late"
	"hermes/trajectory"
)

// Config is the section envs.procedural of a run file.
type Config struct {
	Generators []string `yaml:"generators" help:"names of generators, in turn (default: all)"`
	Level      int      `yaml:"level" help:"difficulty, 1 to 10 (default: 3)"`
	MaxLevel   int      `yaml:"max-level" help:"draw the level of each row from level to this (default: level)"`
	Size       int      `yaml:"size" help:"rows of a split (default: 1000)"`
	Seed       uint64   `yaml:"seed" help:"of the rows (default: 0)"`
}

// Kind is the environment of this package for run files.
var Kind = envs.NewKind("procedural", "thirty generators of reasoning tasks with exact checkers", func(_ context.Context, c Config) (envs.Bundled, error) { return New(c) })

// Puzzle is one made task.
type Puzzle struct {
	Question string
	Answer   string                    // one that Check accepts
	Check    func(answer string) error // nil: as Answer, white space aside
}

// Generator makes puzzles. Make may draw from r only; a change of what it makes is a new
// version.
type Generator struct {
	Name    string
	Version int
	Make    func(r *rand.Rand, level int) Puzzle
}

// Builtin lists the generators. A new one is a function and a line here.
func Builtin() []Generator {
	return []Generator{
		{"chain_sum", 1, chainSum}, {"base_conversion", 1, baseConversion}, {"prime_factorization", 2, primeFactorization},
		{"simple_equations", 1, simpleEquations}, {"countdown", 1, countdown}, {"number_sorting", 1, numberSorting},
		{"caesar_cipher", 1, caesarCipher}, {"game_of_life", 1, gameOfLife}, {"shortest_path", 1, shortestPath},
		{"knights_knaves", 1, knightsKnaves},
		{"linear_systems", 1, linearSystems}, {"polynomial_equations", 1, polynomialEquations}, {"chinese_remainder", 1, chineseRemainder},
		{"satisfiability", 1, satisfiability}, {"zebra_puzzles", 1, zebraPuzzles}, {"graph_color", 1, graphColor},
		{"course_schedule", 1, courseSchedule}, {"weighted_path", 1, weightedPath}, {"sorting_steps", 1, sortingSteps},
		{"program_output", 2, programOutput}, {"sudoku", 1, sudoku}, {"group_anagrams", 1, groupAnagrams},
		{"tower_of_hanoi", 1, towerOfHanoi}, {"n_queens", 1, nQueens}, {"puzzle24", 1, puzzle24},
		{"calendar_arithmetic", 1, calendarArithmetic}, {"number_sequence", 1, numberSequence}, {"grid_rules", 1, gridRules},
		{"polygon_area", 1, polygonArea}, {"family_relationships", 1, familyRelationships},
	}
}

// Env is the environment.
type Env struct {
	c    Config
	gens []Generator
}

// New checks the config.
func New(c Config) (*Env, error) {
	e := &Env{c: c, gens: Builtin()}
	e.c.Level = cmp.Or(e.c.Level, 3)
	e.c.MaxLevel = cmp.Or(e.c.MaxLevel, e.c.Level)
	e.c.Size = cmp.Or(e.c.Size, 1000)
	if e.c.Level < 1 || e.c.MaxLevel > 10 || e.c.MaxLevel < e.c.Level {
		return nil, fmt.Errorf("level %d to max-level %d: want 1 to 10, the smaller first", e.c.Level, e.c.MaxLevel)
	}
	if e.c.Size < 0 || e.c.Size > 1_000_000 {
		return nil, fmt.Errorf("size %d: want 1 to 1000000", c.Size)
	}
	if len(c.Generators) == 0 {
		return e, nil
	}
	e.gens = nil
	for _, name := range c.Generators {
		g, err := find(name)
		if err != nil {
			return nil, err
		}
		e.gens = append(e.gens, g)
	}
	return e, nil
}

func find(name string) (Generator, error) {
	var names []string
	for _, g := range Builtin() {
		if g.Name == name {
			return g, nil
		}
		names = append(names, g.Name)
	}
	return Generator{}, fmt.Errorf("generator %q: have %s", name, strings.Join(names, ", "))
}

// row is one line of the rows.
type row struct {
	ID        string `json:"id"`
	Question  string `json:"question"`
	Generator string `json:"generator"`
	Version   int    `json:"version"`
	Seed      uint64 `json:"seed"`
	Level     int    `json:"level"`
}

// Rows makes the rows of a split. Seeds of the evaluation split have the highest bit set,
// those of training never. A question belongs to one split, which its hash says, and comes
// once in it; where a level has too few questions, they repeat.
func (e *Env) Rows(_ context.Context, split envs.Split, o datasets.Options) (*datasets.Dataset, error) {
	r := rand.New(rand.NewPCG(e.c.Seed, 0x726f7773))
	asked := map[string]bool{}
	return envs.Made("procedural", split, e.c.Size, o, func(i int) any {
		g := e.gens[i%len(e.gens)]
		var p row
		for range mostDraws {
			q := e.draw(r, g, split)
			if p.ID != "" && envs.SplitOf(q.Question) != split {
				continue
			}
			p = q
			if envs.SplitOf(q.Question) == split && !asked[q.Question] {
				break
			}
		}
		asked[p.Question] = true
		return p
	})
}

// mostDraws is how many puzzles are made for a row in search of one that is new.
const mostDraws = 40

func (e *Env) draw(r *rand.Rand, g Generator, split envs.Split) row {
	p := row{Generator: g.Name, Version: g.Version, Seed: r.Uint64() >> 1, Level: e.c.Level + r.IntN(e.c.MaxLevel-e.c.Level+1)}
	if split == envs.Eval {
		p.Seed |= 1 << 63
	}
	p.ID = fmt.Sprintf("%s/%d/%d/%016x", p.Generator, p.Version, p.Level, p.Seed)
	p.Question = g.make(p.Seed, p.Level).Question
	return p
}

// make makes one puzzle: the seed alone decides.
func (g Generator) make(seed uint64, level int) Puzzle {
	return g.Make(rand.New(rand.NewPCG(seed, uint64(level))), level)
}

const form = "\n\nThink as long as you like. Then give the final answer between <answer> and </answer>."

// Task makes the row's puzzle again.
func (e *Env) Task(r datasets.Row) (envs.Task, error) {
	var p row
	for key, into := range map[string]any{"generator": &p.Generator, "version": &p.Version, "seed": &p.Seed, "level": &p.Level} {
		if err := json.Unmarshal(r.Extra[key], into); err != nil {
			return envs.Task{}, fmt.Errorf("row %s: key %s: %w", r.ID, key, err)
		}
	}
	g, err := find(p.Generator)
	if err != nil {
		return envs.Task{}, fmt.Errorf("row %s: %w", r.ID, err)
	}
	if g.Version != p.Version || p.Level < 1 || p.Level > 10 {
		return envs.Task{}, fmt.Errorf("row %s: version %d level %d of %s: this is version %d, levels 1 to 10", r.ID, p.Version, p.Level, g.Name, g.Version)
	}
	z := g.make(p.Seed, p.Level)
	return envs.Task{Row: r, Hidden: z, Messages: []trajectory.Message{trajectory.Text(trajectory.User, z.Question+form)}}, nil
}

// Toolsets are none: the tasks are for thinking.
func (e *Env) Toolsets() []string { return []string{} }

// tagged is what is between the last pair of tags: an opening tag that is only
// spoken of belongs to no pair.
func tagged(text string) (string, bool) {
	end := strings.LastIndex(text, "</answer>")
	if end < 0 {
		return "", false
	}
	begin := strings.LastIndex(text[:end], "<answer>")
	if begin < 0 {
		return "", false
	}
	return text[begin+len("<answer>") : end], true
}

// Score reads the last answer in tags.
func (e *Env) Score(_ context.Context, t envs.Task, _ envs.World, ep envs.Episode) (trajectory.Score, error) {
	z := t.Hidden.(Puzzle)
	answer, ok := tagged(grade.Answer(ep))
	if !ok {
		return trajectory.Score{Metrics: map[string]float64{"answered": 0}, Detail: "no <answer>"}, nil
	}
	s := trajectory.Score{Metrics: map[string]float64{"answered": 1}, Reward: 1}
	if err := z.judge(answer); err != nil {
		s.Reward, s.Detail = 0, err.Error()
	}
	return s, nil
}

var (
	signs     = strings.NewReplacer("{,}", ",", `\,`, "", `\!`, "", `\times`, "×", `\cdot`, "·", `\div`, "÷", `\left`, "", `\right`, "", `\(`, "", `\)`, "", `\[`, "", `\]`, "", `\{`, "{", `\}`, "}", `\_`, "_", "$", "", "**", "", "`", "", "−", "-")
	boxed     = late.Regexp(`(?s)^\\boxed\{(.*)\}\.?$`)
	texts     = late.Regexp(`\\(?:text|mathrm|mathbf|operatorname)\{([^{}]*)\}`)
	frac      = late.Regexp(`\\[dt]?frac\{\s*(-?\d+)\s*\}\{\s*(\d+)\s*\}`)
	fenced    = late.Regexp("(?s)^```[a-z]*[ \t]*\n(.*?)\n?```$")
	thousands = late.Regexp(`(\d),(\d{3})\b`)
	labelled  = late.Regexp(`(?i)^(?:so,? )?(?:the )?(?:final )?answer(?: is)?\s*[:=]?\s+`)
	listed    = strings.NewReplacer(", and ", ", ", " and ", ", ", " -> ", ", ", "->", ", ", " → ", ", ", "→", ", ", " ➜ ", ", ")
)

// plain takes an answer out of LaTeX and Markdown.
func plain(answer string) string {
	if m := fenced.FindStringSubmatch(strings.TrimSpace(answer)); m != nil {
		answer = m[1]
	}
	answer = frac.ReplaceAllString(texts.ReplaceAllString(answer, "$1"), "$1/$2")
	answer = strings.TrimSpace(signs.Replace(answer))
	if m := boxed.FindStringSubmatch(answer); m != nil {
		answer = m[1]
	}
	return strings.TrimSpace(answer)
}

// judge looks at an answer as it is; where that is not right, at what is left of it
// without the dress, without a full stop, without commas between thousands, without a label
// ("Answer: 5"), and at a list whose items are set apart by "and" or arrows.
func (z Puzzle) judge(answer string) error {
	err := z.right(answer)
	if err == nil || len(answer) > longest {
		return err
	}
	bare := plain(answer)
	ended := strings.TrimSuffix(bare, ".")
	merged := ended
	for thousands.MatchString(merged) {
		merged = thousands.ReplaceAllString(merged, "$1$2")
	}
	forms := []string{bare, ended, merged}
	for _, f := range forms {
		forms = append(forms, labelled.ReplaceAllString(f, ""))
	}
	for _, f := range forms {
		forms = append(forms, listed.Replace(f))
	}
	for _, other := range forms {
		if other != answer && z.right(other) == nil {
			return nil
		}
	}
	return err
}

func (z Puzzle) right(answer string) error {
	answer = strings.TrimSpace(answer)
	if z.Check != nil {
		return z.Check(answer)
	}
	if !slices.Equal(strings.Fields(answer), strings.Fields(z.Answer)) {
		return fmt.Errorf("%q is not the answer", clip(answer))
	}
	return nil
}

func clip(s string) string {
	if r := []rune(s); len(r) > 100 {
		return string(r[:100]) + "…"
	}
	return s
}

// Oracle answers from the puzzle's own solution.
func (e *Env) Oracle(t envs.Task) ([]trajectory.Message, error) {
	return []trajectory.Message{trajectory.Text(trajectory.Assistant, "<answer>"+t.Hidden.(Puzzle).Answer+"</answer>")}, nil
}

// Hidden is the solution.
func (e *Env) Hidden(t envs.Task) []string { return []string{t.Hidden.(Puzzle).Answer} }
