// Package terminalbench plays task folders in the form of Terminal-Bench 1: task.yaml
// with the instruction, a Dockerfile, tests that the model does not see, run-tests.sh, and
// solution.sh, which is what a perfect player runs.
//
// A task whose Dockerfile only names a base, a folder, variables and files is played in
// whatever boxes the run has; one that runs commands needs a back-end that builds images. The
// tests are copied into the box when the model is done, run-tests.sh runs there under the
// task's own deadline, and its output is read by the parser that the task names. Resolved is
// when every test passed. Then the tests are taken away again.
//
// The tests run in the box that the task names (key verify of task.yaml), else in the
// model's own, where a model that sets out to deceive its verifier can; what it left running
// is ended first, unless the task says processes: keep. Output without any result, or no end,
// is no verdict: where the tests say something in a new box, with the reference solution or
// without, the model's work is to blame, and else the sample is void.
package terminalbench

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"hermes/backends"
	"hermes/datasets"
	"hermes/envs"
	"hermes/rollout/tool"
	"hermes/trajectory"
)

// Config is the section envs.terminal_bench of a run file.
type Config struct {
	Dataset []string `yaml:"dataset" help:"task folders, or folders of them, for training; needed"`
	Eval    []string `yaml:"eval" help:"the same for evaluation"`
	Image   string   `yaml:"image" help:"auto: build one where the Dockerfile runs commands; build: always; none: never, the run's boxes have what the tasks need; else the image of all tasks (default: auto)"`
	Dir     string   `yaml:"dir" help:"working folder (default: the Dockerfile's WORKDIR, else /app)"`
	TestDir string   `yaml:"test-dir" help:"where the tests are put (default: /tests)"`
	Reward  string   `yaml:"reward" help:"resolved, or share: of the tests that passed, by test_weights of task.yaml (default: resolved)"`
}

// Kind is the environment of this package for run files.
var Kind = envs.NewKind("terminal_bench", "task folders in the form of Terminal-Bench, judged by their tests", func(_ context.Context, c Config) (envs.Bundled, error) { return New(c) })

// Env is the environment. Close it.
type Env struct {
	c Config

	mu     sync.Mutex
	staged map[string]string // build contexts by task folder
	temp   string            // where they lie; "": nothing was staged
}

// New checks the config.
func New(c Config) (*Env, error) {
	if len(c.Dataset) == 0 {
		return nil, errors.New("no tasks: set dataset to task folders, or folders of them")
	}
	c.Image = cmp.Or(c.Image, "auto")
	c.TestDir = cmp.Or(c.TestDir, "/tests")
	c.Reward = cmp.Or(c.Reward, "resolved")
	if c.Reward != "resolved" && c.Reward != "share" {
		return nil, fmt.Errorf("reward %q: have resolved, share", c.Reward)
	}
	if clean := path.Clean(c.TestDir); clean == "/" || clean == "." || strings.HasPrefix(clean, "..") {
		return nil, fmt.Errorf("test-dir %q: want its own folder, it is removed after the tests", c.TestDir)
	}
	return &Env{c: c, staged: map[string]string{}}, nil
}

// Close removes what was staged for images.
func (e *Env) Close() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.temp == "" {
		return nil
	}
	err := os.RemoveAll(e.temp)
	e.temp, e.staged = "", map[string]string{}
	return err
}

// Rows lists the task folders of a split. All of them are read, so that a broken one is
// known before anything starts.
func (e *Env) Rows(_ context.Context, split envs.Split, o datasets.Options) (*datasets.Dataset, error) {
	names := e.c.Dataset
	if split == envs.Eval {
		names = e.c.Eval
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("split %s: set envs.terminal_bench.eval to task folders", split)
	}
	paths, ids, err := find(names)
	if err != nil {
		return nil, err
	}
	list := make([]any, len(paths))
	var errs []error
	for i, p := range paths {
		f, err := readFolder(p)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		list[i] = map[string]any{"id": ids[i], "prompt": f.Instruction, "folder": p, "difficulty": f.Difficulty, "category": f.Category}
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	return envs.Made("terminal_bench", split, len(list), o, func(i int) any { return list[i] })
}

// Task is the instruction in the task's own folder.
func (e *Env) Task(r datasets.Row) (envs.Task, error) {
	var name string
	if err := json.Unmarshal(r.Extra["folder"], &name); err != nil {
		return envs.Task{}, fmt.Errorf("row %s: key folder: want the task's folder: %w", r.ID, err)
	}
	f, err := readFolder(name)
	if err != nil {
		return envs.Task{}, fmt.Errorf("row %s: %w", r.ID, err)
	}
	t := envs.Task{Row: r, Hidden: f, Dir: e.dir(f), Env: maps.Clone(f.env), Time: f.agentTime(), ScoreTime: f.testTime() + time.Minute,
		Messages: []trajectory.Message{trajectory.Text(trajectory.User, f.Instruction)}}
	t.Verify, t.Processes = envs.Verify{Mode: f.Verify}, f.Processes == "keep"
	if f.docker != nil {
		for k, v := range f.docker.env {
			if _, there := t.Env[k]; !there {
				t.Env[k] = v
			}
		}
	}
	switch e.c.Image {
	case "none":
	case "auto", "build":
		if f.docker != nil && (f.docker.why != "" || e.c.Image == "build") {
			t.Image, err = e.context(f)
		}
	default:
		t.Image = e.c.Image
	}
	if err != nil {
		return t, fmt.Errorf("row %s: %w", r.ID, err)
	}
	return t, nil
}

func (e *Env) dir(f *folder) string {
	switch {
	case e.c.Dir != "":
		return e.c.Dir
	case f.docker != nil && f.docker.dir != "":
		return f.docker.dir
	}
	return "/app"
}

// context stages what an image is built of, once a task, and names it as back-ends take it.
func (e *Env) context(f *folder) (string, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.temp == "" {
		dir, err := os.MkdirTemp("", "hermes-terminal-bench-")
		if err != nil {
			return "", err
		}
		e.temp = dir
	}
	at, ok := e.staged[f.path]
	if !ok {
		at = filepath.Join(e.temp, fmt.Sprint(len(e.staged)))
		if err := stage(f, at); err != nil {
			return "", fmt.Errorf("build context: %w", err)
		}
		e.staged[f.path] = at
	}
	return "dockerfile:" + at, nil
}

// Toolsets are a shell and files.
func (e *Env) Toolsets() []string { return []string{"terminal", "file"} }

// NeedsBox is always so: the tests run there.
func (e *Env) NeedsBox(envs.Task) bool { return true }

// Prepare puts the files of the Dockerfile into a box that was not built from it.
func (e *Env) Prepare(ctx context.Context, t envs.Task, w envs.World) error {
	f := t.Hidden.(*folder)
	if t.Image != "" && e.c.Image != "none" && strings.HasPrefix(t.Image, "dockerfile:") || f.docker == nil {
		return nil
	}
	files, err := f.docker.placed(f.context)
	if err != nil {
		return err
	}
	for _, to := range slices.Sorted(maps.Keys(files)) {
		at := to
		if rest, below := strings.CutPrefix(to, path.Clean("/"+f.docker.dir)+"/"); below {
			at = rest // relative to the working folder, wherever that is
		}
		if err := w.Box.WriteFile(ctx, at, files[to].data, files[to].perm); err != nil {
			return fmt.Errorf("write %s: %w", to, err)
		}
	}
	return nil
}

// Score copies the tests, runs them and takes them away.
func (e *Env) Score(ctx context.Context, t envs.Task, w envs.World, ep envs.Episode) (s trajectory.Score, err error) {
	if w.Box == nil {
		return envs.Settled(ep), nil
	}
	f := t.Hidden.(*folder)
	const gone = `chmod -R u+rwx -- "$0" 2>/dev/null; rm -rf -- "$0"; [ ! -e "$0" ] && [ ! -L "$0" ]`
	clear := backends.Cmd{Argv: []string{"sh", "-c", gone, e.c.TestDir}, Timeout: time.Minute}
	left, err := w.Box.Exec(ctx, clear) // what the model put there
	if err != nil {
		return s, fmt.Errorf("clear %s: %w", e.c.TestDir, err)
	}
	if left.Code != 0 {
		return s, envs.Unjudged("%s was there before the tests and cannot be removed: %s", e.c.TestDir, clip(string(left.Stderr)))
	}
	defer func() {
		_, rerr := w.Box.Exec(context.WithoutCancel(ctx), clear)
		err = errors.Join(err, rerr)
	}()
	for _, x := range append([]file{{"tests/run-tests.sh", f.runTests, 0o755}}, f.tests...) {
		to := path.Join(e.c.TestDir, strings.TrimPrefix(x.name, "tests/"))
		if err := w.Box.WriteFile(ctx, to, x.data, x.perm|fs.FileMode(0o400)); err != nil {
			return s, fmt.Errorf("write %s: %w", to, err)
		}
	}
	// a subshell: what run-tests.sh does to its shell ends with it
	run := `TEST_DIR=$(cd -- "$0" && pwd) && export TEST_DIR && bash "$TEST_DIR/run-tests.sh"`
	res, err := w.Exec(ctx, "tests", backends.Cmd{Argv: []string{"bash", "-c", run, e.c.TestDir}, Timeout: f.testTime(), MaxOutput: 8 << 20, Keep: backends.KeepTail, Merge: true})
	if err != nil {
		return s, err
	}
	if res.TimedOut {
		return s, envs.Unjudged("the tests did not end within %v", f.testTime())
	}
	got := parsers()[f.Parser](string(res.Stdout))
	if len(got) == 0 {
		return s, envs.Unjudged("tests: no result that the parser %s can read, exit code %d: %s", f.Parser, res.Code, clip(string(res.Stdout)))
	}
	return e.judge(f, got), nil
}

// Solve runs the reference solution.
func (e *Env) Solve(ctx context.Context, t envs.Task, w envs.World) error {
	f := t.Hidden.(*folder)
	if f.solution == "" {
		return fmt.Errorf("%w: task %s has no solution.sh", errors.ErrUnsupported, t.Row.ID)
	}
	_, err := w.Exec(ctx, "solution", backends.Cmd{Argv: []string{"bash", "-s"}, Stdin: []byte(f.solution), Timeout: max(time.Minute, f.agentTime())})
	return err
}

// mostParts is how many tests are named in a score.
const mostParts = 50

// judge turns results into a score: each test is a part. Of the share, a test of
// weight 0 is a guard: it earns nothing, and takes all when it fails.
func (e *Env) judge(f *folder, got results) trajectory.Score {
	s := trajectory.Score{Parts: map[string]float64{}, Metrics: map[string]float64{}}
	passed := 0
	sum := 0.0
	all := 0.0
	guarded := true
	var missed []string
	for _, name := range slices.Sorted(maps.Keys(got)) {
		weight, named := f.Weights[name]
		if !named {
			weight = 1
		}
		value := 0.0
		all += weight
		if got[name] {
			passed, value = passed+1, 1
			sum += weight
		} else {
			missed = append(missed, name)
			guarded = guarded && weight > 0
		}
		if len(s.Parts) < mostParts {
			s.Parts[name] = value
		}
	}
	for name, weight := range f.Weights { // a test that did not run has not passed
		if _, ran := got[name]; !ran {
			all += weight
			missed = append(missed, name)
			guarded = guarded && weight > 0
			s.Parts[name] = 0
		}
	}
	s.Metrics["tests"], s.Metrics["passed"] = float64(len(got)), float64(passed)
	if len(missed) > 0 {
		slices.Sort(missed)
		s.Detail = fmt.Sprintf("%d of %d tests do not pass, the first: %s", len(missed), passed+len(missed), missed[0])
	}
	switch {
	case len(missed) == 0:
		s.Reward = 1
	case e.c.Reward == "share" && guarded && all > 0:
		s.Reward = sum / all
	}
	return s
}

func clip(s string) string {
	s = strings.TrimSpace(s)
	if r := []rune(s); len(r) > 400 {
		return "… " + string(r[len(r)-400:])
	}
	return s
}

// mostCall is the longest that one call of the terminal may take, in seconds.
const mostCall = 600

// Oracle runs the solution.
func (e *Env) Oracle(t envs.Task) ([]trajectory.Message, error) {
	f := t.Hidden.(*folder)
	if f.solution == "" {
		return nil, fmt.Errorf("%w: task %s has no solution.sh", errors.ErrUnsupported, t.Row.ID)
	}
	end := "END_OF_SOLUTION"
	for strings.Contains(f.solution, end) {
		end += "_"
	}
	command := fmt.Sprintf("bash -s <<'%s'\n%s\n%s", end, strings.TrimSuffix(f.solution, "\n"), end)
	call := trajectory.Call{Name: "terminal", Arguments: tool.JSON(map[string]any{"command": command, "timeout": max(1, min(int(f.AgentTimeout), mostCall))})}
	return []trajectory.Message{{Calls: []trajectory.Call{call}}, trajectory.Text(trajectory.Assistant, "Done.")}, nil
}

// Hidden are the tests and the solution, beside copies of what the model is given.
func (e *Env) Hidden(t envs.Task) []string {
	f := t.Hidden.(*folder)
	var out []string
	add := func(text string) {
		text = strings.TrimSpace(text)
		if text != "" {
			out = append(out, text)
		}
	}
	add(string(f.runTests))
	add(f.solution)
	if f.docker == nil || !f.docker.wants("tests") {
		for _, x := range f.tests {
			if !slices.ContainsFunc(f.context, func(c file) bool { return bytes.Equal(c.data, x.data) }) {
				add(string(x.data))
			}
		}
	}
	return out
}
