package slotd

import (
	"context"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"hermes/backends"
)

// Exec implements backends.Sandbox.
func (h *Host) Exec(ctx context.Context, c backends.Cmd) (backends.Result, error) {
	return h.exec(ctx, c, func(*task) {})
}

// exec tells started about the command as soon as it runs.
func (h *Host) exec(ctx context.Context, c backends.Cmd, started func(*task)) (backends.Result, error) {
	if err := h.alive(ctx, "exec"); err != nil {
		return backends.Result{}, err
	}
	now, err := h.turn(ctx, "exec")
	if err != nil {
		return backends.Result{}, err
	}
	ended := 0
	if c.Alone {
		ended = h.endOthers()
	}
	r, err := h.streams.Run(c, func(f Files) (func() (backends.Result, error), error) {
		t, err := h.launch(ctx, c, stdio{Files: f})
		if err != nil {
			return nil, err
		}
		started(t)
		return func() (backends.Result, error) {
			timedOut, err := h.follow(ctx, t, c.Timeout)
			r := h.result(t, timedOut)
			if c.Report != "" {
				endLeft(&r, t)
			}
			return r, err
		}, nil
	})
	r.Ended = ended
	if err == nil {
		err = now.still()
	}
	if err != nil {
		return backends.Result{}, fmt.Errorf("exec: %w", err)
	}
	return r, nil
}

// follow waits for the end of a command and brings it about when time is over.
func (h *Host) follow(ctx context.Context, t *task, limit time.Duration) (timedOut bool, err error) {
	var over <-chan time.Time
	if limit > 0 {
		timer := time.NewTimer(limit)
		defer timer.Stop()
		over = timer.C
	}
	select {
	case <-t.done:
	case <-over:
		t.end(h.opt.Grace)
		timedOut = true
	case <-ctx.Done():
		t.end(0)
		err = context.Cause(ctx)
	case <-h.closes:
		err = backends.ErrClosed
	}
	<-t.done
	if err == nil && (h.isClosed() || t.void.Load()) {
		err = backends.ErrClosed // what ended it was Close, or a reset
	}
	return timedOut, err
}

// finish waits for the end of an adopted command, as follow does.
func (h *Host) finish(ctx context.Context, t *task, limit time.Duration) (backends.Result, error) {
	timedOut, err := h.follow(ctx, t, limit)
	return h.result(t, timedOut), err
}

func (h *Host) isClosed() bool {
	select {
	case <-h.closes:
		return true
	default:
		return false
	}
}

// Ended is the result of a command by its end alone.
func Ended(status unix.WaitStatus, used unix.Rusage) backends.Result {
	r := backends.Result{Code: status.ExitStatus(), CPU: time.Duration(used.Utime.Nano() + used.Stime.Nano())}
	if status.Signaled() {
		r.Signal = int(status.Signal())
		r.Code = 128 + r.Signal
	}
	return r
}

// result tells how a finished command ended.
func (h *Host) result(t *task, timedOut bool) backends.Result {
	r := Ended(t.ended, t.used)
	if r.TimedOut = timedOut; timedOut {
		r.Code = 124
	}
	if h.opt.OOM != nil {
		r.OOM = h.opt.OOM() > t.ooms
	}
	return r
}

// refused is the result of a command that could not be started.
func refused(c backends.Cmd, r refusal, began time.Time) backends.Result {
	text := []byte(r.text + "\n")
	res := backends.Result{Code: r.code, Took: time.Since(began)}
	if c.Merge {
		res.Stdout, res.OutBytes = text, int64(len(text))
	} else {
		res.Stderr, res.ErrBytes = text, int64(len(text))
	}
	return res
}

// pipes are both ends of a command's streams.
type pipes struct {
	child   Files
	in      *os.File // ours, for writing; nil without input
	out, er *os.File // ours, for reading; er is nil when merged
}

func newPipes(input, merge bool) (p *pipes, err error) {
	p = &pipes{}
	defer func() {
		if err != nil {
			p.closeChild()
			p.closeOurs()
		}
	}()
	if input {
		p.child.In, p.in, err = os.Pipe()
	} else {
		p.child.In, err = openNull(os.O_RDONLY)
	}
	if err != nil {
		return nil, err
	}
	if p.out, p.child.Out, err = os.Pipe(); err != nil {
		return nil, err
	}
	if p.child.Err = p.child.Out; !merge {
		p.er, p.child.Err, err = os.Pipe()
	}
	return p, err
}

func (p *pipes) closeChild() {
	for _, f := range []*os.File{p.child.In, p.child.Out, p.child.Err} {
		if f != nil {
			f.Close() // twice when merged: harmless
		}
	}
}

func (p *pipes) closeOurs() {
	for _, f := range []*os.File{p.in, p.out, p.er} {
		if f != nil {
			f.Close()
		}
	}
}
