package cmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"hermes/internal/build"
	"hermes/internal/exit"
	"hermes/internal/runs/batch"
	"hermes/internal/runs/rollouts"
	"hermes/internal/settings"
	"hermes/rollout/engine"
	"hermes/trajectory/stats"
)

// batchCmd is `hermes batch`.
type batchCmd struct {
	settings.Batch
	detachFlags
}

// Run rolls out every row and writes the run directory.
func (c *batchCmd) Run(h *host) error {
	if away, err := c.detach(h, filepath.Join(c.Out, c.Batch.Name()), c.DryRun, c.Datasets); away || err != nil {
		return err
	}
	books, err := batch.Run(h.Ctx, h.build(), rollouts.Request{Batch: c.Batch, Layers: h.Layers.Settings(h.parsed)})
	h.flushLogs()
	if err == nil || books.Planned > 0 && !exit.IsUsage(err) { // no books: the run was not opened
		summary(h.Stdio.Err, books)
		if c.JSON {
			if perr := printJSON(h.Stdio.Out, books); perr != nil && err == nil {
				err = perr
			}
		}
	}
	if err == nil && !c.DryRun {
		fmt.Fprintf(h.Stdio.Err, "hermes: the run is in %s\n", filepath.Join(c.Out, c.Batch.Name()))
	}
	return exitOf(err)
}

// summary writes what a person reads when a run ended.
func summary(w io.Writer, s stats.Statistics) {
	fmt.Fprintf(w, "%d planned: %d accepted", s.Planned, s.Accepted)
	list := func(name string, in map[string]int64, kinds []string) {
		for _, k := range kinds {
			if n := in[k]; n > 0 {
				fmt.Fprintf(w, ", %d %s.%s", n, name, k)
			}
		}
	}
	list("rejected", s.Rejected, stats.RejectedKinds())
	list("failed", s.Failed, stats.FailedKinds())
	if s.Pending > 0 {
		fmt.Fprintf(w, ", %d pending", s.Pending)
	}
	if s.Reward != nil {
		fmt.Fprintf(w, "; mean reward %.3f of %d scored", s.Reward.Mean, s.Scored)
	}
	fmt.Fprintln(w)
}

// build is what the library behind a command gets of this process.
func (h *host) build() build.Host {
	return build.Host{Env: h.Env.Get, Section: h.Layers.Section, In: h.stdin(), Out: h.Stdio.Out, Err: h.Stdio.Err, Screen: h.Stdio.Screen, Width: h.Stdio.Width,
		Drain: h.Signals.Drain(), Terminal: h.Stdio.InTerminal, Intercept: h.Signals.Intercept, Log: h.Log, Handler: h.handler, Backends: h.Parts.Backends, Tools: h.Parts.Tools, Envs: h.Parts.Envs, Version: BuildInfo().Version, Opened: h.opened}
}

// exitOf gives an error of the library its exit code.
func exitOf(err error) error {
	var e *exit.Error
	switch {
	case errors.As(err, &e):
		return &Exit{Code: e.Code, Err: err}
	case errors.Is(err, context.Canceled), errors.Is(err, engine.ErrDrained):
		return ErrInterrupted
	}
	return err
}
