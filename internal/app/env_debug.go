package app

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"hermes/backends"
	"hermes/datasets"
	"hermes/rollout/artifact"
	"hermes/rollout/runs"
	"hermes/trajectory"
)

// DebugEnv plays a finished sample again in a fresh box: the model's stored answers, with
// the tools run anew. It is scored aloud; then, where shell is not nil, that is called
// with the box as the scorer left it. The error is an *Error: exit code 1 when the score
// is not the recorded one.
func DebugEnv(ctx context.Context, h Host, f EnvFlags, tools ToolFlags, dir, record string, shell func(context.Context, backends.Sandbox) error) error {
	env, err := f.Open(ctx, h)
	if err != nil {
		return err
	}
	defer env.Close()
	r, err := runs.Open(dir)
	if err != nil {
		return usage(err)
	}
	defer r.Close()
	was, err := r.Find(ctx, record)
	if err != nil {
		return usage(err)
	}
	if id, _ := r.Manifest.Identity.Get("env"); id != env.Identity() {
		return usage(fmt.Errorf("%w: it says %q, these settings are %q; give the same --set, --split and run file", errOtherEnv, id, env.Identity()))
	}
	if was.Trace == nil {
		return usage(fmt.Errorf("record %s has no trace: %s", record, was.Reason))
	}
	row, err := env.row(ctx, was.Row)
	if err != nil {
		return usage(err)
	}
	if len(tools.Toolsets) == 0 {
		tools.Toolsets = was.Toolsets
		if len(was.Toolsets) == 0 {
			tools.Toolsets = []string{noTools}
		}
	}
	tools = tools.of(r.Manifest)
	text, _ := r.Manifest.Identity.Get("seed")
	seed, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return usage(fmt.Errorf("run %s: seed %q: %w", dir, text, err))
	}
	p, _, closing, err := player(ctx, h, env, tools, seed)
	if err != nil {
		return err
	}
	defer closing()
	said := answers(was.Trace)
	p.Turns, p.KeepTime = len(said), 24*time.Hour // a person may look around
	p.Keep = func(ctx context.Context, s artifact.Scene) error {
		aloud(h, s)
		if shell == nil || s.Box == nil {
			return nil
		}
		return shell(ctx, s.Box)
	}
	now, err := p.Play(ctx, env.Bundled, row, was.Sample, said)
	if err != nil {
		return err
	}
	return verdictOf(h, was, now)
}

// row finds a row of the environment by its id.
func (e *ChosenEnv) row(ctx context.Context, id string) (_ datasets.Row, err error) {
	d, err := e.Rows(ctx, e.Split, datasets.Options{})
	if err != nil {
		return datasets.Row{}, err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	for row, err := range d.Rows(ctx) {
		if err != nil {
			return row, err
		}
		if row.ID == id {
			return row, nil
		}
	}
	return datasets.Row{}, fmt.Errorf("environment %s, split %s: no row %q", e.Name, e.Split, id)
}

// answers are what the model said on the path that was scored.
func answers(t *trajectory.Trace) (out []trajectory.Message) {
	p := t.Prefix()
	for i := range p.Len() {
		if _, n := p.Node(i); n.Sampled() {
			out = append(out, n.Delta.Message)
		}
	}
	return out
}

// aloud tells what the scorer did.
func aloud(h Host, s artifact.Scene) {
	for _, x := range s.Exhibits {
		text := x.Cmd.Shell
		if text == "" {
			text = strings.Join(x.Cmd.Argv, " ")
		}
		fmt.Fprintf(h.Out, "%s: %s\n  exit code %d\n", x.Name, text, x.Result.Code)
		for _, out := range [][]byte{x.Result.Stdout, x.Result.Stderr} {
			for line := range strings.Lines(string(out)) {
				fmt.Fprintf(h.Out, "  | %s\n", strings.TrimRight(line, "\n"))
			}
		}
	}
	if s.Err != nil {
		fmt.Fprintf(h.Out, "the scorer failed: %v\n", s.Err)
	}
}

// verdictOf compares what was recorded with what came out now.
func verdictOf(h Host, was, now *trajectory.Record) error {
	tell := func(name string, r *trajectory.Record) {
		text := string(r.Outcome)
		if r.Score != nil {
			text += fmt.Sprintf(", reward %v", r.Score.Reward)
			for _, k := range slices.Sorted(maps.Keys(r.Score.Parts)) {
				text += fmt.Sprintf(", %s %v", k, r.Score.Parts[k])
			}
			if r.Score.Detail != "" {
				text += " (" + r.Score.Detail + ")"
			}
		} else if r.Reason != "" {
			text += " (" + r.Reason + ")"
		}
		fmt.Fprintf(h.Out, "%s: %s\n", name, text)
	}
	tell("recorded", was)
	tell("now     ", now)
	if (was.Score == nil) != (now.Score == nil) || was.Score != nil && was.Score.Reward != now.Score.Reward {
		return &Error{Code: codeOurs, Err: errors.New("the score is not the recorded one")}
	}
	return nil
}
