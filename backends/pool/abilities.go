package pool

import (
	"context"
	"fmt"
	"io"
	"time"

	"hermes/backends"
)

// The optional abilities of a box, as far as the box behind a lease has them. A new
// ability has its line in Has and its methods here, and nowhere else. Resetting is the
// pool's own.

var (
	_ backends.Selective   = (*lease)(nil)
	_ backends.Starter     = (*lease)(nil)
	_ backends.Streamer    = (*lease)(nil)
	_ backends.Stater      = (*lease)(nil)
	_ backends.Searcher    = (*lease)(nil)
	_ backends.Copier      = (*lease)(nil)
	_ backends.Forwarder   = (*lease)(nil)
	_ backends.Snapshotter = (*lease)(nil)
)

// Has implements backends.Selective.
func (l *lease) Has(ability any) (ok bool) {
	switch ability.(type) {
	case *backends.Starter:
		_, ok = backends.As[backends.Starter](l.slot.box)
	case *backends.Streamer:
		_, ok = backends.As[backends.Streamer](l.slot.box)
	case *backends.Stater:
		_, ok = backends.As[backends.Stater](l.slot.box)
	case *backends.Searcher:
		_, ok = backends.As[backends.Searcher](l.slot.box)
	case *backends.Copier:
		_, ok = backends.As[backends.Copier](l.slot.box)
	case *backends.Forwarder:
		_, ok = backends.As[backends.Forwarder](l.slot.box)
	case *backends.Snapshotter:
		_, ok = backends.As[backends.Snapshotter](l.slot.box)
	}
	return ok
}

// with runs a call that needs an ability of the box.
func with[A any](ctx context.Context, l *lease, what string, call func(context.Context, A) error) error {
	a, ok := backends.As[A](l.slot.box)
	if !ok {
		return fmt.Errorf("%s: box %s cannot do that", what, l.ID())
	}
	own, leave, err := l.enter(ctx, what)
	if err != nil {
		return err
	}
	return leave(call(own, a))
}

// Start implements backends.Starter.
func (l *lease) Start(ctx context.Context, c backends.Cmd, o backends.StartOptions) (p backends.Process, err error) {
	err = with(ctx, l, "start", func(ctx context.Context, a backends.Starter) error {
		inner, err := a.Start(ctx, c, o)
		if err == nil {
			p = &process{inner, l}
		}
		return err
	})
	return p, err
}

// Stream implements backends.Streamer.
func (l *lease) Stream(ctx context.Context, c backends.Cmd, s backends.Streams) (r backends.Result, err error) {
	err = with(ctx, l, "stream", func(ctx context.Context, a backends.Streamer) error {
		r, err = a.Stream(ctx, c, s)
		return err
	})
	return r, err
}

// Stat implements backends.Stater.
func (l *lease) Stat(ctx context.Context, path string) (f backends.FileInfo, err error) {
	err = with(ctx, l, "stat "+path, func(ctx context.Context, a backends.Stater) error {
		f, err = a.Stat(ctx, path)
		return err
	})
	return f, err
}

// List implements backends.Stater.
func (l *lease) List(ctx context.Context, path string, max int) (all []backends.FileInfo, err error) {
	err = with(ctx, l, "list "+path, func(ctx context.Context, a backends.Stater) error {
		all, err = a.List(ctx, path, max)
		return err
	})
	return all, err
}

// Search implements backends.Searcher.
func (l *lease) Search(ctx context.Context, q backends.Query) (f backends.Found, err error) {
	err = with(ctx, l, "search", func(ctx context.Context, a backends.Searcher) error {
		f, err = a.Search(ctx, q)
		return err
	})
	return f, err
}

// CopyIn implements backends.Copier.
func (l *lease) CopyIn(ctx context.Context, path string, tar io.Reader) error {
	return with(ctx, l, "copy to "+path, func(ctx context.Context, a backends.Copier) error { return a.CopyIn(ctx, path, tar) })
}

// CopyOut implements backends.Copier.
func (l *lease) CopyOut(ctx context.Context, path string, tar io.Writer) error {
	return with(ctx, l, "copy from "+path, func(ctx context.Context, a backends.Copier) error { return a.CopyOut(ctx, path, tar) })
}

// Snapshot implements backends.Snapshotter.
func (l *lease) Snapshot(ctx context.Context, name string) (image string, err error) {
	err = with(ctx, l, "snapshot", func(ctx context.Context, a backends.Snapshotter) error {
		image, err = a.Snapshot(ctx, name)
		return err
	})
	return image, err
}

// Forward implements backends.Forwarder. The connection ends with the lease.
func (l *lease) Forward(ctx context.Context, port int) (c io.ReadWriteCloser, err error) {
	err = with(ctx, l, "forward", func(ctx context.Context, a backends.Forwarder) error {
		c, err = a.Forward(ctx, port)
		return err
	})
	if err != nil {
		return nil, err
	}
	return &connection{c, context.AfterFunc(l.life, func() { c.Close() })}, nil
}

// connection is a forwarded connection that the lease closes.
type connection struct {
	io.ReadWriteCloser
	stop func() bool
}

func (c *connection) Close() error {
	c.stop()
	return c.ReadWriteCloser.Close()
}

// CloseWrite ends one direction, where the connection can.
func (c *connection) CloseWrite() error {
	if half, ok := c.ReadWriteCloser.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// process is a background process that cannot be reached after its lease.
type process struct {
	backends.Process
	l *lease
}

// call runs a call on the process.
func (p *process) call(ctx context.Context, what string, f func(context.Context) error) error {
	own, leave, err := p.l.enter(ctx, what+" process "+p.ID())
	if err != nil {
		return err
	}
	return leave(f(own))
}

func (p *process) Output(ctx context.Context, off, max int64) (data []byte, first, next int64, err error) {
	err = p.call(ctx, "output of", func(ctx context.Context) error {
		data, first, next, err = p.Process.Output(ctx, off, max)
		return err
	})
	return data, first, next, err
}

func (p *process) Log(ctx context.Context) (data []byte, first, lines int64, err error) {
	err = p.call(ctx, "output of", func(ctx context.Context) error {
		data, first, lines, err = p.Process.Log(ctx)
		return err
	})
	return data, first, lines, err
}

func (p *process) Write(ctx context.Context, data []byte) error {
	return p.call(ctx, "write to", func(ctx context.Context) error { return p.Process.Write(ctx, data) })
}

func (p *process) CloseStdin(ctx context.Context) error {
	return p.call(ctx, "close input of", p.Process.CloseStdin)
}

func (p *process) Resize(ctx context.Context, rows, cols uint16) error {
	return p.call(ctx, "resize", func(ctx context.Context) error { return p.Process.Resize(ctx, rows, cols) })
}

func (p *process) Wait(ctx context.Context) (r backends.Result, err error) {
	err = p.call(ctx, "wait for", func(ctx context.Context) error {
		r, err = p.Process.Wait(ctx)
		return err
	})
	return r, err
}

func (p *process) Kill(ctx context.Context, grace time.Duration) error {
	return p.call(ctx, "kill", func(ctx context.Context) error { return p.Process.Kill(ctx, grace) })
}
