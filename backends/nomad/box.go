package nomad

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"

	"hermes/backends"
	"hermes/backends/slotd/client"
)

// box is a lease of a slot.
type box struct {
	*client.Client
	slot *slot
	env  map[string]string // of every command
}

var (
	_ backends.Starter   = (*box)(nil)
	_ backends.Selective = (*box)(nil)
	_ backends.Streamer  = (*box)(nil)
)

// open takes a slot and makes it a box. Slots that do not answer any more are replaced.
func (g *group) open(ctx context.Context, s backends.Spec) (*box, error) {
	for {
		t, err := g.take(ctx)
		if err != nil {
			return nil, err
		}
		if err := t.touch(ctx); err != nil {
			if ctx.Err() != nil {
				g.ready(t)
				return nil, context.Cause(ctx)
			}
			g.retire(t, err)
			continue
		}
		x := t.box(s)
		if err := x.prepare(ctx, s.Dir); err != nil {
			return nil, errors.Join(err, x.Close(context.WithoutCancel(ctx)))
		}
		return x, nil
	}
}

// box makes a box of a slot that is leased.
func (s *slot) box(spec backends.Spec) *box {
	s.g.mu.Lock()
	l := s.lease
	s.g.mu.Unlock()
	x := &box{slot: s, env: spec.Env}
	dir := spec.Dir // empty: the slot's own
	if dir != "" && !filepath.IsAbs(dir) {
		dir = l.Dir + "/" + dir
	}
	x.Client = client.New(s.links.connect, client.Options{Token: l.Token, ID: s.alloc + "-" + l.ID, Dir: dir, Cause: s.lostCause,
		Close: func(ctx context.Context) error {
			s.release(ctx)
			s.g.b.held.Drop(x)
			return nil
		}})
	return x
}

// prepare makes the working directory.
func (x *box) prepare(ctx context.Context, dir string) error {
	if dir == "" || filepath.IsAbs(dir) {
		return nil
	}
	r, err := x.Client.Exec(ctx, backends.Cmd{Argv: []string{"mkdir", "-p", "--", dir}, Dir: x.slot.lease.Dir})
	if err == nil && r.Code != 0 {
		err = fmt.Errorf("make directory %q: %s", dir, r.Stderr)
	}
	return err
}

// with adds the environment of the box to a command's.
func (x *box) with(c backends.Cmd) backends.Cmd {
	x.slot.ran.Store(true)
	if c.ClearEnv || len(x.env) == 0 {
		return c
	}
	env := maps.Clone(x.env)
	maps.Copy(env, c.Env)
	c.Env = env
	return c
}

// Has implements backends.Selective: a leased slot is reset by the end of its lease alone.
func (x *box) Has(ability any) bool {
	_, resets := ability.(*backends.Resetter)
	return !resets
}

// Exec implements backends.Sandbox.
func (x *box) Exec(ctx context.Context, c backends.Cmd) (backends.Result, error) {
	return x.Client.Exec(ctx, x.with(c))
}

// Start implements backends.Starter.
func (x *box) Start(ctx context.Context, c backends.Cmd, o backends.StartOptions) (backends.Process, error) {
	return x.Client.Start(ctx, x.with(c), o)
}

// Stream implements backends.Streamer.
func (x *box) Stream(ctx context.Context, c backends.Cmd, s backends.Streams) (backends.Result, error) {
	return x.Client.Stream(ctx, x.with(c), s)
}
