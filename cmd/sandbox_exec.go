package cmd

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"hermes/backends"
)

type sandboxExec struct {
	Backend string   `default:"auto" placeholder:"NAME" help:"Where the box lives: auto, or one of 'hermes sandbox list'."`
	Image   string   `placeholder:"IMAGE" help:"Image of the box."`
	Timeout seconds  `nokey:"" placeholder:"S" help:"Seconds, or a duration such as 2m, after which the command is killed (exit code 124)."`
	Command []string `arg:"" passthrough:"" help:"Command and its arguments, behind --."`
}

// seconds is a time that may be written as a plain number of seconds.
type seconds time.Duration

// UnmarshalText reads "1.5" or "90s".
func (s *seconds) UnmarshalText(text []byte) error {
	if n, err := strconv.ParseFloat(string(text), 64); err == nil {
		if !(n > 0) || n > math.MaxInt64/1e9 {
			return fmt.Errorf("%q: want seconds above 0", text)
		}
		*s = seconds(n * float64(time.Second))
		return nil
	}
	d, err := time.ParseDuration(string(text))
	if err != nil || d <= 0 {
		return fmt.Errorf("%q: want seconds above 0, or a duration such as 90s", text)
	}
	*s = seconds(d)
	return nil
}

// MarshalText writes the time as a duration.
func (s seconds) MarshalText() ([]byte, error) { return []byte(time.Duration(s).String()), nil }

// What goes into and comes out of one command, in bytes, in boxes without streams.
const (
	maxExecInput  = 64 << 20
	maxExecOutput = 256 << 20
)

// Run makes a box, runs the command, closes the box and ends with the command's exit code.
func (c *sandboxExec) Run(h *host) error {
	argv := c.Command
	if len(argv) > 0 && argv[0] == "--" {
		argv = argv[1:]
	}
	if len(argv) == 0 {
		return Usage("no command behind --")
	}
	ctx, stop := h.untilSignal()
	defer stop()
	b, err := h.openBackend(ctx, c.Backend)
	if err != nil {
		return err
	}
	defer h.closeBackend(ctx, b)
	box, err := b.Open(ctx, backends.Spec{Image: c.Image, Labels: boxLabels("sandbox exec")})
	if err != nil {
		return boxError(err)
	}
	r, err := c.exec(ctx, h, box, backends.Cmd{Argv: argv, Timeout: time.Duration(c.Timeout)})
	err = errors.Join(err, closeBox(ctx, box))
	if ctx.Err() != nil {
		return errors.Join(context.Cause(ctx), err)
	}
	if err != nil {
		return err
	}
	return c.finish(h, r)
}

// exec runs the command with our streams. Where the box cannot pass them on while it
// runs, input is read first and output written last, both bounded.
func (c *sandboxExec) exec(ctx context.Context, h *host, box backends.Sandbox, cmd backends.Cmd) (backends.Result, error) {
	if s, ok := backends.As[backends.Streamer](box); ok {
		streams := backends.Streams{Out: h.Stdio.Out, Err: h.Stdio.Err}
		if in := h.stdin(); in != nil {
			streams.In = in
		}
		return s.Stream(ctx, cmd, streams)
	}
	if !h.Stdio.InTerminal {
		var err error
		cmd.Stdin, err = h.readStdin(maxExecInput)
		if err != nil {
			return backends.Result{}, err
		}
	}
	cmd.MaxOutput = maxExecOutput
	r, err := box.Exec(ctx, cmd)
	if err != nil {
		return r, err
	}
	_, err1 := h.Stdio.Out.Write(r.Stdout)
	_, err2 := h.Stdio.Err.Write(r.Stderr)
	return r, errors.Join(err1, err2)
}

func closeBox(ctx context.Context, box backends.Sandbox) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeGrace)
	defer cancel()
	return box.Close(ctx)
}

// finish says what became of the command and passes on its exit code.
func (c *sandboxExec) finish(h *host, r backends.Result) error {
	if r.TimedOut {
		fmt.Fprintf(h.Stdio.Err, "hermes: killed after %v\n", time.Duration(c.Timeout))
	}
	if r.OOM {
		fmt.Fprintln(h.Stdio.Err, "hermes: the box ran into its memory limit")
	}
	if r.Truncated {
		fmt.Fprintf(h.Stdio.Err, "hermes: %d bytes of output and %d of errors were written; at most %d of each are passed on\n", r.OutBytes, r.ErrBytes, int64(maxExecOutput))
	}
	if r.Code != 0 {
		return &Exit{Code: r.Code}
	}
	return nil
}
