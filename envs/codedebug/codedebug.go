// Package codedebug is the repair of small Python programs: correct functions with
// mistakes that were put into them, tests that the model sees, and more that it does not.
//
// Each turn of the model is paid by what it changed: the difference in the share of hidden
// tests that pass (Score.Turns, whose sum is what was won in all, however often the model
// went back and forth). The reward is 1 when every hidden test passes and the visible tests
// are as they were, else 0; turn-weight mixes what was won into it.
//
// What a hidden test expects never enters the box: only arguments go in, on the standard
// input of a process, and what the functions return is compared out here. A program that
// prints results, ends the process or patches the runner can but fail. Arguments may be
// seen by code that sets out to spy on them; what must come of them is known nowhere in the
// box. Rows follow from the seed alone, the expected values from second implementations.
package codedebug

import (
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"hermes/backends"
	"hermes/datasets"
	"hermes/envs"
	"hermes/rollout/tool"
	"hermes/trajectory"
)

// Config is the section envs.code_debug of a run file.
type Config struct {
	Size       int     `yaml:"size" help:"rows of a split (default: 200)"`
	Seed       uint64  `yaml:"seed" help:"of the rows (default: 0)"`
	Level      int     `yaml:"level" help:"mistakes of a program, each in its own module, beside as many modules without, 1 to 6 (default: 1)"`
	MaxLevel   int     `yaml:"max-level" help:"draw the level of each row from level to this (default: level)"`
	Image      string  `yaml:"image" help:"image of boxes, with python3"`
	TurnWeight float64 `yaml:"turn-weight" help:"0 to 1: how much of the reward is the share of failing hidden tests that was repaired (default: 0)"`
}

// Kind is the environment of this package for run files.
var Kind = envs.NewKind("code_debug", "Python programs with mistakes, hidden tests, a reward for each turn", func(_ context.Context, c Config) (envs.Bundled, error) { return New(c) })

// Env is the environment.
type Env struct {
	c     Config
	bases []base
	good  map[string][]string
}

// heldOut are the functions whose mistakes are found in the evaluation alone: training shows
// them neither with mistakes nor without. The right modules of the evaluation are training's.
var heldOut = [...]string{"merge_sorted", "to_roman", "primes_below", "word_counts", "to_base", "flatten"}

const mostLevel = 6

// New checks the config.
func New(c Config) (*Env, error) {
	c.Size, c.Level = cmp.Or(c.Size, 200), cmp.Or(c.Level, 1)
	c.MaxLevel = cmp.Or(c.MaxLevel, c.Level)
	switch {
	case c.Size < 0 || c.Size > 100_000:
		return nil, fmt.Errorf("size %d: want 1 to 100000", c.Size)
	case c.Level < 1 || c.MaxLevel > mostLevel || c.MaxLevel < c.Level:
		return nil, fmt.Errorf("level %d to max-level %d: want 1 to %d, the smaller first", c.Level, c.MaxLevel, mostLevel)
	case !(c.TurnWeight >= 0 && c.TurnWeight <= 1):
		return nil, fmt.Errorf("turn-weight %v: want 0 to 1", c.TurnWeight)
	}
	names, err := good()
	if err != nil {
		return nil, fmt.Errorf("good.json: %w", err)
	}
	return &Env{c: c, bases: builtin(), good: names}, nil
}

// row is one line of the rows: it names the program.
type row struct {
	ID     string `json:"id"`
	Prompt string `json:"prompt"`
	Seed   uint64 `json:"seed"`
	Level  int    `json:"level"`
}

// Rows makes the rows of a split; seeds of evaluation are odd, those of training even. The
// splits share no function that is to be repaired.
func (e *Env) Rows(_ context.Context, split envs.Split, o datasets.Options) (*datasets.Dataset, error) {
	return envs.Made("code_debug", split, e.c.Size, o, func(i int) any {
		p := row{Seed: (e.c.Seed<<20 + uint64(i)) << 1, Level: e.c.Level + i%(e.c.MaxLevel-e.c.Level+1)}
		if split == envs.Eval {
			p.Seed |= 1
		}
		p.ID = fmt.Sprintf("made/2/%d/%d", p.Level, p.Seed)
		p.Prompt = words(e.program(p))
		return p
	})
}

// program is a made task.
type program struct {
	modules []module // by name
	hidden  []call
	files   map[string]string
}

// module is one file of lib/.
type module struct {
	base
	bug string // its kind; "": none
}

// call is a test: a function, its arguments, and what it must return as JSON decodes it.
type call struct {
	name string
	args []any
	want any
}

// drawn is how many calls of a module are made by chance, for hidden and for visible tests.
const (
	drawnHidden  = 8
	drawnVisible = 3
)

// program makes a row's program: its seed and level alone decide.
func (e *Env) program(p row) program {
	r := rand.New(rand.NewPCG(p.Seed, uint64(p.Level)))
	chosen := e.choose(r, p)
	x := program{files: map[string]string{"tests/run.py": runner}}
	var visible []call
	for i, base := range chosen {
		m := module{base: base}
		text := m.source
		if i < p.Level {
			names := e.good[m.name]
			want := names[r.IntN(len(names))]
			for _, c := range mutants(m.source) {
				if c.name == want {
					m.bug = c.kind
					text = c.source
				}
			}
		}
		for range drawnHidden { // of right modules too: what is tested must not tell where the mistakes are
			x.hidden = append(x.hidden, m.call(m.draw(r)))
		}
		for _, a := range m.edges {
			x.hidden = append(x.hidden, m.call(a))
		}
		visible = append(visible, m.call(m.edges[r.IntN(len(m.edges))]))
		for range drawnVisible {
			visible = append(visible, m.call(m.draw(r)))
		}
		x.files["lib/"+m.name+".py"] = text
		x.modules = append(x.modules, m)
	}
	r.Shuffle(len(x.hidden), func(i, j int) { x.hidden[i], x.hidden[j] = x.hidden[j], x.hidden[i] })
	slices.SortFunc(x.modules, func(a, b module) int { return strings.Compare(a.name, b.name) })
	slices.SortStableFunc(visible, func(a, b call) int { return strings.Compare(a.name, b.name) })
	var b strings.Builder
	for _, c := range visible {
		b.WriteString(strings.TrimSpace(tool.JSON([]any{c.name, c.args, c.want})) + "\n")
	}
	x.files["tests/cases.jsonl"] = b.String()
	return x
}

// choose draws the modules of a program: first those that get a mistake, of the split's own
// functions, then as many without, as far as training has any left.
func (e *Env) choose(r *rand.Rand, p row) []base {
	var held, shown []base
	for _, b := range e.bases {
		if slices.Contains(heldOut[:], b.name) {
			held = append(held, b)
		} else {
			shown = append(shown, b)
		}
	}
	for _, list := range [][]base{held, shown} {
		r.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	}
	if p.Seed&1 == 1 {
		return append(held[:p.Level:p.Level], shown[:p.Level]...)
	}
	return shown[:min(2*p.Level, len(shown))]
}

func (b base) call(args []any) call {
	var want any
	if err := json.Unmarshal([]byte(tool.JSON(b.solve(args))), &want); err != nil {
		panic(err) // plain values
	}
	return call{b.name, args, want}
}

func words(p program) string {
	var names []string
	bugs := 0
	for _, m := range p.modules {
		names = append(names, "lib/"+m.name+".py")
		if m.bug != "" {
			bugs++
		}
	}
	one := "one of these modules has a mistake"
	if bugs > 1 {
		one = fmt.Sprintf("%d of these modules have a mistake each", bugs)
	}
	return fmt.Sprintf("In the working directory, %s: %s. Each function must do what its description says. Find the mistakes and repair them in place. "+
		"`python3 tests/run.py` runs some tests; others, which you cannot see, will judge the result. Do not change anything in tests/.", one, strings.Join(names, ", "))
}

// Task is the program in its files.
func (e *Env) Task(r datasets.Row) (envs.Task, error) {
	var p row
	for key, into := range map[string]any{"seed": &p.Seed, "level": &p.Level} {
		if err := json.Unmarshal(r.Extra[key], into); err != nil {
			return envs.Task{}, fmt.Errorf("row %s: key %s: %w", r.ID, key, err)
		}
	}
	if p.Level < 1 || p.Level > mostLevel {
		return envs.Task{}, fmt.Errorf("row %s: level %d: want 1 to %d", r.ID, p.Level, mostLevel)
	}
	x := e.program(p)
	return envs.Task{Row: r, Image: e.c.Image, Files: x.files, Hidden: x, Verify: envs.Verify{Default: envs.VerifyFresh}, Messages: []trajectory.Message{trajectory.Text(trajectory.User, words(x))}}, nil
}

// Toolsets are a shell and files.
func (e *Env) Toolsets() []string { return []string{"terminal", "file"} }

// NeedsBox is always so: the programs run there.
func (e *Env) NeedsBox(envs.Task) bool { return true }

var (
	//go:embed harness.py
	harness string
	//go:embed run.py
	runner string
)

// progress is what was won so far in one rollout.
type progress struct {
	start, last float64
	turns       map[int]float64 // by number of the answer, from 1
}

type progressKey struct{}

func (e *Env) progressOf(w envs.World) *progress {
	return w.State.Get(progressKey{}, func() any { return &progress{turns: map[int]float64{}} }).(*progress)
}

// Prepare looks for python3 and runs the hidden tests on the program as it is given.
func (e *Env) Prepare(ctx context.Context, t envs.Task, w envs.World) error {
	res, err := w.Box.Exec(ctx, backends.Cmd{Argv: []string{"python3", "-c", "import sys; sys.exit(sys.version_info < (3, 6))"}, Timeout: time.Minute})
	if err != nil {
		return fmt.Errorf("look for python3: %w", err)
	}
	if res.Code != 0 {
		return errors.New("the box has no python3 of version 3.6 or later: set envs.code_debug.image to an image with it, or choose another back-end")
	}
	p := e.progressOf(w)
	p.start, _, err = e.measure(ctx, t, w)
	if err != nil {
		return err
	}
	p.last = p.start
	if p.start >= 1 {
		return errors.New("no hidden test fails: the program has no mistake that they find")
	}
	return nil
}

// Step pays the turn that has just ended.
func (e *Env) Step(ctx context.Context, t envs.Task, w envs.World, ep envs.Episode) error {
	share, _, err := e.measure(ctx, t, w)
	if err != nil {
		return err
	}
	p := e.progressOf(w)
	p.turns[answers(ep)] += share - p.last
	p.last = share
	return nil
}

// answers counts what the model has said.
func answers(ep envs.Episode) (n int) {
	p := ep.Trace.Prefix()
	for i := range p.Len() {
		if _, node := p.Node(i); node.Sampled() {
			n++
		}
	}
	return n
}

// testTime bounds all hidden tests of a program together: each has half a second of
// processor time, which only programs that sleep or hide from it can stretch.
const testTime = 2 * time.Minute

// measure runs the hidden tests: the share that passes, and the first that does not.
func (e *Env) measure(ctx context.Context, t envs.Task, w envs.World) (share float64, missed string, err error) {
	x := t.Hidden.(program)
	if w.Box == nil {
		return 0, "the box is gone", nil
	}
	cases := make([]any, len(x.hidden))
	for i, c := range x.hidden {
		cases[i] = []any{c.name, c.args}
	}
	mark := fmt.Sprintf("%016x", w.Rand.Uint64())
	res, err := w.Exec(ctx, "hidden tests", backends.Cmd{Argv: []string{"python3", "-I", "-S", "-c", harness}, Timeout: testTime, MaxOutput: 16 << 20,
		Stdin: []byte(tool.JSON(map[string]any{"mark": mark, "cases": cases}))})
	if err != nil {
		return 0, "", err
	}
	got := map[int]string{}
	for line := range strings.Lines(string(res.Stdout)) {
		if parts := strings.SplitN(strings.TrimSpace(line), " ", 3); len(parts) == 3 && parts[0] == mark {
			if i, err := strconv.Atoi(parts[1]); err == nil {
				got[i] = parts[2]
			}
		}
	}
	passed := 0
	for i, c := range x.hidden {
		if c.fits(got[i]) {
			passed++
		} else if missed == "" {
			missed = c.name
		}
	}
	return float64(passed) / float64(len(x.hidden)), missed, nil
}

// fits compares what a function returned with what it must return.
func (c call) fits(result string) bool {
	var got map[string]any
	if json.Unmarshal([]byte(result), &got) != nil {
		return false
	}
	value, ok := got["value"]
	return ok && reflect.DeepEqual(value, c.want)
}

// Score is the end of it.
func (e *Env) Score(ctx context.Context, t envs.Task, w envs.World, ep envs.Episode) (trajectory.Score, error) {
	share, missed, err := e.measure(ctx, t, w)
	if err != nil {
		return trajectory.Score{}, err
	}
	touched, err := e.touched(ctx, t, w)
	if err != nil {
		return trajectory.Score{}, err
	}
	p := e.progressOf(w)
	s := trajectory.Score{Turns: p.paid(answers(ep), share), Metrics: map[string]float64{"share_before": p.start}}
	s.Parts = map[string]float64{"share": share, "untouched": 1, "repaired": (share - p.start) / (1 - p.start), "final": 0}
	switch {
	case touched != "":
		s.Parts["untouched"], s.Parts["repaired"] = 0, min(0, s.Parts["repaired"])
		s.Detail = touched + " is not as it was"
	case share < 1:
		s.Detail = fmt.Sprintf("%.0f %% of the hidden tests pass; the first that does not is one of %s", math.Floor(100*share), missed)
	default:
		s.Parts["final"] = 1
	}
	s.Reward = (1-e.c.TurnWeight)*s.Parts["final"] + e.c.TurnWeight*s.Parts["repaired"]
	return s, nil
}

// paid lists the rewards of all n answers; what changed since the last look, by a process
// in the background, is the last one's.
func (p *progress) paid(n int, share float64) []float64 {
	if n == 0 {
		return nil
	}
	out := make([]float64, n)
	for i := range out {
		out[i] = p.turns[i+1]
	}
	out[n-1] += share - p.last
	return out
}

// touched names a protected file that is not as it was; "": none.
func (e *Env) touched(ctx context.Context, t envs.Task, w envs.World) (string, error) {
	if w.Box == nil {
		return "", nil
	}
	for _, name := range slices.Sorted(maps.Keys(t.Files)) {
		if !strings.HasPrefix(name, "tests/") {
			continue
		}
		data, err := w.Box.ReadFile(ctx, name, int64(len(t.Files[name])))
		switch {
		case ctx.Err() != nil || errors.Is(err, backends.ErrLost) || errors.Is(err, backends.ErrClosed):
			return "", fmt.Errorf("read %s: %w", name, err)
		case err != nil || string(data) != t.Files[name]: // removed, longer, a folder now
			return name, nil
		}
	}
	return "", nil
}

// Oracle repairs one module a turn.
func (e *Env) Oracle(t envs.Task) ([]trajectory.Message, error) {
	var turns []trajectory.Message
	for _, m := range t.Hidden.(program).modules {
		if m.bug == "" {
			continue
		}
		command := fmt.Sprintf("cat >lib/%s.py <<'END_OF_MODULE'\n%sEND_OF_MODULE", m.name, m.source)
		turns = append(turns, trajectory.Message{Calls: []trajectory.Call{{Name: "terminal", Arguments: tool.JSON(map[string]string{"command": command})}}})
	}
	return append(turns, trajectory.Text(trajectory.Assistant, "Repaired.")), nil
}

// Hidden are the modules without their mistakes, and the hidden tests as the visible ones
// are written.
func (e *Env) Hidden(t envs.Task) []string {
	x := t.Hidden.(program)
	var out []string
	for _, m := range x.modules {
		if m.bug != "" {
			out = append(out, m.source)
		}
	}
	for _, c := range x.hidden {
		line := strings.TrimSpace(tool.JSON([]any{c.name, c.args, c.want}))
		if !strings.Contains(t.Files["tests/cases.jsonl"], line) {
			out = append(out, line)
		}
	}
	return out
}
