package cmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"text/tabwriter"

	"hermes/backends"
	"hermes/datasets"
	"hermes/envs/envtest"
	"hermes/internal/build"
	"hermes/internal/exit"
	"hermes/internal/runs/batch"
	"hermes/internal/runs/check"
	"hermes/internal/runs/eval"
	"hermes/internal/runs/rollouts"
	"hermes/internal/settings"
)

// envCmd is `hermes env`.
type envCmd struct {
	List     envList     `cmd:"" help:"List the environments."`
	Show     envShow     `cmd:"" help:"Show an environment: its settings and first tasks."`
	Check    envCheck    `cmd:"" help:"Run the contract of environments: the oracle earns 1, doing nothing 0, repeats agree, answers are hidden."`
	Process  envProcess  `cmd:"" help:"Roll out groups without a trainer: groups.jsonl, groups.html and a run directory."`
	Serve    envServe    `cmd:"" help:"Feed a trainer through Atropos' trajectory API with scored groups of exact tokens."`
	Evaluate envEvaluate `cmd:"" help:"Evaluate a model on an environment's evaluation split."`
	Debug    envDebug    `cmd:"" help:"Play a finished sample again in a fresh box, score it aloud, and open a shell in the box."`
	New      envNew      `cmd:"" help:"Write the sources of a new environment."`
}

type envList struct {
	JSON bool `name:"json" nokey:"" help:"A JSON array."`
}

// Run lists the kinds.
func (c *envList) Run(h *host) error {
	if c.JSON {
		type line struct {
			Name    string `json:"name"`
			Summary string `json:"summary"`
		}
		list := []line{}
		for _, k := range h.Parts.Envs {
			list = append(list, line{k.Name, k.Summary})
		}
		return printJSON(h.Stdio.Out, list)
	}
	w := tabwriter.NewWriter(h.Stdio.Out, 0, 0, 2, ' ', 0)
	for _, k := range h.Parts.Envs {
		fmt.Fprintf(w, "%s\t%s\n", k.Name, k.Summary)
	}
	return w.Flush()
}

type envShow struct {
	settings.EnvFlags
	Rows int  `default:"1" range:"0:1000" help:"Tasks to show."`
	JSON bool `name:"json" nokey:"" help:"One JSON object."`
}

// shownTask is a task as `env show --json` tells it. What is hidden stays hidden.
type shownTask struct {
	ID       string         `json:"id"`
	Messages []shownMessage `json:"messages"`
	Image    string         `json:"image,omitempty"`
	Files    []string       `json:"files,omitempty"`
}

type shownMessage struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// Run opens the environment and shows tasks.
func (c *envShow) Run(h *host) error {
	env, err := build.Environment(h.Ctx, h.build(), c.EnvFlags)
	if err != nil {
		return exitOf(err)
	}
	defer env.Close()
	k := env.Kind
	tasks, err := c.tasks(h.Ctx, env)
	if err != nil {
		return inputError(err)
	}
	if c.JSON {
		return printJSON(h.Stdio.Out, map[string]any{"name": k.Name, "summary": k.Summary, "settings": k.Settings, "tasks": tasks})
	}
	fmt.Fprintf(h.Stdio.Out, "%s: %s\n\nsettings (envs.%s in a run file, or --set KEY=VALUE):\n", k.Name, k.Summary, k.Name)
	w := tabwriter.NewWriter(h.Stdio.Out, 0, 0, 2, ' ', 0)
	for _, s := range k.Settings {
		fmt.Fprintf(w, "  %s\t%s\t%s\n", s.Key, s.Type, s.Help)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for _, t := range tasks {
		fmt.Fprintf(h.Stdio.Out, "\nrow %s\n", t.ID)
		for _, m := range t.Messages {
			fmt.Fprintf(h.Stdio.Out, "[%s] %s\n", m.Role, m.Content)
		}
	}
	return nil
}

func (c *envShow) tasks(ctx context.Context, env *build.Env) (out []shownTask, err error) {
	out = []shownTask{}
	if c.Rows == 0 {
		return out, nil
	}
	d, err := env.Rows(ctx, env.Split, datasets.Options{Limit: int64(c.Rows)})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	for row, err := range d.Rows(ctx) {
		if err != nil {
			return nil, err
		}
		t, err := env.Task(row)
		if err != nil {
			return nil, err
		}
		s := shownTask{ID: row.ID, Image: t.Image}
		for _, m := range t.Messages {
			s.Messages = append(s.Messages, shownMessage{string(m.Role), m.Content()})
		}
		for name := range t.Files {
			s.Files = append(s.Files, name)
		}
		out = append(out, s)
	}
	return out, nil
}

type envCheck struct{ settings.EnvCheck }

// checkedEnv is one check as `env check --json` tells it.
type checkedEnv struct {
	Check   string  `json:"check"`
	Result  string  `json:"result"` // ok, skip or FAIL
	Promise string  `json:"promise"`
	Text    string  `json:"text,omitempty"`
	Seconds float64 `json:"seconds"`
}

// Run asks every check; the exit code is 1 when one fails.
func (c *envCheck) Run(h *host) error {
	ctx, stop := h.untilSignal()
	defer stop()
	var broken error
	err := check.Env(ctx, h.build(), c.EnvCheck, func(r envtest.Report) {
		line := checkedEnv{Check: r.Name, Result: "ok", Promise: r.Promise, Text: r.Skipped, Seconds: r.Took.Seconds()}
		switch {
		case r.Err != nil:
			line.Result, line.Text = "FAIL", r.Err.Error()
		case r.Skipped != "":
			line.Result = "skip"
		}
		broken = errors.Join(broken, c.tell(h, line))
	})
	return errors.Join(broken, exitOf(err))
}

func (c *envCheck) tell(h *host, l checkedEnv) error {
	if c.JSON {
		return printJSON(h.Stdio.Out, l)
	}
	text := ""
	if l.Text != "" {
		text = "\n      " + l.Text
	}
	_, err := fmt.Fprintf(h.Stdio.Out, "%-4s  %-8s %6.2f s  %s%s\n", l.Result, l.Check, l.Seconds, l.Promise, text)
	return err
}

type envProcess struct {
	settings.Process
	detachFlags
}

// Run rolls out the groups and writes them.
func (c *envProcess) Run(h *host) error {
	if away, err := c.detach(h, filepath.Join(c.Out, cmp.Or(c.RunFlags.Run, c.Name)), c.DryRun, nil); away || err != nil {
		return err
	}
	env, err := build.Environment(h.Ctx, h.build(), c.EnvFlags)
	if err != nil {
		return exitOf(err)
	}
	defer env.Close()
	if c.Grader != "" {
		return Usage("--grader %s: an environment scores by itself", c.Grader)
	}
	books, groups, err := batch.Process(h.Ctx, h.build(), rollouts.Request{Batch: c.Batch(), Layers: h.Layers.Settings(h.parsed), Env: env})
	h.flushLogs()
	if err == nil || books.Planned > 0 && !exit.IsUsage(err) {
		summary(h.Stdio.Err, books)
		for _, text := range groups.Void {
			fmt.Fprintln(h.Stdio.Err, "hermes: void: "+text)
		}
		if !c.DryRun {
			fmt.Fprintf(h.Stdio.Err, "%d groups written, %d incomplete ones left out\n", groups.Written, groups.Incomplete)
			fmt.Fprintf(h.Stdio.Err, "hermes: the groups are in %s\n", groups.File)
			if werr := eval.WriteReportPage(h.Ctx, filepath.Dir(groups.File)); werr != nil { // groups.html links to it
				err = errors.Join(err, exit.Ours(werr))
			}
		}
		if c.JSON {
			err = errors.Join(err, printJSON(h.Stdio.Out, map[string]any{"books": books, "groups": groups}))
		}
	}
	return exitOf(err)
}

type envDebug struct{ settings.EnvDebug }

// Run plays the sample again; on a terminal a shell opens in its box.
func (c *envDebug) Run(h *host) error {
	name := c.RunName
	if name == "" {
		name = build.EnvName(c.Name)
	}
	dir, err := runPlace{Out: c.Out}.dir(name)
	if err != nil {
		return err
	}
	var shell func(context.Context, backends.Sandbox) error
	if h.Stdio.InTerminal && !c.NoShell {
		shell = func(ctx context.Context, box backends.Sandbox) error {
			fmt.Fprintln(h.Stdio.Err, "hermes: a shell in the box; exit ends it")
			_, err := (&sandboxExec{}).exec(ctx, h, box, backends.Cmd{Argv: []string{"sh", "-i"}})
			return err
		}
	}
	return exitOf(check.Debug(h.Ctx, h.build(), c.EnvDebug, dir, shell))
}
