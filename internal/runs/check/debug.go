package check

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
	"hermes/internal/build"
	"hermes/internal/exit"
	"hermes/internal/settings"
	"hermes/rollout/artifact"
	"hermes/rollout/runs"
	"hermes/trajectory"
)

// Debug plays a finished sample again in a fresh box: the model's stored answers, with
// the tools run again. It is scored aloud; then, where shell is not nil, that is called
// with the box as the scorer left it. The error has exit code 1 when the score
// is not the recorded one.
func Debug(ctx context.Context, h build.Host, s settings.EnvDebug, dir string, shell func(context.Context, backends.Sandbox) error) error {
	env, err := build.Environment(ctx, h, s.EnvFlags)
	if err != nil {
		return err
	}
	defer env.Close()
	r, err := runs.Open(dir)
	if err != nil {
		return exit.Usage(err)
	}
	defer r.Close()
	was, err := r.Find(ctx, s.Record)
	if err != nil {
		return exit.Usage(err)
	}
	if id, _ := r.Manifest.Identity.Get("env"); id != env.Identity() {
		return exit.Usage(fmt.Errorf("%w: it says %q, these settings are %q; give the same --set, --split and run file", build.ErrOtherEnv, id, env.Identity()))
	}
	if was.Trace == nil {
		return exit.Usage(fmt.Errorf("record %s has no trace: %s", s.Record, was.Reason))
	}
	row, err := env.Row(ctx, was.Row)
	if err != nil {
		return exit.Usage(err)
	}
	tools := settings.ToolFlags{Backend: s.Backend, Image: s.Image, MissingTools: "fail", Toolsets: was.Toolsets}
	if len(was.Toolsets) == 0 {
		tools.Toolsets = []string{settings.NoTools}
	}
	tools = tools.Of(r.Manifest)
	text, _ := r.Manifest.Identity.Get("seed")
	seed, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return exit.Usage(fmt.Errorf("run %s: seed %q: %w", dir, text, err))
	}
	p, err := build.NewPlayer(ctx, h, env, tools, seed)
	if err != nil {
		return err
	}
	defer p.Close()
	said := build.Answers(was.Trace)
	p.Turns, p.KeepTime = len(said), 24*time.Hour // a person may look around
	p.Keep = func(ctx context.Context, scene artifact.Scene) error {
		aloud(h, scene)
		if shell == nil || scene.Box == nil {
			return nil
		}
		return shell(ctx, scene.Box)
	}
	now, err := p.Play(ctx, env.Bundled, row, was.Sample, said)
	if err != nil {
		return err
	}
	return verdictOf(h, was, now)
}

// aloud tells what the scorer did.
func aloud(h build.Host, s artifact.Scene) {
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
func verdictOf(h build.Host, was, now *trajectory.Record) error {
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
		return exit.Ours(errors.New("the score is not the recorded one"))
	}
	return nil
}
