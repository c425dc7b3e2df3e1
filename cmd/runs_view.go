package cmd

import (
	"fmt"

	"hermes/internal/build"
	"hermes/internal/viewer"
	"hermes/rollout/rundir"
)

type runsView struct {
	Names     []string `arg:"" name:"run" help:"Runs: names or paths."`
	Listen    string   `nokey:"" default:"127.0.0.1:0" placeholder:"ADDR" help:"Loopback address of the page; port 0 takes a free one."`
	Tokenizer string   `nokey:"" placeholder:"FILE|DIR" help:"Tokenizer of exact runs (default: as their configuration says)."`
	runPlace
}

// Run serves the page until a signal. Its address is the result.
func (c *runsView) Run(h *host) error {
	dirs, err := c.dirs(c.Names)
	if err != nil {
		return err
	}
	ctx, stop := h.untilSignal()
	defer stop()
	l, err := viewer.Listen(ctx, c.Listen)
	if err != nil {
		return Usage("%w", err)
	}
	v, err := viewer.Open(ctx, dirs, viewer.Options{Log: h.Log,
		Decoder: func(m rundir.Manifest) (viewer.Decoder, error) { return build.TokenTexts(m, c.Tokenizer) }})
	if err != nil {
		l.Close()
		return runError(err)
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
