package cmd

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"hermes/internal/control"
)

type runsCtl struct {
	Name   string `arg:"" name:"run" help:"Run: a name or a path."`
	Action string `arg:"" enum:"status,pause,resume,set,cancel,requeue" help:"status, pause, resume, set concurrency=N, cancel ID, requeue ID."`
	Value  string `arg:"" optional:"" help:"concurrency=N; or KEY, ROW or ROW/SAMPLE."`
	runPlace
}

// request reads the words of the command line.
func (c *runsCtl) request() (control.Request, error) {
	q := control.Request{Do: c.Action}
	switch c.Action {
	case "set":
		text, ok := strings.CutPrefix(c.Value, "concurrency=")
		n, err := strconv.Atoi(text)
		if !ok || err != nil || n < 1 {
			return q, Usage("set %q: want concurrency=N, N at least 1", c.Value)
		}
		q.Concurrency = n
	case "cancel", "requeue":
		if c.Value == "" {
			return q, Usage("%s: which sample? KEY, ROW or ROW/SAMPLE", c.Action)
		}
		q.ID = c.Value
	default:
		if c.Value != "" {
			return q, Usage("%s takes no %q", c.Action, c.Value)
		}
	}
	return q, nil
}

// Run asks the process of the run. What is not running, or refuses, is exit code 2.
func (c *runsCtl) Run(h *host) error {
	q, err := c.request()
	if err != nil {
		return err
	}
	dir, err := c.dir(c.Name)
	if err != nil {
		return err
	}
	ctx, stop := h.untilSignal()
	defer stop()
	conn, err := control.Dial(ctx, dir)
	if errors.Is(err, control.ErrNotRunning) {
		return Usage("%w", err)
	}
	if err != nil {
		return err
	}
	defer conn.Close()
	a, err := conn.Ask(ctx, q)
	var refused *control.Refusal
	if errors.As(err, &refused) {
		return Usage("%w", err)
	}
	if err != nil {
		return err
	}
	if c.JSON && q.Do == "status" {
		return printJSON(h.Stdio.Out, a.Status)
	}
	if c.JSON {
		return printJSON(h.Stdio.Out, a)
	}
	return c.tell(h.Stdio.Out, q, a)
}

// tell prints what was done and the status of the run.
func (c *runsCtl) tell(w io.Writer, q control.Request, a control.Answer) error {
	st := a.Status
	switch q.Do {
	case "cancel":
		fmt.Fprintf(w, "cancelled: %s is pending; requeue begins it again, so does the next start\n", q.ID)
	case "requeue":
		fmt.Fprintf(w, "requeued: %s is begun once more\n", q.ID)
	}
	fmt.Fprintf(w, "%s: %s since %s as process %d, %d of %d in flight", st.Run, st.State, st.Begun.Format(time.DateTime), st.PID, len(st.InFlight), st.Concurrency)
	for _, n := range []struct {
		count int
		what  string
	}{{st.Queued, "queued again"}, {st.Cancelled, "cancelled"}} {
		if n.count > 0 {
			fmt.Fprintf(w, ", %d %s", n.count, n.what)
		}
	}
	fmt.Fprintf(w, "\n%s\n", booksLine(st.Books))
	_, err := fmt.Fprintf(w, "%.1f samples a minute, %.0f tokens and %.1f requests a second over the last %.0f s\n",
		st.Rates.SamplesAMinute, st.Rates.TokensASecond, st.Rates.RequestsASecond, st.Rates.Seconds)
	if q.Do != "status" || err != nil {
		return err
	}
	for _, s := range st.Servers {
		fmt.Fprintf(w, "  %s\n", serverLine(s))
	}
	for _, f := range st.InFlight {
		fmt.Fprintf(w, "  %s/%d  attempt %d, %d answers, %.1f s\n", f.ID, f.Sample, f.Attempt, f.Turns, f.Seconds)
	}
	return nil
}

// serverLine says what one model server carries, what waits for it and why.
func serverLine(s control.ModelServer) string {
	line := fmt.Sprintf("%s: %d requests in flight, at most %d", s.URL, s.Requests, s.Limit)
	if s.Limit < s.Most {
		line += fmt.Sprintf(" of %d (it refuses or queues more)", s.Most)
	}
	if s.Queued > 0 {
		line += fmt.Sprintf("; %d wait for a place", s.Queued)
	}
	if s.Pause > 0 {
		line += fmt.Sprintf("; it asked all to wait, %.1f s more", s.Pause)
	}
	for i, why := range slices.Sorted(maps.Keys(s.Again)) {
		if i == 0 {
			line += "; before another try wait "
		} else {
			line += ", "
		}
		line += fmt.Sprintf("%d (%s)", s.Again[why], why)
	}
	if s.Longest > 0 {
		line += fmt.Sprintf(", the longest %.1f s more", s.Longest)
	}
	if s.Chance > 0 {
		line += fmt.Sprintf("; it refuses about %.0f in 100 at any load", 100*s.Chance)
	}
	return line
}
