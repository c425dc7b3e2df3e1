package cmd

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"hermes/internal/nearest"
	"hermes/rollout/rundir"
	"hermes/rollout/runs"
	"hermes/trajectory/stats"
)

// runsCmd is `hermes runs`.
type runsCmd struct {
	List   runsList   `cmd:"" help:"List runs."`
	Show   runsShow   `cmd:"" help:"Say what a run is, or print one of its samples."`
	Verify runsVerify `cmd:"" help:"Check every checksum, balance the books, and compare every projection with the log."`
	Repair runsRepair `cmd:"" help:"Keep every record of a damaged log that is whole; the samples that are lost are pending again."`
	Stats  runsStats  `cmd:"" help:"Count the books of runs out of their logs."`
	Export runsExport `cmd:"" help:"Make the projections of a run again, in place or elsewhere."`
	Push   runsPush   `cmd:"" help:"Send the accepted samples of a run to the hub as a dataset."`
	Merge  runsMerge  `cmd:"" help:"Join runs of the same identity, such as shards."`
	Replay runsReplay `cmd:"" help:"Build every model request of a run again, offline, and compare it with the one that was sent."`
	Tail   runsTail   `cmd:"" help:"Print the last records, and follow a run that is going on."`
	Ctl    runsCtl    `cmd:"" help:"Steer a run that is going on: status, pause, resume, set concurrency=N, cancel ID, requeue ID."`
	View   runsView   `cmd:"" help:"Look at runs on a page of this machine."`
}

// runPlace says where runs that are named without a path are looked for.
type runPlace struct {
	Out  string `default:"runs" placeholder:"DIR" help:"Parent of run directories."`
	JSON bool   `name:"json" nokey:"" help:"JSON on stdout."`
}

// dir finds the directory of a run: a path to one, or a name below the parent.
func (p runPlace) dir(name string) (string, error) {
	isRun := func(dir string) bool {
		_, err := os.Stat(rundir.Path(dir))
		return err == nil
	}
	if isRun(name) {
		return filepath.Clean(name), nil
	}
	below := filepath.Join(p.Out, name)
	if filepath.IsLocal(name) && isRun(below) {
		return below, nil
	}
	entries, err := os.ReadDir(p.Out)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", Usage("no run %q: %w", name, err)
	}
	var have []string
	for _, e := range entries {
		have = append(have, e.Name())
	}
	near := ""
	if n := nearest.Name(name, have); n != "" {
		near = "; did you mean " + n + "?"
	}
	return "", Usage("no run %q, neither as a path nor in %s%s", name, p.Out, near)
}

// salvageFlag is of the commands that can read a damaged run.
type salvageFlag struct {
	Salvage bool `nokey:"" help:"Read what is whole of a damaged log, and leave it as it is ('runs repair' mends it)."`
}

// open opens a run for reading.
func (f salvageFlag) open(dir string) (*runs.Run, error) {
	if f.Salvage {
		return runs.Salvage(dir)
	}
	return runs.Open(dir)
}

// runError gives exit code 2 to runs that are not what the command needs.
func runError(err error) error {
	var owned *rundir.OwnedError
	var other *rundir.MismatchError
	if errors.Is(err, rundir.ErrNoRun) || errors.Is(err, runs.ErrNoRecord) || errors.As(err, &owned) || errors.As(err, &other) ||
		errors.Is(err, syscall.ENOTDIR) || errors.Is(err, syscall.EEXIST) {
		return &Exit{Code: ExitUsage, Err: err}
	}
	return err
}

type runsList struct{ runPlace }

// Run lists the runs of a folder; one that does not exist holds none.
func (c *runsList) Run(h *host) error {
	list, err := runs.List(c.Out)
	if err != nil {
		return inputError(err)
	}
	return runs.WriteList(h.Stdio.Out, list, c.JSON)
}

type runsShow struct {
	Name   string `arg:"" name:"run" help:"Run: a name or a path."`
	Sample string `arg:"" optional:"" help:"KEY, ROW or ROW/SAMPLE whose transcript is shown."`
	salvageFlag
	runPlace
}

// Run shows a run or one sample.
func (c *runsShow) Run(h *host) error {
	dir, err := c.dir(c.Name)
	if err != nil {
		return err
	}
	r, err := c.open(dir)
	if err != nil {
		return runError(err)
	}
	defer r.Close()
	return runError(r.Show(h.Ctx, h.Stdio.Out, c.Sample, c.JSON))
}

type runsVerify struct {
	Names []string `arg:"" name:"run" help:"Runs: names or paths."`
	runPlace
}

// verified is one line of `runs verify --json`.
type verified struct {
	Run   string `json:"run"`
	OK    bool   `json:"ok"`
	Error string `json:"error,omitempty"`
	runs.Verification
}

// Run looks at every run, also behind a bad one; the exit code is 1 unless all are good.
func (c *runsVerify) Run(h *host) error {
	dirs, err := c.dirs(c.Names)
	if err != nil {
		return err
	}
	bad := 0
	for _, dir := range dirs {
		v, err := runs.Verify(h.Ctx, dir)
		if h.Ctx.Err() != nil {
			return err
		}
		line := verified{Run: dir, OK: err == nil, Verification: v}
		if err != nil {
			line.Error = err.Error()
			bad++
		}
		if err := c.tell(h, line); err != nil {
			return err
		}
	}
	if bad > 0 {
		return &Exit{Code: ExitOurs, Err: fmt.Errorf("%d of %d runs are not in order", bad, len(dirs))}
	}
	return nil
}

func (c *runsVerify) tell(h *host, v verified) error {
	if c.JSON {
		return printJSON(h.Stdio.Out, v)
	}
	if !v.OK {
		_, err := fmt.Fprintf(h.Stdio.Out, "%s: BAD: %s\n", v.Run, v.Error)
		return err
	}
	var notes strings.Builder
	if v.Torn > 0 {
		fmt.Fprintf(&notes, "; %d bytes behind the last record were not finished (a killed process)", v.Torn)
	}
	if v.Stale {
		notes.WriteString("; the projections are behind a log that was not closed (the next start, or runs export, brings them up)")
	}
	_, err := fmt.Fprintf(h.Stdio.Out, "%s: ok, %d records, %s%s\n", v.Run, v.Records, booksLine(v.Statistics), notes.String())
	return err
}

// booksLine is the books in one line for people.
func booksLine(s stats.Statistics) string {
	sum := func(m map[string]int64) (n int64) {
		for _, v := range m {
			n += v
		}
		return n
	}
	return fmt.Sprintf("planned %d = accepted %d + rejected %d + failed %d + pending %d", s.Planned, s.Accepted, sum(s.Rejected), sum(s.Failed), s.Pending)
}

func (p runPlace) dirs(names []string) ([]string, error) {
	var dirs []string
	for _, n := range names {
		dir, err := p.dir(n)
		if err != nil {
			return nil, err
		}
		dirs = append(dirs, dir)
	}
	return dirs, nil
}

type runsStats struct {
	Names []string `arg:"" name:"run" help:"Runs: names or paths."`
	salvageFlag
	runPlace
}

// Run prints the statistics as they follow from the log, one JSON object a run. The exit
// code is 1 when the books of one do not balance.
func (c *runsStats) Run(h *host) error {
	dirs, err := c.dirs(c.Names)
	if err != nil {
		return err
	}
	var odd []error
	for _, dir := range dirs {
		s, err := c.count(h, dir)
		if err != nil {
			return runError(err)
		}
		if err := c.tell(h, dir, s); err != nil {
			return err
		}
		if err := s.Balance(); err != nil {
			odd = append(odd, fmt.Errorf("%s: %w", dir, err))
		}
	}
	return errors.Join(odd...)
}

func (c *runsStats) count(h *host, dir string) (stats.Statistics, error) {
	r, err := c.open(dir)
	if err != nil {
		return stats.Statistics{}, err
	}
	defer r.Close()
	return r.Stats(h.Ctx)
}

func (c *runsStats) tell(h *host, dir string, s stats.Statistics) error {
	if c.JSON {
		return printJSON(h.Stdio.Out, s)
	}
	text, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(h.Stdio.Out, "%s: %s\n%s\n", dir, booksLine(s), text)
	return err
}
