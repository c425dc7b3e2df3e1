package grade

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"hermes/backends"
	"hermes/datasets"
	"hermes/envs"
	"hermes/internal/late"
	"hermes/trajectory"
)

// unitTests puts tests that the model has not seen into its box and runs them. All must
// pass, which is for the command's exit code to say; share gives the share of the tests that
// passed instead, counted in its output (pytest, unittest, go test, TAP).
type unitTests struct {
	Field   string            `yaml:"field"` // {path: text}, default tests
	Files   map[string]string `yaml:"files"`
	Command string            `yaml:"command"` // default: the row's test_command
	Dir     string            `yaml:"dir"`
	Timeout time.Duration     `yaml:"timeout"` // default 5m
	Share   bool              `yaml:"share"`
}

func (o *unitTests) check() error {
	if o.Timeout < 0 {
		return fmt.Errorf("timeout %v is negative", o.Timeout)
	}
	return nil
}

func (o *unitTests) bind(row datasets.Row) (Grader, error) {
	files := o.Files
	if files == nil {
		name := o.Field
		name = cmp.Or(name, "tests")
		raw, _, err := field(row, name)
		if err != nil {
			return nil, err
		}
		if err := strictJSON(raw, &files); err != nil || len(files) == 0 {
			return nil, fmt.Errorf("row %s: %s %s: want {path: text}", row.ID, name, clip(raw))
		}
	}
	c := backends.Cmd{Shell: o.Command, Dir: o.Dir, Timeout: o.Timeout}
	c.Timeout = cmp.Or(c.Timeout, 5*time.Minute)
	if o.Command == "" {
		raw, name, err := field(row, "test_command")
		if err != nil {
			return nil, err
		}
		c.Shell, c.Argv, err = words(raw)
		if err != nil {
			return nil, fmt.Errorf("row %s: %s: %w", row.ID, name, err)
		}
	}
	return Func(func(ctx context.Context, w envs.World, ep envs.Episode) (trajectory.Score, error) {
		if w.Box == nil {
			return envs.Settled(ep), nil
		}
		for _, path := range slices.Sorted(maps.Keys(files)) {
			if err := cleared(ctx, w, path); err != nil {
				return trajectory.Score{}, err
			}
			if err := w.Box.WriteFile(ctx, path, []byte(files[path]), 0o644); err != nil {
				var pe *fs.PathError
				if errors.As(err, &pe) { // the box lives, and the path cannot be written to
					return trajectory.Score{}, envs.Unjudged("tests: write %s: %v", path, err)
				}
				return trajectory.Score{}, fmt.Errorf("tests: write %s: %w", path, err)
			}
		}
		return o.run(ctx, w, c, countedTests(c, files))
	}), nil
}

// inTheWay removes what is at a path, and what is above it and is no folder.
const inTheWay = `d=$0; while d=$(dirname -- "$d"); [ "$d" != . ] && [ "$d" != / ]; do if [ -e "$d" ] || [ -L "$d" ]; then [ -d "$d" ] || rm -f -- "$d"; fi; done; rm -rf -- "$0"`

// cleared makes room for a test: a model that left a folder or a link in its place has
// neither a test that goes astray nor a sample without a score.
func cleared(ctx context.Context, w envs.World, path string) error {
	res, err := w.Box.Exec(ctx, backends.Cmd{Argv: []string{"sh", "-c", inTheWay, path}, Timeout: time.Minute})
	if err == nil && res.Code != 0 {
		return envs.Unjudged("tests: make room for %s: exit %d: %s", path, res.Code, short(string(res.Stderr)))
	}
	if err != nil {
		return fmt.Errorf("tests: make room for %s: %w", path, err)
	}
	return nil
}

func (o *unitTests) run(ctx context.Context, w envs.World, c backends.Cmd, summed bool) (trajectory.Score, error) {
	c.MaxOutput, c.Keep = outputKept, backends.KeepBoth
	c.Env = map[string]string{"PYTHONNOUSERSITE": "1"}
	res, err := w.Check(ctx, "tests", c)
	if err != nil {
		return trajectory.Score{}, err
	}
	out := ansi.ReplaceAllString(behindGap(res.Stdout, res.OutBytes)+"\n"+behindGap(res.Stderr, res.ErrBytes), "")
	passed, failed, several := counted(out)
	if passed+failed == 0 && noTests.MatchString(out) {
		return trajectory.Score{}, envs.Unjudged("tests: no test ran: %s", short(out))
	}
	if res.Code == 0 && summed && passed+failed == 0 {
		return trajectory.Score{}, envs.Unjudged("tests: exit code 0 and no summary: no test ran: %s", short(out))
	}
	if several {
		w.Suspect("verdict_line", "the output has several summaries that disagree; the worst counts")
	}
	s := verdict(res.Code == 0, fmt.Sprintf("exit %d, %d passed, %d failed: %s", res.Code, passed, failed, short(out)))
	s.Metrics = map[string]float64{"passed": float64(passed), "failed": float64(failed)}
	if !o.Share || res.Code == 0 {
		return s, nil
	}
	if res.Truncated && passed+failed == 0 {
		return s, envs.Unjudged("tests: the output was cut (%d bytes): how many passed is not known", res.OutBytes+res.ErrBytes)
	}
	if passed > 0 && failed > 0 {
		s.Reward = float64(passed) / float64(passed+failed)
	}
	return s, nil
}

// behindGap is what was kept of an output behind what was left out of it: summaries come last,
// and one before the gap may not be the last.
func behindGap(kept []byte, all int64) string {
	if all > int64(len(kept)) {
		kept = kept[min(len(kept), outputKept*4/10):]
	}
	return string(kept)
}

func (o *unitTests) needsBox(datasets.Row) bool { return true }

func (o *unitTests) time(datasets.Row) time.Duration {
	return cmp.Or(o.Timeout, 5*time.Minute) + time.Minute
}

func (o *unitTests) binary() bool { return !o.Share }

var (
	pytestCount   = late.Regexp(`(\d+) (passed|failed|error|errors)\b`)
	pytestLine    = late.Regexp(`(?m)^=*\s*(?:\d+ [a-z]+,? ?)+ in [\d.]+s.*$`)
	unittestRan   = late.Regexp(`(?m)^Ran (\d+) tests?\b`)
	unittestBad   = late.Regexp(`(?m)^FAILED \((.*)\)$`)
	unittestCount = late.Regexp(`(?:failures|errors)=(\d+)`)
	goLine        = late.Regexp(`(?m)^\s*--- (PASS|FAIL): `)
	noTests       = late.Regexp(`(?m)^(?:Ran 0 tests\b|=*\s*no tests ran\b|collected 0 items\b|testing: warning: no tests to run|No tests found|0 examples, 0 failures|running 0 tests$)`)
	tapLine       = late.Regexp(`(?m)^(not ok|ok) \d+\b`)
)

// counted reads how many tests passed and failed, from the summary of the output. Where
// several summaries disagree, the one with the smallest share of passed tests counts: a line
// that the judged code adds cannot raise it.
func counted(out string) (passed, failed int, several bool) {
	if lines := pytestLine.FindAllString(out, -1); lines != nil {
		var all []count
		for _, line := range lines {
			all = append(all, ofPytest(line))
		}
		return worstOf(all)
	}
	if runs := unittestRan.FindAllStringSubmatchIndex(out, -1); runs != nil {
		var all []count
		for i, m := range runs {
			end := len(out)
			if i+1 < len(runs) {
				end = runs[i+1][0]
			}
			all = append(all, ofUnittest(out[m[2]:m[3]], out[m[1]:end]))
		}
		return worstOf(all)
	}
	for _, f := range frameworks {
		if all := f.read(out); all != nil {
			return worstOf(all)
		}
	}
	for _, re := range []*late.Pattern{goLine, tapLine} {
		for _, m := range re.FindAllStringSubmatch(out, -1) {
			if strings.HasPrefix(m[1], "PASS") || m[1] == "ok" {
				passed++
			} else {
				failed++
			}
		}
	}
	return passed, failed, false
}

// countedTests tells whether the tests are run by something that says how many there were.
func countedTests(c backends.Cmd, files map[string]string) bool {
	all := c.Shell + strings.Join(c.Argv, " ")
	for name, text := range files {
		if path.Ext(name) == ".sh" {
			all += "\n" + text
		}
	}
	return framework.MatchString(all) && !quietly.MatchString(all)
}

var (
	framework = late.Regexp(`\b(?:pytest|py\.test|-m unittest)\b`)
	quietly   = late.Regexp(`[>|]| -qq`) // the summary goes elsewhere
)

// count is one summary.
type count struct{ passed, failed int }

func ofPytest(line string) (c count) {
	for _, m := range pytestCount.FindAllStringSubmatch(line, -1) {
		n, err := strconv.Atoi(m[1])
		if err != nil {
			continue
		}
		if m[2] == "passed" {
			c.passed += n
		} else {
			c.failed += n
		}
	}
	return c
}

func ofUnittest(ran, rest string) (c count) {
	all, err := strconv.Atoi(ran)
	for _, m := range unittestCount.FindAllStringSubmatch(unittestBad.FindString(rest), -1) {
		n, bad := strconv.Atoi(m[1])
		c.failed, err = c.failed+n, errors.Join(err, bad)
	}
	if err != nil || c.failed > all {
		return count{}
	}
	c.passed = all - c.failed
	return c
}

func worstOf(all []count) (passed, failed int, several bool) {
	share := func(c count) float64 { return float64(c.passed) / float64(max(1, c.passed+c.failed)) }
	least := all[0]
	for _, c := range all[1:] {
		several = several || c != all[0]
		if share(c) < share(least) {
			least = c
		}
	}
	return least.passed, least.failed, several
}
