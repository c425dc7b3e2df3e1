package cmd

import (
	"fmt"
	"text/tabwriter"

	"hermes/internal/doctor"
)

// doctorCmd is `hermes doctor`.
type doctorCmd struct {
	Out  string `default:"runs" help:"Folder that run directories would be written to."`
	JSON bool   `name:"json" nokey:"" help:"One JSON object."`
}

// Run looks at the machine; the exit code is 1 when something fails that every run needs.
func (c *doctorCmd) Run(h *host) error {
	r := doctor.Look(h.Ctx, doctor.Machine(h.Env), doctor.SocketsOf(h.Env), c.Out)
	if err := printReport(h, r, c.JSON); err != nil {
		return err
	}
	if !r.OK {
		return &Exit{Code: ExitOurs}
	}
	return nil
}

func printReport(h *host, r doctor.Report, asJSON bool) error {
	if asJSON {
		return printJSON(h.Stdio.Out, r)
	}
	w := tabwriter.NewWriter(h.Stdio.Out, 0, 8, 2, ' ', 0)
	for _, c := range r.Checks {
		fmt.Fprintf(w, "%s\t%s\t%s\n", c.Name, c.Status, c.Detail)
		if c.Advice != "" {
			fmt.Fprintf(w, "\t\t→ %s\n", c.Advice)
		}
	}
	return w.Flush()
}
