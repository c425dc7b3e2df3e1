package cmd

import (
	"fmt"

	"hermes/rollout/runs"
	"hermes/rollout/sink"
)

// hubFlags say what of a run goes into a dataset folder.
type hubFlags struct {
	Where   string `nokey:"" placeholder:"EXPR" help:"With hf: only samples such as 'reward >= 0.5 and turns < 20'."`
	License string `nokey:"" placeholder:"ID" help:"With hf: licence as the hub names it, such as apache-2.0 (default: none is claimed)."`
	Title   string `nokey:"" placeholder:"TEXT" help:"With hf: title of the card."`
}

func (f hubFlags) options() (runs.HubOptions, error) {
	if f.Where != "" {
		if _, err := sink.ParseCondition(f.Where); err != nil {
			return runs.HubOptions{}, Usage("--where %q: %w", f.Where, err)
		}
	}
	return runs.HubOptions{Where: f.Where, License: f.License, Name: f.Title, Created: "hermes " + BuildInfo().Version}, nil
}

// toHub writes the folder of `runs export --format hf`.
func (c *runsExport) toHub(h *host) error {
	if c.Into == "" || c.Parquet {
		return Usage("--format hf: want -o DIR, a folder that does not exist yet, and not --parquet, which it is already")
	}
	o, err := c.options()
	if err != nil {
		return err
	}
	dir, err := c.dir(c.Name)
	if err != nil {
		return err
	}
	x, err := runs.ExportHub(h.Ctx, dir, c.Into, o)
	if err != nil {
		return inputError(runError(err))
	}
	if c.JSON {
		return printJSON(h.Stdio.Out, x)
	}
	_, err = fmt.Fprintf(h.Stdio.Out, "%s: %d rows in %d files (%d accepted, %d filtered)\n", x.Dir, x.Rows, x.Files, x.Accepted, x.Filtered)
	return err
}
