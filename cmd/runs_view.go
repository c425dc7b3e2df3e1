package cmd

import (
	"errors"
	"fmt"
	"path/filepath"

	"hermes/internal/build"
	"hermes/internal/viewer"
	"hermes/rollout/rundir"
	"hermes/rollout/runs"
)

type runsView struct {
	Names     []string `arg:"" optional:"" name:"run" help:"Runs: names or paths (default: all of the folder)."`
	Listen    string   `nokey:"" default:"127.0.0.1:0" placeholder:"ADDR" help:"Loopback address of the page; port 0 takes a free one."`
	Tokenizer string   `nokey:"" placeholder:"FILE|DIR" help:"Tokenizer of exact runs (default: as their configuration says)."`
	Export    string   `nokey:"" placeholder:"DIR" help:"Write the pages into this folder, which opens without a server, instead of serving them."`
	runPlace
}

// open opens the runs that are named, or all of the folder, which are then opened one by one as
// they are looked at.
func (c *runsView) open(h *host) (*viewer.Viewer, error) {
	dirs, err := c.dirs(c.Names)
	if err != nil {
		return nil, err
	}
	if len(c.Names) == 0 {
		dirs, err = runs.Folders(c.Out)
		if err != nil {
			return nil, inputError(err)
		}
		if len(dirs) == 0 {
			return nil, Usage("no runs in %s", c.Out)
		}
	}
	v, err := viewer.Open(h.Ctx, dirs, viewer.Options{Log: h.Log, Lazy: len(c.Names) == 0 && c.Export == "",
		Decoder: func(m rundir.Manifest) (viewer.Decoder, error) { return build.TokenTexts(m, c.Tokenizer) }})
	return v, runError(err)
}

// export writes the pages into a folder.
func (c *runsView) export(h *host, v *viewer.Viewer) error {
	ctx, stop := h.untilSignal()
	defer stop()
	done, err := v.Export(ctx, c.Export)
	if errors.Is(err, viewer.ErrNotEmpty) {
		return Usage("--export: %w", err)
	}
	if err != nil {
		return err
	}
	index := filepath.Join(c.Export, "index.html")
	if c.JSON {
		return printJSON(h.Stdio.Out, map[string]any{"index": index, "runs": done.Runs, "records": done.Records})
	}
	_, err = fmt.Fprintf(h.Stdio.Out, "%s: %d runs, %d records\n", index, done.Runs, done.Records)
	return err
}

// Run serves the page until a signal. Its address is the result.
func (c *runsView) Run(h *host) error {
	if c.Export != "" {
		v, err := c.open(h)
		if err != nil {
			return err
		}
		defer v.Close()
		return c.export(h, v)
	}
	ctx, stop := h.untilSignal()
	defer stop()
	l, err := viewer.Listen(ctx, c.Listen)
	if err != nil {
		return Usage("%w", err)
	}
	v, err := c.open(h)
	if err != nil {
		l.Close()
		return err
	}
	defer v.Close()
	url := "http://" + l.Addr().String() + "/"
	if c.JSON {
		err = printJSON(h.Stdio.Out, map[string]string{"url": url})
	} else {
		_, err = fmt.Fprintln(h.Stdio.Out, url)
	}
	if err != nil {
		l.Close()
		return err
	}
	return v.Serve(ctx, l)
}
