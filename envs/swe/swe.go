// Package swe is work on repositories, with rows in the form of SWE-bench: an issue, the
// commit to start from, and tests that judge.
//
// The repository lies in the box: in the row's image, or made by its setup, a shell text
// that runs before the model. What leads to later commits is removed from it. To score,
// the files that the test patch touches are set back to the base commit, the test patch
// is applied, the tests run, and their names are read from the output. The reward is 1
// when every test of FAIL_TO_PASS and PASS_TO_PASS passes, else 0. Afterwards the
// repository is as the model left it.
//
// The tests run in a new box unless the run or the row says otherwise (see docs/graders.md).
// It is made and set up as the model's box was. Then the files of the model's repository
// replace those of the new one, except .git. Output that names no test at all is no verdict:
// where the tests run with the reference patch, the model broke them, else the sample is void.
package swe

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"hermes/backends"
	"hermes/datasets"
	"hermes/envs"
	"hermes/internal/late"
	"hermes/rollout/tool"
	"hermes/trajectory"
)

// Config is the section envs.swe of a run file.
type Config struct {
	Dataset string        `yaml:"dataset" help:"file or hf:owner/name with the rows for training; needed"`
	Eval    string        `yaml:"eval" help:"the same for evaluation"`
	Image   string        `yaml:"image" help:"image of rows that name none; {id} is the instance, {id_} the instance with __ as _1776_"`
	Dir     string        `yaml:"dir" help:"where the repository lies (default: /testbed)"`
	Test    string        `yaml:"test" help:"shell text that runs the tests of rows without test_command; {files} are the tests of the test patch (default: python3 -m pytest -rA {files})"`
	Timeout time.Duration `yaml:"timeout" help:"of the tests (default: 4m)"`
}

// Kind is the environment of this package for run files.
var Kind = envs.NewKind("swe", "issues of repositories in the form of SWE-bench, judged by tests", func(_ context.Context, c Config) (envs.Bundled, error) { return New(c) })

// Env is the environment.
type Env struct{ c Config }

// New checks the config.
func New(c Config) (*Env, error) {
	if c.Dataset == "" {
		return nil, errors.New("no rows: set dataset to a file or hf:owner/name")
	}
	c.Dir = cmp.Or(c.Dir, "/testbed")
	c.Test = cmp.Or(c.Test, "python3 -m pytest -rA {files}")
	c.Timeout = cmp.Or(c.Timeout, 4*time.Minute)
	if c.Timeout < 0 {
		return nil, fmt.Errorf("timeout %v: want more than 0", c.Timeout)
	}
	return &Env{c: c}, nil
}

// Rows opens the dataset of a split; instance_id names the rows.
func (e *Env) Rows(ctx context.Context, split envs.Split, o datasets.Options) (*datasets.Dataset, error) {
	spec := e.c.Dataset
	if split == envs.Eval {
		spec = e.c.Eval
	}
	if spec == "" {
		return nil, fmt.Errorf("split %s: set envs.swe.eval to a dataset", split)
	}
	if _, ok := o.Map["instance_id"]; !ok {
		o.Map = maps.Clone(o.Map)
		if o.Map == nil {
			o.Map = map[string]string{}
		}
		o.Map["instance_id"] = "id"
	}
	return datasets.Open(ctx, o, spec)
}

// row is what a row has beside its issue.
type row struct {
	repo, base, patch, testPatch string
	setup, test                  string
	failToPass, passToPass       []string
	files                        []string // that the test patch touches
	tests                        []string // those of them that can be run
}

func read(r datasets.Row) (row, error) {
	var w row
	for key, into := range map[string]*string{"repo": &w.repo, "base_commit": &w.base, "patch": &w.patch, "test_patch": &w.testPatch, "setup": &w.setup, "test_command": &w.test} {
		raw, ok := r.Extra[key]
		if !ok || string(raw) == "null" {
			continue
		}
		if err := json.Unmarshal(raw, into); err != nil {
			return w, fmt.Errorf("%s: want text: %w", key, err)
		}
	}
	var err error
	w.failToPass, err = names(r.Extra["FAIL_TO_PASS"])
	if err != nil {
		return w, fmt.Errorf("FAIL_TO_PASS: %w", err)
	}
	w.passToPass, err = names(r.Extra["PASS_TO_PASS"])
	if err != nil {
		return w, fmt.Errorf("PASS_TO_PASS: %w", err)
	}
	switch {
	case len(w.failToPass) == 0:
		return w, errors.New("FAIL_TO_PASS is empty: doing nothing would resolve it")
	case w.testPatch == "":
		return w, errors.New("no test_patch")
	case !commit.MatchString(w.base):
		return w, fmt.Errorf("base_commit %q is no commit", w.base)
	}
	w.files, w.tests = touched(w.testPatch)
	if len(w.files) == 0 {
		return w, errors.New("test_patch touches no file")
	}
	return w, nil
}

var commit = late.Regexp(`^([0-9a-f]{7,64}|HEAD)$`)

// names reads a list, or text that holds one as JSON.
func names(raw json.RawMessage) (list []string, err error) {
	if len(raw) == 0 {
		return nil, nil
	}
	var text string
	if json.Unmarshal(raw, &text) == nil {
		raw = json.RawMessage(text)
		if text == "" {
			return nil, nil
		}
	}
	if err := json.Unmarshal(raw, &list); err != nil {
		return nil, fmt.Errorf("want a list of tests, or text that holds one: %w", err)
	}
	return list, nil
}

const words = `The repository %s lies in %s. Resolve the following issue by changing its code there. Tests that you cannot see will judge the result; leave no files behind that do not belong to the solution.

%s`

// Task is the issue.
func (e *Env) Task(r datasets.Row) (envs.Task, error) {
	w, err := read(r)
	if err != nil {
		return envs.Task{}, fmt.Errorf("row %s: %w", r.ID, err)
	}
	if len(r.Prompt) == 0 {
		return envs.Task{}, fmt.Errorf("row %s: no problem_statement", r.ID)
	}
	t := envs.Task{Row: r, Hidden: w, Image: r.Hermes.Image, Env: r.Hermes.Env, ScoreTime: e.c.Timeout + 3*time.Minute,
		Verify: envs.VerifyOf(r, envs.VerifyFresh), Processes: r.Hermes.Processes == "keep"}
	if t.Verify.Paths == nil {
		t.Verify.Paths, t.Verify.Keep = []string{e.c.Dir}, []string{".git"}
	}
	if t.Image == "" {
		t.Image = strings.NewReplacer("{id}", r.ID, "{id_}", strings.ToLower(strings.ReplaceAll(r.ID, "__", "_1776_"))).Replace(e.c.Image)
	}
	t.Messages = []trajectory.Message{trajectory.Text(trajectory.User, fmt.Sprintf(words, w.repo, e.c.Dir, r.Prompt[len(r.Prompt)-1].Content()))}
	return t, nil
}

// Toolsets are a shell and files.
func (e *Env) Toolsets() []string { return []string{"terminal", "file"} }

// NeedsBox is always so: the tests run there.
func (e *Env) NeedsBox(envs.Task) bool { return true }

// git is the way to call it: no hooks, no settings of the user, nothing that runs a program
// of the repository's choice.
const git = "GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_NOSYSTEM=1 GIT_ATTR_NOSYSTEM=1 git -c core.fsmonitor=false -c core.attributesFile=/dev/null -c core.hooksPath=/dev/null -c safe.directory='*' -c user.name=hermes -c user.email=hermes@localhost -c advice.detachedHead=false"

// Prepare runs the row's setup and takes away what leads beyond the base commit.
func (e *Env) Prepare(ctx context.Context, t envs.Task, w envs.World) error {
	x := t.Hidden.(row)
	if x.setup != "" {
		if _, err := e.must(ctx, w, "setup", backends.Cmd{Shell: x.setup}); err != nil {
			return err
		}
	}
	script := `set -e
GIT="` + git + `"
eval "$GIT checkout -q -f --detach $0"
for r in $(eval "$GIT for-each-ref --format='%(refname)'"); do eval "$GIT update-ref -d $r"; done
eval "$GIT reflog expire --expire=now --all"
rm -f .git/FETCH_HEAD .git/ORIG_HEAD .git/packed-refs.lock
eval "$GIT gc -q --prune=now"`
	if _, err := e.must(ctx, w, "prepare", backends.Cmd{Argv: []string{"sh", "-c", script, x.base}, Dir: e.c.Dir}); err != nil {
		return err
	}
	id, err := e.must(ctx, w, "base", backends.Cmd{Argv: []string{"sh", "-c", git + " rev-parse HEAD"}, Dir: e.c.Dir})
	if err != nil {
		return err
	}
	config, err := w.Box.ReadFile(ctx, path.Join(e.c.Dir, configFile), 1<<20)
	if err != nil { // a worktree, or what else has no folder for them: then nothing is put back
		config = nil
	}
	givenTo(w, given{strings.TrimSpace(string(id)), config})
	return nil
}

const configFile = ".git/config"

// given is where a rollout starts: the model may move HEAD and write settings.
type given struct {
	base   string
	config []byte // of the repository
}

type givenKey struct{}

func givenTo(w envs.World, g given) given {
	return w.BoxState.Get(givenKey{}, func() any { return g }).(given)
}

// must runs a command of ours that has to succeed.
func (e *Env) must(ctx context.Context, w envs.World, name string, c backends.Cmd) ([]byte, error) {
	res, err := w.Exec(ctx, name, c)
	if err != nil {
		return nil, err
	}
	if res.Code != 0 {
		return nil, fmt.Errorf("%s: exit code %d: %s", name, res.Code, clip(string(res.Stdout)+string(res.Stderr)))
	}
	return res.Stdout, nil
}

func clip(s string) string {
	s = strings.TrimSpace(s)
	if r := []rune(s); len(r) > 400 {
		return "… " + string(r[len(r)-400:])
	}
	return s
}

// Score applies the test patch, runs the tests and puts everything back.
func (e *Env) Score(ctx context.Context, t envs.Task, w envs.World, ep envs.Episode) (s trajectory.Score, err error) {
	if w.Box == nil {
		return envs.Settled(ep), nil
	}
	x := t.Hidden.(row)
	start := givenTo(w, given{base: x.base})
	x.base = start.base
	s.Metrics = map[string]float64{"f2p": 0, "p2p": 0}
	in := func(name, shell string, more ...string) backends.Cmd {
		return backends.Cmd{Argv: append([]string{"sh", "-c", shell, name}, more...), Dir: e.c.Dir, Timeout: time.Minute}
	}
	if err := e.ownSettings(ctx, w, start.config); err != nil {
		return s, err
	}
	// a git of the model's that was killed leaves its lock behind
	tree, err := w.Exec(ctx, "snapshot", in("snapshot", `rm -f .git/index.lock; `+git+` add -A && `+git+` write-tree`))
	if err != nil {
		return s, err
	}
	if tree.TimedOut {
		return s, envs.Unjudged("snapshot: git add -A and git write-tree did not end within a minute")
	}
	if tree.Code != 0 {
		return s, envs.Unjudged("the repository is broken: %s", clip(string(tree.Stderr)))
	}
	id := strings.TrimSpace(string(tree.Stdout))
	patch := in("patch", git+` diff --cached --binary --no-ext-diff --no-textconv "$1"`, x.base)
	patch.MaxOutput = 64 << 20
	diff, err := e.must(ctx, w, "patch", patch)
	if err != nil {
		return s, unjudged(err)
	}
	s.Metrics["patch_bytes"] = float64(len(diff))
	edited, _ := touched(string(diff))
	for _, f := range x.files {
		if slices.Contains(edited, f) {
			w.Suspect("tests_edited", "%s, which the test patch touches, was changed by the model; it is set back", f)
		}
	}
	defer func() { // for those who look at the box afterwards: a failure takes nothing from the verdict
		e.must(context.WithoutCancel(ctx), w, "restore", in("restore", git+` read-tree --reset -u "$1" && `+git+` clean -fdq`, id))
	}()
	reset := `for f; do if ` + git + ` cat-file -e "$0:$f" 2>/dev/null; then ` + git + ` checkout -q "$0" -- "$f"; else rm -rf -- "$f"; fi || exit 1; done`
	if _, err := e.must(ctx, w, "reset", backends.Cmd{Argv: append([]string{"sh", "-c", reset, x.base}, x.files...), Dir: e.c.Dir, Timeout: time.Minute}); err != nil {
		return s, unjudged(err)
	}
	apply := in("apply", git+" apply --whitespace=nowarn -")
	apply.Stdin = []byte(x.testPatch)
	if _, err := e.must(ctx, w, "test patch", apply); err != nil {
		return s, unjudged(err)
	}
	return e.run(ctx, x, w, s)
}

// ownSettings puts the repository's settings back: filters and the like run programs.
func (e *Env) ownSettings(ctx context.Context, w envs.World, config []byte) error {
	if config == nil {
		return nil
	}
	at := path.Join(e.c.Dir, configFile)
	now, err := w.Box.ReadFile(ctx, at, 1<<20)
	if err == nil && bytes.Equal(now, config) {
		config = nil
	} else {
		w.Suspect("git_settings", "%s is not as it was; it is put back", configFile)
	}
	clear := `[ -d .git ] || exit 0; rm -rf .git/info/attributes .git/config.worktree .git/objects/info/alternates`
	if config != nil {
		clear += `; rm -rf .git/config`
	}
	if _, err := e.must(ctx, w, "settings", backends.Cmd{Argv: []string{"sh", "-c", clear}, Dir: e.c.Dir, Timeout: time.Minute}); err != nil {
		return unjudged(err)
	}
	if config == nil {
		return nil
	}
	if _, err := w.Box.ReadFile(ctx, path.Join(e.c.Dir, ".git/HEAD"), 1<<20); err != nil {
		return nil // no repository any more: git will say so
	}
	if err := w.Box.WriteFile(ctx, at, config, 0o644); err != nil {
		var pe *fs.PathError
		if errors.As(err, &pe) {
			return unjudged(err)
		}
		return err
	}
	return nil
}

// unjudged is what a command of ours gave up with as no verdict; a box that is gone stays
// what it is.
func unjudged(err error) error {
	if errors.Is(err, backends.ErrLost) || errors.Is(err, backends.ErrBroken) || errors.Is(err, backends.ErrClosed) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return envs.Unjudged("%v", err)
}

// Solve applies the reference patch.
func (e *Env) Solve(ctx context.Context, t envs.Task, w envs.World) error {
	x := t.Hidden.(row)
	if x.patch == "" {
		return fmt.Errorf("%w: row %s has no patch", errors.ErrUnsupported, t.Row.ID)
	}
	_, err := e.must(ctx, w, "reference", backends.Cmd{Argv: []string{"sh", "-c", git + " apply --whitespace=nowarn -"}, Dir: e.c.Dir, Stdin: []byte(x.patch), Timeout: time.Minute})
	return err
}

// run runs the tests and reads their names.
func (e *Env) run(ctx context.Context, x row, w envs.World, s trajectory.Score) (trajectory.Score, error) {
	command := x.test
	command = cmp.Or(command, e.c.Test)
	var quoted []string
	for _, f := range x.tests {
		quoted = append(quoted, "'"+strings.ReplaceAll(f, "'", `'\''`)+"'")
	}
	res, err := w.Check(ctx, "tests", backends.Cmd{Shell: strings.ReplaceAll(command, "{files}", strings.Join(quoted, " ")), Dir: e.c.Dir, Timeout: e.c.Timeout, MaxOutput: 16 << 20,
		Keep: backends.KeepBoth, Merge: true, Env: map[string]string{"PYTHONNOUSERSITE": "1"}})
	if err != nil {
		return s, err
	}
	got := Parse(string(res.Stdout))
	switch {
	case res.Truncated:
		return s, envs.Unjudged("tests: their output was cut (%d bytes): what ran is not known", res.OutBytes)
	case len(got) == 0:
		return s, envs.Unjudged("tests: the output names no test that ran, exit code %d: %s", res.Code, clip(string(res.Stdout)))
	}
	count := func(list []string, also ...string) (share float64, missed []string) {
		n := 0
		for _, name := range list {
			if got.passed(name, also...) {
				n++
			} else {
				missed = append(missed, name)
			}
		}
		if len(list) == 0 {
			return 1, nil
		}
		return float64(n) / float64(len(list)), missed
	}
	var f, p []string
	s.Metrics["f2p"], f = count(x.failToPass)
	s.Metrics["p2p"], p = count(x.passToPass, "SKIPPED")
	switch missed := append(f, p...); {
	case len(missed) > 0:
		s.Detail = fmt.Sprintf("%d of %d tests do not pass, the first: %s", len(missed), len(x.failToPass)+len(x.passToPass), missed[0])
	case res.Code != 0 && !got.failed():
		s.Detail = fmt.Sprintf("the tests ended with exit code %d though none failed: no evidence", res.Code)
	default:
		s.Reward = 1
	}
	return s, nil
}

// Oracle applies the reference patch.
func (e *Env) Oracle(t envs.Task) ([]trajectory.Message, error) {
	x := t.Hidden.(row)
	if x.patch == "" {
		return nil, fmt.Errorf("%w: row %s has no patch", errors.ErrUnsupported, t.Row.ID)
	}
	end := "END_OF_PATCH"
	for strings.Contains(x.patch, end) {
		end += "_"
	}
	command := fmt.Sprintf("cd '%s' && git apply --whitespace=nowarn - <<'%s'\n%s\n%s", e.c.Dir, end, strings.TrimSuffix(x.patch, "\n"), end)
	call := trajectory.Call{Name: "terminal", Arguments: tool.JSON(map[string]string{"command": command})}
	return []trajectory.Message{{Calls: []trajectory.Call{call}}, trajectory.Text(trajectory.Assistant, "The issue is resolved.")}, nil
}

// Hidden are the two patches.
func (e *Env) Hidden(t envs.Task) []string {
	x := t.Hidden.(row)
	return []string{x.testPatch, x.patch}
}
