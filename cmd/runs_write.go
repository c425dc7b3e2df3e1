package cmd

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"time"

	"hermes/rollout/rundir"
	"hermes/rollout/runs"
	"hermes/trajectory/stats"
)

type runsExport struct {
	Name    string   `arg:"" name:"run" help:"Run: a name or a path."`
	Into    string   `short:"o" nokey:"" placeholder:"DIR" help:"Folder to write to (default: the run's own)."`
	Format  []string `placeholder:"NAME" help:"Projections: sharegpt, messages (default: those of the run); or hf, a dataset folder for the hub, with -o."`
	Parquet bool     `help:"Also write Parquet."`
	hubFlags
	runPlace
}

// Run makes the projections out of the log.
func (c *runsExport) Run(h *host) error {
	if slices.Equal(c.Format, []string{"hf"}) {
		return c.toHub(h)
	}
	if c.hubFlags != (hubFlags{}) {
		return Usage("--where, --license, --title: they are for --format hf")
	}
	for _, f := range c.Format {
		if f != "sharegpt" && f != "messages" {
			return Usage("--format %q: want sharegpt, messages, or hf alone", f)
		}
	}
	dir, err := c.dir(c.Name)
	if err != nil {
		return err
	}
	if c.Into != "" && c.Into != dir {
		if _, err := os.Stat(rundir.Path(c.Into)); err == nil {
			return Usage("export to %s: it holds a run of its own", c.Into)
		}
	}
	s, err := runs.Export(h.Ctx, dir, c.Into, c.Format, c.Parquet)
	if err != nil {
		return runError(err)
	}
	if c.Into == "" {
		c.Into = dir
	}
	return tellBooks(h, c.Into, s, c.JSON)
}

// tellBooks prints what a command wrote; books that do not balance are an error.
func tellBooks(h *host, dir string, s stats.Statistics, asJSON bool) error {
	var err error
	if asJSON {
		err = printJSON(h.Stdio.Out, s)
	} else {
		_, err = fmt.Fprintf(h.Stdio.Out, "%s: %s\n", dir, booksLine(s))
	}
	return errors.Join(err, s.Balance())
}

type runsMerge struct {
	Names []string `arg:"" name:"run" help:"Runs: names or paths."`
	Into  string   `short:"o" required:"" nokey:"" placeholder:"DIR" help:"Directory of the merged run."`
	runPlace
}

// Run joins runs; the inputs stay as they are.
func (c *runsMerge) Run(h *host) error {
	dirs, err := c.dirs(c.Names)
	if err != nil {
		return err
	}
	for _, dir := range dirs {
		if sameDir(dir, c.Into) {
			return Usage("%s is one of the runs to merge; the result needs a directory of its own", c.Into)
		}
	}
	s, err := runs.Merge(h.Ctx, c.Into, dirs)
	if err != nil {
		return runError(err)
	}
	return tellBooks(h, c.Into, s, c.JSON)
}

// sameDir reports whether two paths name one existing directory.
func sameDir(a, b string) bool {
	x, err := os.Stat(a)
	if err != nil {
		return false
	}
	y, err := os.Stat(b)
	return !errors.Is(err, fs.ErrNotExist) && err == nil && os.SameFile(x, y)
}

type runsTail struct {
	Name   string        `arg:"" name:"run" help:"Run: a name or a path."`
	Last   int           `short:"n" nokey:"" default:"10" help:"Records to begin with."`
	Follow bool          `short:"f" nokey:"" help:"Go on until interrupted."`
	Poll   time.Duration `nokey:"" default:"1s" help:"How often to look for news."`
	runPlace
}

// Run prints records until there are none, or with --follow until a signal.
func (c *runsTail) Run(h *host) error {
	if c.Last < 0 || c.Poll < time.Millisecond {
		return Usage("-n %d --poll %v: want 0 records or more, and at least 1ms", c.Last, c.Poll)
	}
	dir, err := c.dir(c.Name)
	if err != nil {
		return err
	}
	ctx, stop := h.untilSignal()
	defer stop()
	return runError(runs.Tail(ctx, h.Stdio.Out, dir, c.Last, c.Follow, c.Poll, c.JSON))
}
