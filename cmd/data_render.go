package cmd

import (
	"cmp"
	"fmt"

	"hermes/datasets"
	"hermes/internal/build"
)

// maxRefused bounds how many rows that a template refuses are named.
const maxRefused = 20

// render has the template of a model render every row: what it refuses, a trainer with
// that model would refuse too.
func (c *dataValidate) render(h *host) error {
	render, err := build.Renderer(h.Ctx, c.ModelFiles, c.Template, c.Variables, build.Hub(h.Env.Get, c.Offline))
	if err != nil {
		return &Exit{Code: ExitUsage, Err: err}
	}
	d, err := c.open(h, c.Datasets)
	if err != nil {
		return err
	}
	defer d.Close()
	var good, refused, longest int64
	err = d.Texts(h.Ctx, datasets.BadRows(c.BadRows), func(t datasets.Text) error {
		msgs, err := t.Conversation()
		if err != nil {
			return err
		}
		tools, err := t.Tools()
		if err != nil {
			return err
		}
		n, err := render(msgs, tools)
		if err != nil {
			refused++
			if refused <= maxRefused {
				fmt.Fprintf(h.Stdio.Err, "hermes: %v\n", t.Fault(err))
			}
			return h.Ctx.Err()
		}
		good++
		longest = max(longest, int64(n))
		return h.Ctx.Err()
	})
	if err != nil {
		return inputError(err)
	}
	name := cmp.Or(c.Template, c.ModelFiles)
	err = h.result(c.JSON, map[string]any{"ok": refused == 0, "template": name, "rows": good, "refused": refused, "longest_bytes": longest},
		"template %s: %d rows rendered, %d refused\n", name, good, refused)
	if err == nil && refused > 0 {
		err = Usage("the template %s refuses %d of %d rows", name, refused, good+refused)
	}
	return err
}
