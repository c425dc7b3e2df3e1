package slotd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"time"

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
	began := time.Now()
	out, errs := newCapture(c.MaxOutput, c.Keep), newCapture(c.MaxOutput, c.Keep)
	p, err := newPipes(c.Stdin != nil, c.Merge)
	if err != nil {
		return backends.Result{}, fmt.Errorf("pipes of a command: %w", err)
	}
	t, err := h.launch(ctx, c, p.child)
	p.closeChild()
	if err != nil {
		p.closeOurs()
		var r refusal
		if errors.As(err, &r) {
			return refused(c, r, began), nil
		}
		return backends.Result{}, err
	}
	started(t)
	streams := []*stream{h.read(p.out, out)}
	if p.er != nil {
		streams = append(streams, h.read(p.er, errs))
	}
	if p.in != nil {
		h.keep(p.in)
		go feed(h, p.in, c.Stdin)
	}
	timedOut, err := h.follow(ctx, t, c.Timeout)
	for _, s := range streams {
		s.settle()
	}
	if p.in != nil {
		h.drop(p.in) // ends a feed that nobody reads
	}
	if err = cmp.Or(err, now.still()); err != nil {
		return backends.Result{}, fmt.Errorf("exec: %w", err)
	}
	r := h.result(t, timedOut)
	r.Took = time.Since(began)
	var cut1, cut2 int64
	r.Stdout, r.OutBytes, cut1 = out.seal()
	r.Stderr, r.ErrBytes, cut2 = errs.seal()
	r.Dropped = cut1 + cut2
	r.Truncated = r.Dropped > 0
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

func (h *Host) isClosed() bool {
	select {
	case <-h.closes:
		return true
	default:
		return false
	}
}

// result tells how a finished command ended.
func (h *Host) result(t *task, timedOut bool) backends.Result {
	r := backends.Result{TimedOut: timedOut}
	r.Code = t.ended.ExitStatus()
	if t.ended.Signaled() {
		r.Signal = int(t.ended.Signal())
		r.Code = 128 + r.Signal
	}
	r.CPU = time.Duration(t.used.Utime.Nano() + t.used.Stime.Nano())
	if timedOut {
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
	child   stdio
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
		p.child.in, p.in, err = os.Pipe()
	} else {
		p.child.in, err = os.Open(os.DevNull)
	}
	if err != nil {
		return nil, err
	}
	if p.out, p.child.out, err = os.Pipe(); err != nil {
		return nil, err
	}
	if p.child.err = p.child.out; !merge {
		p.er, p.child.err, err = os.Pipe()
	}
	return p, err
}

func (p *pipes) closeChild() {
	for _, f := range []*os.File{p.child.in, p.child.out, p.child.err} {
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

// feed writes the input of a command, which need not read it.
func feed(h *Host, f *os.File, data []byte) {
	f.Write(data)
	h.drop(f)
}
