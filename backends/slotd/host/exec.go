//go:build linux

package host

import (
	"context"
	"fmt"
	"time"

	"hermes/backends"
	"hermes/backends/slotd/pipes"
)

// Exec implements backends.Sandbox.
func (h *Host) Exec(ctx context.Context, c backends.Cmd) (backends.Result, error) {
	return h.Run(ctx, c, func(*Task) {})
}

// Run tells started about the command as soon as it runs.
func (h *Host) Run(ctx context.Context, c backends.Cmd, started func(*Task)) (backends.Result, error) {
	if err := h.Alive(ctx, "exec"); err != nil {
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
	r, err := h.streams.Run(c, func(f pipes.Files) (func() (backends.Result, error), error) {
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
func (h *Host) follow(ctx context.Context, t *Task, limit time.Duration) (timedOut bool, err error) {
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

// Finish waits for the end of an adopted command, as follow does.
func (h *Host) Finish(ctx context.Context, t *Task, limit time.Duration) (backends.Result, error) {
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

// result tells how a finished command ended.
func (h *Host) result(t *Task, timedOut bool) backends.Result {
	r := pipes.Ended(t.ended, t.used)
	r.TimedOut = timedOut
	if timedOut {
		r.Code = 124
	}
	if h.opt.OOM != nil {
		r.OOM = h.opt.OOM() > t.ooms
	}
	return r
}
