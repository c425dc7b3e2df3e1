package cmd

import (
	"fmt"

	"hermes/internal/build"
	"hermes/internal/runs/replay"
)

type runsReplay struct {
	Names []string `arg:"" name:"run" help:"Runs: names or paths."`
	runPlace
}

// Run replays every run, also behind one that differs; the exit code is 1 unless all
// requests of all runs are the same.
func (c *runsReplay) Run(h *host) error {
	dirs, err := c.dirs(c.Names)
	if err != nil {
		return err
	}
	differ := 0
	for _, dir := range dirs {
		found, err := replay.Run(h.Ctx, dir, build.Hub(h.Env.Get, true))
		if err != nil {
			return exitOf(runError(err))
		}
		if err := found.Write(h.Stdio.Out, c.JSON); err != nil {
			return err
		}
		if !found.Same() {
			differ++
		}
	}
	if differ > 0 {
		return &Exit{Code: ExitOurs, Err: fmt.Errorf("%d of %d runs are not replayed to the same requests", differ, len(dirs))}
	}
	return nil
}
