package cmd

import (
	"errors"
	"fmt"

	fit "hermes/internal/runs/compress"
	"hermes/internal/settings"
	"hermes/trajectory/compress"
)

// compressCmd is `hermes compress`.
type compressCmd struct{ settings.Compress }

// Run compresses, or undoes it.
func (c *compressCmd) Run(h *host) error {
	if c.Undo {
		return c.undo(h)
	}
	if c.Originals != "" {
		return Usage("--originals %s: it is for --undo", c.Originals)
	}
	m, err := fit.Run(h.Ctx, h.build(), c.Compress)
	if m.Rows > 0 || err == nil {
		var printed error
		if c.JSON {
			printed = printJSON(h.Stdio.Out, m)
		} else {
			printed = m.Write(h.Stdio.Out)
		}
		err = errors.Join(err, printed)
	}
	return exitOf(err)
}

func (c *compressCmd) undo(h *host) error {
	if len(c.Inputs) != 1 {
		return Usage("--undo: want one file that was compressed, have %d", len(c.Inputs))
	}
	if c.Originals == "" {
		c.Originals = c.Inputs[0] + compress.OriginalSuffix
	}
	u, err := compress.Undo(c.Inputs[0], c.Originals, c.Into, "hermes "+BuildInfo().Version)
	if err != nil {
		return inputError(err)
	}
	err = h.result(c.JSON, u, "%s: %d rows, %d restored\n", c.Into, u.Rows, u.Restored)
	if u.Missing > 0 {
		err = errors.Join(err, fmt.Errorf("%d compressed rows have no original in %s and stayed as they are", u.Missing, c.Originals))
	}
	return err
}
