//go:build linux

package namespace

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"hermes/backends"
	"hermes/backends/egress"
	"hermes/backends/namespace/unpack"
	"hermes/backends/slotd/pipes"
)

// Backend makes boxes of namespaces.
type Backend struct {
	conf    Config
	connect func(Server) Client
	groups  groups
	forker  forker
	ids     identities
	proxy   *egress.Proxy // nil: boxes have no network

	store   *unpack.Store // of images; nil: there is no place for one
	lists   lists
	streams *pipes.Streams // of commands that pid 1 of a box has started
	starts  *backends.Starts

	held    backends.Held[*box]
	spares  sync.WaitGroup
	spare   chan *box                     // at most one, started and waiting for its plan, or built to the usual one
	making  atomic.Pointer[chan struct{}] // of the next one: closed when that is done; nil: none
	waiting atomic.Bool                   // somebody, for that
	usual   usual
}

// Open checks, by making one box, that this machine can make them. It fails with
// backends.ErrUnavailable and the cause where it cannot. connect makes the client of a box.
func Open(ctx context.Context, c Config, connect func(Server) Client) (*Backend, error) {
	if err := itself(); err != nil {
		return nil, fmt.Errorf("namespace back-end: %w", err)
	}
	asked := c.Limits
	c, err := c.complete()
	if err != nil {
		return nil, fmt.Errorf("namespace back-end: %w", err)
	}
	ids, err := findIdentities()
	if err != nil {
		return nil, unavailable(err)
	}
	c.Limits = ids.share(c.Limits, asked)
	b := &Backend{conf: c, connect: connect, groups: findGroups(c.Limits), ids: ids, spare: make(chan *box, 1), forker: forker{program: c.program}, streams: pipes.New(), starts: backends.NewStarts()}
	b.store, err = openStore(c)
	if err != nil {
		return nil, fmt.Errorf("namespace back-end: %w", err)
	}
	if c.Egress.On() {
		b.proxy, err = egress.New(c.Egress, "backends.namespace.egress", egress.Outside{})
		if err != nil {
			return nil, err
		}
	}
	probe, err := b.Open(ctx, backends.Spec{})
	if err != nil {
		return nil, errors.Join(err, b.Close(context.WithoutCancel(ctx)))
	}
	return b, probe.Close(ctx)
}

// Open implements [backends.Backend].
func (b *Backend) Open(ctx context.Context, s backends.Spec) (backends.Sandbox, error) {
	opening, end, err := b.held.Begin(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	x, err := b.start(opening, s)
	if err != nil {
		return nil, err
	}
	x.given.Store(true)
	b.held.Add(x)
	b.makeAhead() // before end, so that Close sees it
	return x.handOut(), nil
}

// Narrow implements [backends.Narrower].
func (b *Backend) Narrow(network []string) error {
	_, err := egress.Of(b.proxy, network)
	return err
}

// Traits implements [backends.Backend].
func (b *Backend) Traits() backends.Traits {
	t := backends.Traits{Name: Name, Isolated: true, Network: "none", MemoryBy: "rlimit", Root: true, PTY: true, Images: true, Cheap: true}
	t.Notes = append(t.Notes, "changes of a file's owner are accepted and do nothing: the box has one user")
	if b.proxy != nil {
		t.Network = "allow-list"
	}
	if b.groups.has("memory") {
		t.MemoryBy = "cgroup"
	} else {
		t.Notes = append(t.Notes, "no cgroup for memory: the limit holds for each process, not for the box")
	}
	if !b.groups.has("cpu") {
		t.Notes = append(t.Notes, "no cgroup for cpu: the number of cores is not limited")
	}
	return t
}

// Close implements [backends.Backend].
func (b *Backend) Close(ctx context.Context) error {
	err := b.held.Close(ctx, func(ctx context.Context, x *box) error { return x.close(ctx) })
	if b.store != nil {
		b.store.Close()
	}
	b.spares.Wait()
	select {
	case x := <-b.spare:
		err = errors.Join(err, x.end(ctx))
	default:
	}
	b.forker.close()
	b.streams.Close()
	if b.proxy != nil {
		err = errors.Join(err, b.proxy.Close())
	}
	return err
}

// Sweep implements [backends.Sweeper]: what dead owners left, and of our own boxes the
// cgroups that could not be removed before, and images whose unpacking died.
func (b *Backend) Sweep(ctx context.Context) (removed int, err error) {
	removed, err = Sweep(ctx)
	gone, rerr := b.held.Retry(ctx, func(x *box) bool { return x.left.Load() }, func(ctx context.Context, x *box) error { return x.close(ctx) })
	if b.store == nil {
		return removed + gone, errors.Join(err, rerr)
	}
	unfinished, serr := b.store.Sweep(ctx)
	return removed + gone + unfinished, errors.Join(err, rerr, serr)
}

// unavailable wraps the cause for which this machine cannot make boxes.
func unavailable(cause error) error {
	return fmt.Errorf("namespace back-end: %w: %w", backends.ErrUnavailable, cause)
}
