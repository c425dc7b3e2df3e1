//go:build linux

package host

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/creack/pty"

	"hermes/backends"
	"hermes/backends/slotd/pipes"
	"hermes/backends/slotd/wire"
)

// maxProcesses is how many background processes a host remembers.
const maxProcesses = 64

// Process is a command in the background.
type Process struct {
	h      *Host
	t      *Task
	buf    *ring
	in     *os.File // stdin or the terminal
	tty    bool
	write  chan struct{} // holds one while no call writes to in
	done   chan struct{} // closed when the result is there
	result backends.Result
	err    error
}

// Start implements backends.Starter.
func (h *Host) Start(ctx context.Context, c backends.Cmd, o backends.StartOptions) (backends.Process, error) {
	if err := h.Alive(ctx, "start"); err != nil {
		return nil, err
	}
	return h.Begin(ctx, c, o)
}

// Begin starts a background process. A command that cannot be run is a process that
// has ended already.
func (h *Host) Begin(ctx context.Context, c backends.Cmd, o backends.StartOptions) (*Process, error) {
	if o.Buffer <= 0 {
		o.Buffer = wire.DefaultOutput
	}
	now, err := h.turn(ctx, "start")
	if err != nil {
		return nil, err
	}
	p := &Process{h: h, buf: newRing(int(o.Buffer)), write: make(chan struct{}, 1), done: make(chan struct{}), tty: o.PTY}
	p.write <- struct{}{}
	ours, child, err := streams(o)
	if err != nil {
		return nil, fmt.Errorf("streams of a background command: %w", err)
	}
	began := time.Now()
	t, err := h.withKept(ctx, c, child)
	for _, f := range []*os.File{child.In, child.Out, child.Err} {
		f.Close()
	}
	var r pipes.Refusal
	switch {
	case errors.As(err, &r):
		ours.close()
		p.t = &Task{mark: h.mark(), done: make(chan struct{})}
		close(p.t.done)
		p.result = pipes.Refused(c, r, began)
		p.buf.Write([]byte(r.Error() + "\n"))
		close(p.done)
	case err != nil:
		ours.close()
		return nil, err
	default:
		p.t, p.in = t, ours.in
		h.streams.Keep(ours.in)
		go p.follow(ours.out, c, began)
	}
	h.remember(now, p)
	if len(c.Stdin) > 0 && p.in != nil {
		go p.feed(context.Background(), c.Stdin) // ends with the process: its pipe breaks
	}
	return p, nil
}

// withKept launches a command with the kept file that it asks for.
func (h *Host) withKept(ctx context.Context, c backends.Cmd, s stdio) (*Task, error) {
	kept, err := pipes.NewKept(c.Kept)
	if err != nil {
		return nil, err
	}
	s.Kept = kept
	if kept != nil {
		defer kept.Close()
	}
	return h.launch(ctx, c, s)
}

// ends are our ends of a background process's streams; with a terminal, one file.
type ends struct{ in, out *os.File }

func (e ends) close() {
	e.in.Close()
	e.out.Close()
}

func streams(o backends.StartOptions) (ends, stdio, error) {
	if o.PTY {
		master, slave, err := pty.Open()
		if err != nil {
			return ends{}, stdio{}, err
		}
		size := &pty.Winsize{Rows: o.Rows, Cols: o.Cols}
		if size.Rows == 0 || size.Cols == 0 {
			size.Rows, size.Cols = 24, 80
		}
		if err := pty.Setsize(master, size); err != nil {
			master.Close()
			slave.Close()
			return ends{}, stdio{}, err
		}
		return ends{master, master}, stdio{Files: pipes.Files{In: slave, Out: slave, Err: slave}, tty: true}, nil
	}
	p, err := pipes.NewEnds(true, true)
	if err != nil {
		return ends{}, stdio{}, err
	}
	return ends{p.In, p.Out}, stdio{Files: p.Child}, nil
}

// follow collects output and the end of the process.
func (p *Process) follow(out *os.File, c backends.Cmd, began time.Time) {
	text := p.h.streams.Read(out, p.buf)
	timedOut, err := p.h.follow(context.Background(), p.t, c.Timeout)
	text.Settle()
	if !p.tty {
		p.h.streams.Drop(p.in)
	}
	p.result = p.h.result(p.t, timedOut)
	p.result.Took = time.Since(began)
	p.result.OutBytes = p.buf.written()
	p.err = err
	close(p.done)
}

// remember lists a process and forgets the oldest finished ones beyond the bound. What a
// reset has overtaken is not for the next one to see.
func (h *Host) remember(now turn, p *Process) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if now.still() != nil {
		return
	}
	h.procs[p.ID()] = p
	h.order = append(h.order, p.ID())
	for i := 0; len(h.order) > maxProcesses && i < len(h.order); {
		old := h.procs[h.order[i]]
		select {
		case <-old.done:
			delete(h.procs, h.order[i])
			h.order = append(h.order[:i], h.order[i+1:]...)
		default:
			i++
		}
	}
}

// Process finds a background process.
func (h *Host) Process(id string) (*Process, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	p, ok := h.procs[id]
	return p, ok
}

// ID implements backends.Process.
func (p *Process) ID() string { return p.t.mark }

// PID implements backends.Process.
func (p *Process) PID() int { return p.t.pid }

// Since returns output from an offset on, most bytes at most (0: all): where it begins, and how
// many line feeds came before.
func (p *Process) Since(off, most int64) (data []byte, first, lines int64) {
	return p.buf.from(off, most)
}

// Done is closed when Wait has an answer.
func (p *Process) Done() <-chan struct{} { return p.done }

// Output implements backends.Process.
func (p *Process) Output(ctx context.Context, off, max int64) (data []byte, first, next int64, err error) {
	if err := ctx.Err(); err != nil {
		return nil, 0, 0, err
	}
	data, first, _ = p.Since(off, max)
	return data, first, first + int64(len(data)), nil
}

// Log implements backends.Process.
func (p *Process) Log(ctx context.Context) (data []byte, first, lines int64, err error) {
	if err := ctx.Err(); err != nil {
		return nil, 0, 0, err
	}
	data, first, lines = p.buf.from(0, 0)
	return data, first, lines, nil
}

// Write implements backends.Process. A full pipe makes it wait until ctx ends, or for stdinTime:
// then a part of data may have been taken.
func (p *Process) Write(ctx context.Context, data []byte) error {
	if p.in == nil {
		return fmt.Errorf("write to process %s: %w", p.ID(), os.ErrClosed)
	}
	own, cancel := context.WithTimeoutCause(ctx, stdinTime, fmt.Errorf("it has not read its input for %v: %w", stdinTime, backends.ErrSlow))
	defer cancel()
	return p.feed(own, data)
}

// feed writes until ctx ends.
func (p *Process) feed(ctx context.Context, data []byte) error {
	select {
	case <-p.write:
		defer func() { p.write <- struct{}{} }()
	case <-ctx.Done():
		return fmt.Errorf("write to process %s: %w", p.ID(), context.Cause(ctx))
	}
	stop := context.AfterFunc(ctx, func() { p.in.SetWriteDeadline(time.Unix(1, 0)) })
	_, err := p.in.Write(data)
	if !stop() {
		p.in.SetWriteDeadline(time.Time{})
	}
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		return fmt.Errorf("write to process %s: %w", p.ID(), err)
	}
	return nil
}

// CloseStdin implements backends.Process. On a terminal it sends the end-of-file character.
func (p *Process) CloseStdin(ctx context.Context) error {
	if p.in == nil {
		return nil
	}
	if p.tty {
		return p.Write(ctx, []byte{4})
	}
	p.h.streams.Drop(p.in)
	return nil
}

// Resize implements backends.Process.
func (p *Process) Resize(ctx context.Context, rows, cols uint16) error {
	if !p.tty || p.in == nil {
		return fmt.Errorf("resize process %s: it has no terminal", p.ID())
	}
	if err := pty.Setsize(p.in, &pty.Winsize{Rows: rows, Cols: cols}); err != nil {
		return fmt.Errorf("resize process %s: %w", p.ID(), err)
	}
	return nil
}

// Wait implements backends.Process. The output is in Output, not in the result.
func (p *Process) Wait(ctx context.Context) (backends.Result, error) {
	select {
	case <-p.done:
		return p.result, p.err
	case <-ctx.Done():
		return backends.Result{}, ctx.Err()
	}
}

// Kill implements backends.Process.
func (p *Process) Kill(ctx context.Context, grace time.Duration) error {
	if p.t.pid != 0 {
		p.t.end(grace)
	}
	select {
	case <-p.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
