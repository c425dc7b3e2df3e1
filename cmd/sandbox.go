package cmd

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"hermes/backends"
	"hermes/backends/backendtest"
	"hermes/internal/build"
)

// sandboxCmd is `hermes sandbox`.
type sandboxCmd struct {
	List  sandboxList  `cmd:"" help:"List the back-ends and what their boxes promise here."`
	Check sandboxCheck `cmd:"" help:"Run the contract of a back-end."`
	Exec  sandboxExec  `cmd:"" help:"Run one command in a fresh box."`
	GC    sandboxGC    `cmd:"" name:"gc" help:"Remove what boxes of dead owners left."`
}

// closeGrace bounds closing a box or a back-end, also after cancellation.
const closeGrace = 30 * time.Second

// openBackend opens a back-end by name with the section of the run file, and says what
// auto chose.
func (h *host) openBackend(ctx context.Context, name string) (*build.ChosenBackend, error) {
	b, err := build.OpenBackend(ctx, name, h.Layers.Section("backends"), h.Parts.Backends)
	if err != nil {
		return nil, &Exit{Code: ExitUsage, Err: err} // nothing was started
	}
	if name == "" || name == build.AutoBackend {
		fmt.Fprintln(h.Stdio.Err, "hermes: "+b.Why)
	}
	return b, nil
}

// boxError gives exit code 2 to boxes that could not be made as asked.
func boxError(err error) error {
	if errors.Is(err, backends.ErrImage) || errors.Is(err, backends.ErrUnavailable) {
		return &Exit{Code: ExitUsage, Err: err}
	}
	return err
}

// boxLabels name the owner of boxes outside of runs.
func boxLabels(what string) map[string]string {
	return map[string]string{"hermes": what, "owner": fmt.Sprintf("pid %d", os.Getpid())}
}

type sandboxList struct {
	JSON bool `name:"json" nokey:"" help:"A JSON array."`
}

// listedBackend is one back-end as `sandbox list` tells it.
type listedBackend struct {
	Name     string   `json:"name"`
	Ready    bool     `json:"ready"`
	Reason   string   `json:"reason,omitempty"` // why it is not ready
	Auto     bool     `json:"auto"`             // what --backend auto takes here
	Isolated bool     `json:"isolated"`
	Network  string   `json:"network,omitempty"`
	Images   bool     `json:"images"`
	Snapshot bool     `json:"snapshot"`
	MemoryBy string   `json:"memory_by,omitempty"`
	Root     bool     `json:"root"`
	Notes    []string `json:"notes,omitempty"`
}

// Run tries every back-end.
func (c *sandboxList) Run(h *host) error {
	section := h.Layers.Section("backends")
	if err := build.CheckBackends(section, h.Parts.Backends); err != nil {
		return err
	}
	ctx, stop := h.untilSignal()
	defer stop()
	auto := ""
	if b, err := build.OpenBackend(ctx, build.AutoBackend, section, h.Parts.Backends); err == nil {
		auto = b.Name
		h.closeBackend(ctx, b)
	}
	list := []listedBackend{}
	for _, k := range h.Parts.Backends {
		l := listedBackend{Name: k.Name, Auto: k.Name == auto}
		b, err := build.OpenBackend(ctx, k.Name, section, h.Parts.Backends)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			l.Reason = strings.TrimPrefix(err.Error(), "back-end "+k.Name+": ") // the table says both
			l.Reason = strings.TrimPrefix(l.Reason, backends.ErrUnavailable.Error()+": ")
		} else {
			t := b.Traits()
			l.Ready = true
			l.Isolated = t.Isolated
			l.Network = t.Network
			l.Images = t.Images
			l.Snapshot = t.Snapshot
			l.MemoryBy = t.MemoryBy
			l.Root = t.Root
			l.Notes = t.Notes
			h.closeBackend(ctx, b)
		}
		list = append(list, l)
	}
	if c.JSON {
		return printJSON(h.Stdio.Out, list)
	}
	return writeBackends(h, list)
}

func (h *host) closeBackend(ctx context.Context, b backends.Backend) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeGrace)
	defer cancel()
	if err := b.Close(ctx); err != nil {
		h.Log.Warn("close the back-end", "backend", b.Traits().Name, "err", err)
	}
}

func writeBackends(h *host, list []listedBackend) error {
	w := tabwriter.NewWriter(h.Stdio.Out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "BACK-END\tSTATE\tISOLATED\tNETWORK\tIMAGES\tNOTES")
	for _, l := range list {
		state := "ready"
		if l.Auto {
			state = "ready (auto)"
		}
		if !l.Ready {
			fmt.Fprintf(w, "%s\tno\t\t\t\t%s\n", l.Name, l.Reason)
			continue
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", l.Name, state, yesNo(l.Isolated), l.Network, yesNo(l.Images), strings.Join(l.Notes, "; "))
	}
	return w.Flush()
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

type sandboxCheck struct {
	Backend string `arg:"" name:"backend" help:"Back-end, or auto."`
	JSON    bool   `name:"json" nokey:"" help:"One JSON object a row."`
}

// checkSecret is a variable of our environment that no box may see.
const checkSecret = "HERMES_CHECK_SECRET"

// checkedRow is one row of the contract as `sandbox check --json` tells it.
type checkedRow struct {
	Number  int     `json:"number"`
	Name    string  `json:"name"`
	Result  string  `json:"result"` // ok, skip or FAIL
	Text    string  `json:"text,omitempty"`
	Seconds float64 `json:"seconds"`

	Calls *countedCalls `json:"calls,omitempty"` // of the row "system calls", number 0
}

// countedCalls is what a box does with system calls, as `sandbox check --json` prints it.
type countedCalls struct {
	Allowed int      `json:"allowed"`
	Refused int      `json:"refused"` // EPERM, or another error for what was asked
	Absent  int      `json:"absent"`  // ENOSYS
	Filter  bool     `json:"filter"`
	Names   []string `json:"refused_names"`
	Beyond  []string `json:"beyond,omitempty"` // allowed, and not by the list of the filter
}

// Run asks every row of the contract, one after the other; the exit code is 1 when one
// fails.
func (c *sandboxCheck) Run(h *host) error {
	ctx, stop := h.untilSignal()
	defer stop()
	secret := rand.Text()
	if err := os.Setenv(checkSecret, secret); err != nil {
		return err
	}
	defer os.Unsetenv(checkSecret)
	b, err := h.openBackend(ctx, c.Backend)
	if err != nil {
		return err
	}
	defer h.closeBackend(ctx, b)
	counts := map[string]int{}
	var broken error
	backendtest.Check(ctx, b, checkOptions(b, secret), func(r backendtest.Report) {
		row := checkedRow{Number: r.Row.Number, Name: r.Row.Name, Result: "ok", Text: r.Text, Seconds: r.Took.Seconds()}
		switch {
		case r.Failed:
			row.Result = "FAIL"
		case r.Skipped:
			row.Result = "skip"
		}
		counts[row.Result]++
		broken = errors.Join(broken, c.tell(h, row))
	})
	if ctx.Err() == nil {
		row := checkCalls(ctx, b)
		counts[row.Result]++
		broken = errors.Join(broken, c.tell(h, row))
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if broken != nil {
		return broken
	}
	fmt.Fprintf(h.Stdio.Err, "hermes: %s: %d rows hold, %d fail, %d could not be asked\n", b.Name, counts["ok"], counts["FAIL"], counts["skip"])
	if counts["FAIL"] > 0 {
		return &Exit{Code: ExitOurs}
	}
	return nil
}

// checkOptions say what the boxes promise to enforce. Killing a box from outside is left
// to the driver's own tests.
func checkOptions(b *build.ChosenBackend, secret string) backendtest.Options {
	o := backendtest.Options{Secret: secret}
	if b.Traits().MemoryBy == "cgroup" {
		o.Enforces = []string{"memory", "processes"}
		if b.Kind.Disk {
			o.Enforces = append(o.Enforces, "disk")
		}
	}
	return o
}

func (c *sandboxCheck) tell(h *host, r checkedRow) error {
	if c.JSON {
		return printJSON(h.Stdio.Out, r)
	}
	text := strings.ReplaceAll(r.Text, "\n", " ")
	_, err := fmt.Fprintf(h.Stdio.Out, "%02d  %-4s  %6.2f s  %s", r.Number, r.Result, r.Seconds, r.Name)
	if text != "" && err == nil {
		_, err = fmt.Fprintf(h.Stdio.Out, "  (%s)", text)
	}
	if err == nil {
		_, err = fmt.Fprintln(h.Stdio.Out)
	}
	return err
}

type sandboxGC struct {
	JSON bool `name:"json" nokey:"" help:"One JSON object."`
}

// Run sweeps for every back-end that works here and can; what belongs to a living owner
// stays. One that cannot be reached is an error when the configuration has a section for
// it: what dead owners left there stays.
func (c *sandboxGC) Run(h *host) error {
	section := h.Layers.Section("backends")
	if err := build.CheckBackends(section, h.Parts.Backends); err != nil {
		return err
	}
	ctx, stop := h.untilSignal()
	defer stop()
	var errs []error
	var swept []string
	removed := 0
	for _, k := range h.Parts.Backends {
		b, err := build.OpenBackend(ctx, k.Name, section, h.Parts.Backends)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			if section.Sub(k.Name).Written() {
				errs = append(errs, fmt.Errorf("not swept: %w", err))
			}
			h.Log.Debug("nothing is swept where boxes cannot be made", "backend", k.Name, "err", err)
			continue
		}
		if s, ok := b.Backend.(backends.Sweeper); ok {
			n, err := s.Sweep(ctx)
			removed += n
			errs = append(errs, err)
			swept = append(swept, k.Name)
		}
		h.closeBackend(ctx, b)
	}
	fmt.Fprintln(h.Stdio.Err, "hermes: swept:", cmp.Or(strings.Join(swept, ", "), "nothing"))
	if c.JSON {
		return errors.Join(append(errs, printJSON(h.Stdio.Out, map[string]int{"removed": removed}))...)
	}
	_, err := fmt.Fprintf(h.Stdio.Out, "removed %d\n", removed)
	return errors.Join(append(errs, err)...)
}
