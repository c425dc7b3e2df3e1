package cmd

import (
	"cmp"
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
	salvageFlag
	hubFlags
	runPlace
}

// Run makes the projections out of the log.
func (c *runsExport) Run(h *host) error {
	if slices.Equal(c.Format, []string{"hf"}) {
		if c.Salvage {
			return Usage("--salvage is not for --format hf: mend the run with 'hermes runs repair %s' first", c.Name)
		}
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
	if c.Salvage && (c.Into == "" || c.Into == dir) {
		return Usage("--salvage leaves the run as it is: name another folder with -o, or mend it with 'hermes runs repair %s'", c.Name)
	}
	r, err := c.open(dir)
	if err != nil {
		return runError(err)
	}
	defer r.Close()
	s, err := r.Export(h.Ctx, c.Into, c.Format, c.Parquet)
	if err != nil {
		return runError(err)
	}
	c.Into = cmp.Or(c.Into, dir)
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

type runsRepair struct {
	Names []string `arg:"" name:"run" help:"Runs: names or paths."`
	runPlace
}

// Run mends runs one after the other and tells what is lost.
func (c *runsRepair) Run(h *host) error {
	dirs, err := c.dirs(c.Names)
	if err != nil {
		return err
	}
	for _, dir := range dirs {
		r, err := runs.Repair(h.Ctx, dir)
		if err != nil {
			return runError(fmt.Errorf("repair %s: %w", dir, err))
		}
		if err := c.tell(h, dir, r); err != nil {
			return err
		}
	}
	return nil
}

func (c *runsRepair) tell(h *host, dir string, r runs.Repaired) error {
	if c.JSON {
		return errors.Join(printJSON(h.Stdio.Out, struct {
			Run string `json:"run"`
			runs.Repaired
		}{dir, r}), r.Statistics.Balance())
	}
	if len(r.Files)+len(r.Lost) == 0 {
		_, err := fmt.Fprintf(h.Stdio.Out, "%s: nothing is damaged; %s\n", dir, booksLine(r.Statistics))
		return errors.Join(err, r.Statistics.Balance())
	}
	for _, l := range r.Lost {
		fmt.Fprintf(h.Stdio.Out, "%s: lost: %v\n", dir, l)
	}
	for _, name := range r.Aside {
		fmt.Fprintf(h.Stdio.Out, "%s: the damaged file is kept as %s\n", dir, name)
	}
	_, err := fmt.Fprintf(h.Stdio.Out, "%s: repaired, %d frames are whole; %s\n", dir, r.Frames, booksLine(r.Statistics))
	return errors.Join(err, r.Statistics.Balance())
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
			return Usage("%s is one of the runs to merge; the result needs its own directory", c.Into)
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
