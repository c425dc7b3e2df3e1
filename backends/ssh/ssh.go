// Package ssh makes boxes on another machine that is reached by ssh.
//
// The slotd program is brought to the host once, under the name of its content, and
// started there as a station (see package station), which makes the boxes: namespaces,
// or plain processes of the account where isolation is switched off by name. All boxes
// share one connection; each has a socket on the host, to which the server forwards, so
// that a warm command is one round trip and no session is used up.
//
// A connection that breaks is made again. Commands that ran on are joined again, and none
// runs twice. When no new connection comes, boxes are lost ([backends.ErrLost]) and tried
// elsewhere. Boxes of a client that no longer calls end by themselves, and at the next start
// of a hermes on the same machine.
//
// Host keys are always checked; there is no way to switch that off.
//
// A [Backend] and its boxes are safe for concurrent use.
package ssh

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"hermes/backends"
	"hermes/backends/slotd/client"
	"hermes/backends/ssh/station"
)

// Name is the back-end's name in configuration and traits.
const Name = "ssh"

// Kind returns the registry value of this back-end for a process with these surroundings.
func Kind(at Surroundings) backends.Kind {
	k := backends.NewKind(Name, func(ctx context.Context, c Config) (backends.Backend, error) {
		return Open(ctx, c, at)
	})
	k.Around = func(env func(string) string, _ func(string)) backends.Kind {
		return Kind(Surroundings{User: env("USER"), Home: env("HOME"), Agent: env("SSH_AUTH_SOCK")})
	}
	return k
}

// Backend makes boxes on one host.
type Backend struct {
	conf   Config
	host   hop
	link   *link
	traits backends.Traits
	serial atomic.Uint64
	held   backends.Held[*box]
	swept  atomic.Int64 // removed by Open and not yet reported
	stop   context.CancelFunc
	tended sync.WaitGroup

	turn  chan struct{} // held by whoever looks at or changes post
	post  *post         // nil: the station is gone
	mu    sync.Mutex
	waste map[*post]map[uint64]bool // boxes that could not be removed yet
}

// Open connects to the host and starts a station there. It fails with
// backends.ErrUnavailable and the cause where it cannot.
func Open(ctx context.Context, c Config, at Surroundings) (*Backend, error) {
	named := len(c.Keys) > 0
	c, route, err := c.complete(at)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", backends.ErrUnavailable, err)
	}
	keys, err := readKeys(c, named)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", backends.ErrUnavailable, err)
	}
	b := &Backend{conf: c, host: route[len(route)-1], link: newLink(c, route, keys), turn: make(chan struct{}, 1), waste: map[*post]map[uint64]bool{}}
	p, err := b.station(ctx)
	if err != nil {
		b.link.close()
		return nil, fmt.Errorf("%w: %w", backends.ErrUnavailable, err)
	}
	b.traits = p.ready.Traits
	b.traits.Name = Name
	b.traits.Notes = append([]string{"boxes on " + b.host.String()}, b.traits.Notes...)
	n, err := p.sweep(ctx)
	b.swept.Store(int64(n))
	if err != nil && errors.Is(err, errNoStation) {
		return nil, errors.Join(fmt.Errorf("%w: %w", backends.ErrUnavailable, err), b.Close(context.WithoutCancel(ctx)))
	}
	life, stop := context.WithCancel(context.WithoutCancel(ctx))
	b.stop = stop
	b.tended.Go(func() { b.tend(life) })
	return b, nil
}

// station is the running station; one is started where there is none.
func (b *Backend) station(ctx context.Context) (*post, error) {
	select {
	case b.turn <- struct{}{}:
		defer func() { <-b.turn }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if b.post != nil {
		return b.post, nil
	}
	p, err := settle(ctx, b.link, b.conf)
	if err == nil {
		b.post = p
	}
	return p, err
}

// miss forgets a station that did not answer although the host did. The next box gets a
// new one.
func (b *Backend) miss(p *post) {
	b.turn <- struct{}{}
	defer func() { <-b.turn }()
	if b.post == p {
		b.post = nil
	}
	b.mu.Lock()
	delete(b.waste, p)
	b.mu.Unlock()
}

// Traits implements [backends.Backend].
func (b *Backend) Traits() backends.Traits { return b.traits }

// Open implements [backends.Backend].
func (b *Backend) Open(ctx context.Context, s backends.Spec) (backends.Sandbox, error) {
	ctx, end, err := b.held.Begin(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	x, err := b.make(ctx, s)
	if ctx.Err() != nil && err != nil {
		err = errors.Join(context.Cause(ctx), err)
	}
	if err != nil {
		return nil, fmt.Errorf("open a box on %s: %w", b.host, err)
	}
	b.held.Add(x)
	return x.client, nil
}

// make orders a box. A connection that breaks meanwhile is made again and a station that
// went away is replaced, once; then another box is ordered.
func (b *Backend) make(ctx context.Context, s backends.Spec) (*box, error) {
	for try := 1; ; try++ {
		p, err := b.station(ctx)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", backends.ErrLost, err)
		}
		x := &box{back: b, post: p, number: b.serial.Add(1)}
		err = p.call(ctx, "POST", "boxes", station.Order{Number: x.number, Spec: s}, &x.at)
		if err == nil {
			x.client = client.New(x.dial, client.Options{ID: x.at.ID, Token: x.at.Token, Close: x.end, Cause: x.lostCause})
			return x, nil
		}
		if !errors.Is(err, errNoStation) {
			return nil, err
		}
		b.discard(p, x.number) // it may have been made
		if ctx.Err() != nil || try > 1 || !b.again(ctx, p) {
			return nil, fmt.Errorf("%w: %w", backends.ErrLost, err)
		}
	}
}

// again reports that the host can be reached. A station that is gone from it is
// forgotten.
func (b *Backend) again(ctx context.Context, p *post) bool {
	ctx, cancel := context.WithTimeout(ctx, b.conf.Reconnect+b.conf.Timeout)
	defer cancel()
	if _, err := b.link.proven(ctx); err != nil {
		return false
	}
	if p.call(ctx, "GET", "ping", nil, nil) != nil && ctx.Err() == nil {
		b.miss(p)
	}
	return ctx.Err() == nil
}

// discard remembers a box to be removed when the station can be reached.
func (b *Backend) discard(p *post, number uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.waste[p] == nil {
		b.waste[p] = map[uint64]bool{}
	}
	b.waste[p][number] = true
}

// tend keeps the connection and the station alive and removes what is left to remove.
func (b *Backend) tend(ctx context.Context) {
	tick := time.NewTicker(b.conf.KeepAlive)
	defer tick.Stop()
	missed := 0
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		c, err := b.link.get(ctx)
		if err != nil {
			continue // a caller that needs a box gets the error; we try again
		}
		if c.alive(b.conf.KeepAlive) {
			missed = 0
			b.visit(ctx)
			continue
		}
		missed++
		if missed >= 3 {
			missed = 0
			c.close()
		}
	}
}

// visit calls the station, which lives on by that, and removes discarded boxes.
func (b *Backend) visit(ctx context.Context) {
	select {
	case b.turn <- struct{}{}:
	case <-ctx.Done():
		return
	}
	p := b.post
	<-b.turn
	if p == nil {
		return
	}
	call, cancel := context.WithTimeout(ctx, b.conf.Timeout)
	defer cancel()
	if p.call(call, "GET", "ping", nil, nil) != nil {
		return
	}
	b.mu.Lock()
	maps.DeleteFunc(b.waste, func(other *post, _ map[uint64]bool) bool { return other != p })
	var numbers []uint64
	for n := range b.waste[p] {
		numbers = append(numbers, n)
	}
	b.mu.Unlock()
	for _, n := range numbers {
		if p.call(call, "DELETE", "boxes/"+strconv.FormatUint(n, 10), nil, nil) == nil {
			b.mu.Lock()
			delete(b.waste[p], n)
			b.mu.Unlock()
		}
	}
}

// Close implements [backends.Backend]. Where the host cannot be reached its boxes end by
// themselves, after the linger time.
func (b *Backend) Close(ctx context.Context) error {
	err := b.held.Close(ctx, func(ctx context.Context, x *box) error { return x.client.Close(ctx) })
	if b.stop != nil {
		b.stop()
	}
	b.tended.Wait()
	b.turn <- struct{}{}
	p := b.post
	b.post = nil
	<-b.turn
	if p != nil {
		end, cancel := context.WithTimeout(ctx, b.conf.Timeout)
		defer cancel()
		if e := p.end(end); e != nil && !errors.Is(e, errNoStation) {
			err = errors.Join(err, fmt.Errorf("end the station on %s: %w", b.host, e))
		}
	}
	b.link.close()
	return err
}

// Sweep implements [backends.Sweeper]: it ends stations of dead owners of this machine,
// and removes what stations that died left. What Open removed counts, once.
func (b *Backend) Sweep(ctx context.Context) (int, error) {
	p, err := b.station(ctx)
	if err != nil {
		return 0, fmt.Errorf("sweep on %s: %w", b.host, err)
	}
	n, err := p.sweep(ctx)
	if err != nil {
		err = fmt.Errorf("sweep on %s: %w", b.host, err)
	}
	return n + int(b.swept.Swap(0)), err
}

func (p *post) sweep(ctx context.Context) (removed int, err error) {
	var all []station.Other
	if err := p.call(ctx, "GET", "stations", nil, &all); err != nil {
		return 0, err
	}
	boot := backends.BootID()
	var errs []error
	for _, o := range all {
		owner, err := backends.ParseOwner(o.Owner)
		gone := err == nil && boot != "" && o.Boot == boot && owner.Dead()
		if !o.Dead && !gone {
			continue
		}
		if err := p.call(ctx, "DELETE", "stations/"+o.ID, nil, nil); err != nil {
			errs = append(errs, err)
			continue
		}
		removed++
	}
	return removed, errors.Join(errs...)
}

// box is one box as we see it; the [client.Client] in front of it is what callers get.
type box struct {
	back   *Backend
	post   *post
	number uint64
	at     station.Box
	client *client.Client
}

func (x *box) dial(ctx context.Context) (net.Conn, error) { return x.post.link.dial(ctx, x.at.Socket) }

// lostCause returns an error when commands of the box ended it. It returns nil when they did
// not, or when the station does not answer.
func (x *box) lostCause(context.Context) error {
	ctx, cancel := context.WithTimeout(context.Background(), x.back.conf.Timeout)
	defer cancel()
	err := x.post.call(ctx, "GET", "boxes/"+strconv.FormatUint(x.number, 10), nil, nil)
	if errors.Is(err, backends.ErrBroken) {
		return err
	}
	return nil
}

// end removes the box. A box on a host that cannot be reached is removed later, or ends
// there by itself: that is not an error.
func (x *box) end(ctx context.Context) error {
	err := x.post.call(ctx, "DELETE", "boxes/"+strconv.FormatUint(x.number, 10), nil, nil)
	if errors.Is(err, errNoStation) {
		x.back.discard(x.post, x.number)
		err = nil
	}
	if err != nil {
		return fmt.Errorf("close box %s: %w", x.at.ID, err) // it stays in the books, to be tried again
	}
	x.back.held.Drop(x)
	return nil
}
