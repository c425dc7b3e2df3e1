package cmd

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"hermes/internal/app"
)

// batchCmd is `hermes batch`.
type batchCmd struct {
	Datasets []string `arg:"" optional:"" name:"dataset" help:"JSONL, JSON, Parquet or CSV file (.gz, .zst), hf:owner/name, samples:tasks, or - for stdin."`
	app.PartsFlags
	app.PromptFlags `group:"Prompts:"`
	app.RowFlags    `group:"Rows:"`
	app.RunFlags    `group:"The run:"`
	app.RoleFlags   `group:"Other models:"`
	detachFlags
}

// Run rolls out every row and writes the run directory.
func (c *batchCmd) Run(h *host) error {
	if away, err := c.detach(h, filepath.Join(c.Out, runName(c)), c.DryRun, c.Datasets); away || err != nil {
		return err
	}
	b := app.Batch{Datasets: c.Datasets, PartsFlags: c.PartsFlags, PromptFlags: c.PromptFlags, RowFlags: c.RowFlags, RunFlags: c.RunFlags, RoleFlags: c.RoleFlags,
		Settings: h.Layers.Settings(h.parsed)}
	books, err := b.Run(h.Ctx, h.app())
	h.flushLogs()
	if err == nil || books.Planned > 0 && !isUsage(err) { // no books: the run was not opened
		b.Summary(h.Stdio.Err, books)
		if c.JSON {
			if perr := printJSON(h.Stdio.Out, books); perr != nil && err == nil {
				err = perr
			}
		}
	}
	if err == nil && !c.DryRun {
		fmt.Fprintf(h.Stdio.Err, "hermes: the run is in %s\n", filepath.Join(c.Out, runName(c)))
	}
	return exitOf(err)
}

func runName(c *batchCmd) string {
	if c.RunFlags.Run != "" {
		return c.RunFlags.Run
	}
	return app.RunName(c.Datasets)
}

// app is what the library behind a command gets of this process.
func (h *host) app() app.Host {
	return app.Host{Env: h.Env.Get, Section: h.Layers.Section, In: h.stdin(), Out: h.Stdio.Out, Err: h.Stdio.Err, Screen: h.Stdio.Screen, Width: h.Stdio.Width,
		Drain: h.Signals.Drain(), Terminal: h.Stdio.InTerminal, Intercept: h.Signals.Intercept, Handler: h.handler, Backends: h.Parts.Backends, Tools: h.Parts.Tools, Envs: h.Parts.Envs, Version: BuildInfo().Version, Opened: h.opened}
}

func isUsage(err error) bool {
	var e *app.Error
	return errors.As(err, &e) && e.Code == ExitUsage
}

// exitOf gives an error of the library its exit code.
func exitOf(err error) error {
	var e *app.Error
	switch {
	case errors.As(err, &e):
		return &Exit{Code: e.Code, Err: err}
	case errors.Is(err, context.Canceled):
		return ErrInterrupted
	case app.Drained(err):
		return ErrInterrupted
	}
	return err
}
