package rollout_test

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"testing"
	"testing/synctest"

	"hermes/backends"
	"hermes/datasets"
	"hermes/envs"
	"hermes/rollout"
	"hermes/rollout/tool"
	"hermes/trajectory"
)

// judging is a world whose scorer looks into the box.
type judging struct {
	*world
	verify envs.Verify
	solve  func(ctx context.Context) error
	image  string
	images []string          // of the boxes that were opened
	read   map[string]string // files of boxes
	kept   map[string]string // by the names of a workspace, what came into the last box
	out    func(n int) error // of copying out of box number n
	runs   func(n int, c backends.Cmd) (backends.Result, error)
}

func (j *judging) NeedsBox(envs.Task) bool { return true }

func (j *judging) Task(row datasets.Row) (envs.Task, error) {
	t, err := j.world.Task(row)
	t.Verify, t.Image = j.verify, j.image
	return t, err
}

func (j *judging) Solve(ctx context.Context, _ envs.Task, _ envs.World) error {
	if j.solve == nil {
		return errors.ErrUnsupported
	}
	return j.solve(ctx)
}

// Open makes a box with folders that can be copied.
func (j *judging) Open(ctx context.Context, s backends.Spec) (backends.Sandbox, error) {
	b, err := boxes{j.world}.Open(ctx, s)
	if err != nil {
		return nil, err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.images = append(j.images, s.Image)
	return &chest{crate: b.(*crate), j: j, n: j.opened, image: s.Image}, nil
}
func (j *judging) Traits() backends.Traits     { return backends.Traits{Name: "test", Isolated: true} }
func (j *judging) Close(context.Context) error { return nil }

type chest struct {
	*crate
	j     *judging
	n     int
	image string
}

func (c *chest) Exec(_ context.Context, cmd backends.Cmd) (backends.Result, error) {
	if c.j.runs != nil {
		return c.j.runs(c.n, cmd)
	}
	return backends.Result{}, nil
}

func (c *chest) ReadFile(ctx context.Context, name string, limit int64) ([]byte, error) {
	switch text, ok := c.j.read[name]; {
	case text == "?":
		return nil, &fs.PathError{Op: "read", Path: name, Err: fs.ErrPermission}
	case text == "!":
		return nil, backends.ErrLost
	case ok:
		return []byte(text), nil
	}
	return c.crate.ReadFile(ctx, name, limit)
}

func (c *chest) CopyOut(_ context.Context, _ string, to io.Writer) error {
	if c.j.out != nil {
		if err := c.j.out(c.n); err != nil {
			return err
		}
	}
	w := tar.NewWriter(to)
	for _, h := range []*tar.Header{{Name: "a", Typeflag: tar.TypeReg, Size: 1, Mode: 0o4755},
		{Name: "p", Typeflag: tar.TypeFifo},
		{Name: "../up", Typeflag: tar.TypeReg, Size: 1},
		{Name: "/abs", Typeflag: tar.TypeReg, Size: 1},
		{Name: "l", Typeflag: tar.TypeSymlink, Linkname: "/etc"},
		{Name: "mine/x", Typeflag: tar.TypeReg, Size: 1},
		{Name: "d", Typeflag: tar.TypeChar}} {
		if err := w.WriteHeader(h); err != nil {
			return err
		}
		if h.Size > 0 {
			w.Write([]byte("x"))
		}
	}
	return w.Close()
}

func (c *chest) CopyIn(_ context.Context, _ string, from io.Reader) error {
	c.j.kept = map[string]string{"image": c.image}
	for r := tar.NewReader(from); ; {
		h, err := r.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		c.j.kept[h.Name] = fmt.Sprintf("%c %o", h.Typeflag, h.Mode)
	}
}

func judged(t *testing.T, j *judging, o rollout.Options) *trajectory.Record {
	t.Helper()
	return judgedBy(t, runnerOf(t, j, o))
}

func runnerOf(t *testing.T, j *judging, o rollout.Options) *rollout.Runner {
	t.Helper()
	o.Env = j
	o.Policy = j.world
	o.Backend = j
	o.Plan = j.world.plan
	r, err := rollout.NewRunner(o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func judgedBy(t *testing.T, r *rollout.Runner) *trajectory.Record {
	t.Helper()
	row := datasets.Row{ID: "row", Prompt: []trajectory.Message{trajectory.Text(trajectory.User, "task")}}
	rec, err := r.Run(t.Context(), rollout.Job{Row: row, Key: trajectory.NewKey("row", 0, 0, 0), Attempt: 1})
	if err != nil {
		t.Fatal(err)
	}
	return rec
}

type scorer = func(ctx context.Context, n int, w envs.World, ep envs.Episode) (trajectory.Score, error)

// afterModel fails with err after the model's work, and does as control where none worked.
func afterModel(err, control error) scorer {
	return func(_ context.Context, _ int, w envs.World, _ envs.Episode) (trajectory.Score, error) {
		switch {
		case w.Box == nil:
			return trajectory.Score{Detail: "no box"}, nil
		case w.Control:
			return trajectory.Score{}, control
		}
		return trajectory.Score{}, err
	}
}

// TestAttribution holds the table of docs/graders.md: each of its rows has a test here.
func TestAttribution(t *testing.T) {
	none := envs.Unjudged("checker: exit code 127")
	lost := fmt.Errorf("%w: gone", backends.ErrLost)
	talk := func() *world { return &world{turns: []trajectory.Turn{calls(echo("a")), says("done")}} }
	type want struct {
		outcome trajectory.Outcome
		cause   string
		scored  bool
		reason  string
	}
	faulty := want{trajectory.Faulty, "box_broken_by_model", true, ""}
	tests := map[string]struct {
		score scorer
		set   func(j *judging)
		want  want
	}{
		"no verdict; in a new box there is one": {score: afterModel(none, nil), want: faulty},
		"no verdict, in a new box neither": {score: afterModel(none, none),
			want: want{trajectory.Environment, "score", false, "in a new box without the model's work neither"}},
		"a reward line that is no reward; in a new box there is none": {
			score: afterModel(&envs.NoVerdict{What: "nan", Reward: envs.RewardWritten}, &envs.NoVerdict{What: "-", Reward: envs.RewardBlank}), want: faulty},
		"no verdict before there is a solution; with the reference solution there is one": {score: func() scorer {
			solved := false
			return func(ctx context.Context, n int, w envs.World, ep envs.Episode) (trajectory.Score, error) {
				if w.Control && solved {
					return trajectory.Score{}, nil
				}
				solved = w.Control
				return trajectory.Score{}, none
			}
		}(), set: func(j *judging) { j.solve = func(context.Context) error { return nil } }, want: faulty},
		"the scorer's time is over; in a new box it ends": {score: func(ctx context.Context, _ int, w envs.World, _ envs.Episode) (trajectory.Score, error) {
			if w.Control {
				return trajectory.Score{}, nil
			}
			<-ctx.Done()
			return trajectory.Score{}, ctx.Err()
		}, want: faulty},
		"the box is broken by what the model left, while it is looked at": {score: afterModel(backends.ErrBroken, nil), want: faulty},
		"the box is broken by the model's commands": {score: afterModel(nil, nil), set: func(j *judging) {
			j.call = func(context.Context) (tool.Result, error) { return tool.Result{}, backends.ErrBroken }
		}, want: faulty},
		"the workspace cannot be copied, and an untouched one can": {set: func(j *judging) {
			j.verify.Mode = envs.VerifyFresh
			j.out = func(n int) error {
				if n == 1 {
					return errors.New("a folder without end")
				}
				return nil
			}
		}, score: afterModel(nil, nil), want: faulty},
		"an untouched workspace cannot be copied either": {set: func(j *judging) {
			j.verify.Mode = envs.VerifyFresh
			j.out = func(int) error { return backends.ErrTooLarge }
		}, want: want{trajectory.Environment, "verify", false, "of an untouched box neither"}},
		"the image cannot run our own first command": {set: func(j *judging) {
			j.call = func(context.Context) (tool.Result, error) {
				return tool.Result{}, fmt.Errorf("start the shell: exit code 127: %w", backends.ErrBroken)
			}
			j.runs = func(int, backends.Cmd) (backends.Result, error) {
				return backends.Result{Code: 127, Stderr: []byte("sh: no such file")}, nil
			}
		}, want: want{trajectory.Sandbox, "image", false, "image nosh: its sh does not run, exit code 127: sh: no such file"}},
		"the image has no /tmp": {score: afterModel(none, none), set: func(j *judging) {
			j.runs = func(_ int, c backends.Cmd) (backends.Result, error) {
				if len(c.Argv) > 0 && c.Argv[0] == "sh" {
					return backends.Result{Code: 1}, nil
				}
				return backends.Result{}, nil
			}
		}, want: want{trajectory.Sandbox, "image", false, "no /tmp"}},
		"the box is lost": {score: afterModel(lost, nil), want: want{trajectory.Sandbox, "box_lost", false, "gone"}},
		"no verdict, and the box is lost": {score: afterModel(none, nil), set: func(j *judging) {
			j.runs = func(_ int, c backends.Cmd) (backends.Result, error) {
				if len(c.Argv) > 0 && c.Argv[0] == "true" {
					return backends.Result{}, lost
				}
				return backends.Result{}, nil
			}
		}, want: want{trajectory.Sandbox, "box_lost", false, "gone"}},
		"the new box is lost, or cannot be made": {score: afterModel(none, nil), set: func(j *judging) {
			n := 0
			j.open = func(context.Context) error {
				n++
				if n > 1 {
					return lost
				}
				return nil
			}
		}, want: want{trajectory.Sandbox, "box_lost", false, "gone"}},
		"the scorer fails by itself": {score: afterModel(errors.New("oops"), nil), want: want{trajectory.Environment, "score", false, "oops"}},
		"the judge cannot be reached": {score: func(ctx context.Context, _ int, w envs.World, _ envs.Episode) (trajectory.Score, error) {
			_, err := w.Judge.Ask(ctx, "x", nil)
			return trajectory.Score{}, err
		}, want: want{trajectory.Environment, "judge", false, ""}},
		"a reward that is no finite number": {score: func(context.Context, int, envs.World, envs.Episode) (trajectory.Score, error) {
			return trajectory.Score{Reward: inf()}, nil
		}, want: want{trajectory.Environment, "score", false, "+Inf"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				j := &judging{world: talk()}
				j.world.score = tt.score
				if tt.set != nil {
					tt.set(j)
				}
				o := rollout.Options{Image: "nosh"}
				if strings.Contains(name, "judge") {
					o.Judge = &world{next: func(context.Context) error { return errors.New("no route") }}
				}
				rec := judged(t, j, o)
				if rec.Outcome != tt.want.outcome || rec.Cause != tt.want.cause || (rec.Score != nil) != tt.want.scored ||
					!strings.Contains(rec.Reason, tt.want.reason) {
					t.Errorf("%s, cause %q, score %v (%s); want %+v", rec.Outcome, rec.Cause, rec.Score, rec.Reason, tt.want)
				}
				if rec.Score != nil && rec.Score.Reward != 0 {
					t.Errorf("the reward is %v", rec.Score.Reward)
				}
				if j.opened != j.closed {
					t.Errorf("%d boxes opened, %d closed", j.opened, j.closed)
				}
			})
		})
	}
	page, err := os.ReadFile("../docs/graders.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(page), "| what happens |")
	table, _, _ = strings.Cut(table, "\n\n")
	rows := map[string]bool{}
	for _, line := range strings.Split(table, "\n")[2:] {
		cells := strings.Split(line, "|")
		name := strings.TrimSpace(cells[1])
		rows[name] = true
		if _, ok := tests[name]; !ok {
			t.Errorf("docs/graders.md: no test for the row %q", name)
		}
	}
	for name := range tests {
		if !rows[name] {
			t.Errorf("docs/graders.md has no row %q", name)
		}
	}
}

// TestImage: the run's image is that of tasks that name none, whatever the environment.
func TestImage(t *testing.T) {
	for _, tt := range []struct{ task, run, want string }{{"", "", ""}, {"", "run:1", "run:1"}, {"task:1", "run:1", "task:1"}} {
		j := &judging{world: &world{turns: []trajectory.Turn{calls(echo("a")), says("done")}}, image: tt.task, verify: envs.Verify{Mode: envs.VerifyFresh}}
		if rec := judged(t, j, rollout.Options{Image: tt.run}); rec.Score == nil || fmt.Sprint(j.images) != fmt.Sprint([]string{tt.want, tt.want}) {
			t.Errorf("task %q, run %q: boxes of %q, want %q twice", tt.task, tt.run, j.images, tt.want)
		}
	}
}

// TestWhere: the task's word counts before the run's, the run's before the environment's default.
func TestWhere(t *testing.T) {
	for _, tt := range []struct{ task, run, env, want string }{
		{want: "same"},
		{env: "fresh", want: "fresh"},
		{run: "same", env: "fresh", want: "same"},
		{run: "fresh", want: "fresh"},
		{task: "same", run: "fresh", want: "same"},
		{task: "fresh", run: "same", want: "fresh"},
	} {
		j := &judging{world: &world{turns: []trajectory.Turn{calls(echo("a")), says("done")}}, verify: envs.Verify{Mode: tt.task, Default: tt.env}}
		if rec := judged(t, j, rollout.Options{Verify: tt.run}); rec.Verified != tt.want {
			t.Errorf("%+v: scored in %q (%s)", tt, rec.Verified, rec.Reason)
		}
	}
}

// TestQuiet: what the model left running is ended before the first thing that the scorer does
// in its box, once, and whatever that is.
func TestQuiet(t *testing.T) {
	exec := func(ctx context.Context, b backends.Sandbox) error {
		_, err := b.Exec(ctx, backends.Cmd{Argv: []string{"check"}})
		return err
	}
	for name, first := range map[string]func(ctx context.Context, b backends.Sandbox) error{
		"a command": exec,
		"a file":    func(ctx context.Context, b backends.Sandbox) error { _, err := b.ReadFile(ctx, "bash", 0); return err },
		"a write":   func(ctx context.Context, b backends.Sandbox) error { return b.WriteFile(ctx, "x", nil, 0o644) },
	} {
		j := &judging{world: &world{turns: []trajectory.Turn{calls(echo("a")), says("done")}}, read: map[string]string{"bash": "x"}}
		var alone []bool // by the scorer's commands
		j.runs = func(_ int, c backends.Cmd) (backends.Result, error) {
			alone = append(alone, c.Alone)
			return backends.Result{}, nil
		}
		j.world.score = func(ctx context.Context, _ int, w envs.World, _ envs.Episode) (trajectory.Score, error) {
			alone = nil
			return trajectory.Score{}, errors.Join(first(ctx, w.Box), exec(ctx, w.Box))
		}
		if rec := judged(t, j, rollout.Options{}); rec.Score == nil || fmt.Sprint(alone) != "[true false]" {
			t.Errorf("%s: %s %s: commands that end others: %v", name, rec.Outcome, rec.Reason, alone)
		}
	}
}

// TestReplacedPrograms: what judges in the model's own box are the image's programs, or it is
// no reward.
func TestReplacedPrograms(t *testing.T) {
	for name, tt := range map[string]struct {
		writable bool
		after    map[string]string
		reward   float64
	}{
		"nothing was changed":             {writable: true, reward: 1},
		"the shell":                       {writable: true, after: map[string]string{"/usr/bin/bash": "evil"}},
		"a program of the checker":        {writable: true, after: map[string]string{"/usr/local/bin/grep": "evil"}},
		"another program":                 {writable: true, after: map[string]string{"/usr/bin/jq": "evil"}, reward: 1},
		"the loader":                      {writable: true, after: map[string]string{"/etc/ld.so.preload": "/evil.so"}},
		"no command can write there":      {after: map[string]string{"/usr/bin/bash": "unread"}, reward: 1},
		"a program that cannot be read":   {writable: true, after: map[string]string{"/usr/bin/sh": "?"}},
		"the same program, written again": {writable: true, after: map[string]string{"/usr/bin/sh": "sh of the image"}, reward: 1},
	} {
		j := &judging{
			world: &world{turns: []trajectory.Turn{calls(echo("a")), says("done")}},
			read:  map[string]string{"/usr/bin/bash": "bash of the image", "/usr/bin/sh": "sh of the image"},
		}
		j.runs = func(int, backends.Cmd) (backends.Result, error) {
			return backends.Result{Code: map[bool]int{false: 1}[tt.writable]}, nil
		}
		j.world.call = func(context.Context) (tool.Result, error) {
			for p, text := range tt.after {
				j.read[p] = text
			}
			return tool.Result{Text: "ok"}, nil
		}
		j.world.score = func(ctx context.Context, _ int, w envs.World, _ envs.Episode) (trajectory.Score, error) {
			w.Saw(envs.Exhibit{Name: "checker", Cmd: backends.Cmd{Shell: "grep -q four out.txt"}})
			return trajectory.Score{Reward: 1}, nil
		}
		rec := judged(t, j, rollout.Options{})
		if rec.Score == nil || rec.Score.Reward != tt.reward || (rec.Outcome == trajectory.Faulty) != (tt.reward == 0) {
			t.Errorf("%s: %s %s %+v", name, rec.Outcome, rec.Reason, rec.Score)
		}
		if tt.reward == 0 && (rec.Score.Metrics["reward/hack"] != 1 || len(rec.Notes) != 1) {
			t.Errorf("%s: no sign of it: %v %v", name, rec.Score.Metrics, rec.Notes)
		}
	}
}

// TestLostWhileLooking: a box that is lost while its programs are looked at says nothing of
// them, neither of the image nor of the model.
func TestLostWhileLooking(t *testing.T) {
	j := &judging{world: &world{turns: []trajectory.Turn{calls(echo("a")), says("done")}}, read: map[string]string{"/usr/bin/sh": "!"}}
	j.runs = func(int, backends.Cmd) (backends.Result, error) { return backends.Result{}, nil } // all can be written
	after := ""
	j.world.call = func(context.Context) (tool.Result, error) {
		if after != "" {
			j.read["/usr/bin/sh"] = after
		}
		return tool.Result{Text: "ok"}, nil
	}
	j.world.score = func(context.Context, int, envs.World, envs.Episode) (trajectory.Score, error) {
		return trajectory.Score{Reward: 1}, nil
	}
	r := runnerOf(t, j, rollout.Options{})
	for _, step := range []struct {
		name, before, after string
		outcome             trajectory.Outcome
	}{
		{"lost at the first look", "!", "", trajectory.Answered},
		{"the next box", "sh", "", trajectory.Answered},
		{"lost at the second look", "sh", "!", trajectory.Sandbox},
		{"replaced", "sh", "evil", trajectory.Faulty},
	} {
		j.read["/usr/bin/sh"], after = step.before, step.after
		rec := judgedBy(t, r)
		if rec.Outcome != step.outcome || (rec.Score == nil) != (step.outcome == trajectory.Sandbox) ||
			rec.Score != nil && (rec.Score.Reward == 1) != (step.outcome == trajectory.Answered) {
			t.Errorf("%s: %s %s %+v, want %s", step.name, rec.Outcome, rec.Reason, rec.Score, step.outcome)
		}
	}
}

func inf() float64 { x := 1e308; return x * 10 }

// TestNeverTwoBoxes: what is proved once is not proved again, and no rollout waits for a box
// while it holds one.
func TestNeverTwoBoxes(t *testing.T) {
	for name, mode := range map[string]string{"a control": "", "another box": envs.VerifyFresh} {
		j := &judging{world: &world{turns: []trajectory.Turn{calls(echo("a")), says("done")}}, verify: envs.Verify{Mode: mode, Keep: []string{"mine"}}}
		if mode == "" {
			j.world.score = afterModel(envs.Unjudged("nothing"), nil)
		}
		j.open = func(context.Context) error {
			j.mu.Lock()
			defer j.mu.Unlock()
			if j.opened > j.closed {
				return errors.New("a box is asked for while another is held")
			}
			return nil
		}
		rec := judged(t, j, rollout.Options{})
		if rec.Score == nil {
			t.Errorf("%s: %s %s", name, rec.Outcome, rec.Reason)
		}
		if mode == envs.VerifyFresh {
			want := map[string]string{"image": "", "a": "0 755", "l": "2 0"}
			if fmt.Sprint(j.kept) != fmt.Sprint(want) || rec.Verified != "fresh" {
				t.Errorf("copied: %v, want %v", j.kept, want)
			}
		}
	}
}
