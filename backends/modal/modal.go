// Package modal makes boxes of sandboxes of Modal, a service.
//
// A sandbox's first process is slotd, which hermes brings into it by a command of the
// service; every connection to slotd is one more such command, whose streams are read
// and written by offset, so that one that breaks goes on where it was. Commands, files and
// searches of boxes then travel as in every other driver.
//
// A profile is an account with an environment, an image and what its boxes get. Profiles
// of one class can stand in for each other: a box goes to the least loaded one, and to
// another where a quota is reached or a token refused.
//
// Creating is safe to repeat: a sandbox has a name of ours and every call an idempotency
// key; one whose answer was lost is looked up and taken over. Sandboxes bear their owner
// in tags and end by themselves when hermes does not call.
//
// The driver was tested against a server of ours (package modaltest) that speaks the
// service's protocol, never against the service.
//
// A [Backend] and its boxes are safe for concurrent use.
package modal

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"hermes/backends"
	slotd "hermes/backends/slotd/wire"
)

// Name is the back-end's name in configuration and traits.
const Name = "modal"

// Kind returns the registry value of this back-end for a process with these surroundings.
func Kind(at Surroundings) backends.Kind {
	k := backends.NewKind(Name, func(ctx context.Context, c Config) (backends.Backend, error) {
		return Open(ctx, c, at)
	})
	k.Around = func(env func(string) string, tell func(string)) backends.Kind {
		return Kind(Surroundings{Env: env, Tell: tell})
	}
	return k
}

// Backend makes boxes of sandboxes.
type Backend struct {
	conf     Config
	profiles []*profile // by name
	accounts []*api
	upload   upload
	owner    backends.Owner
	boot     string
	tag      string // tells its names from those of other back-ends of this process
	token    func() string
	serial   atomic.Uint64
	held     backends.Held[*box]
	swept    atomic.Int64 // removed by Open and not yet reported
	stop     context.CancelFunc

	mu    sync.Mutex
	freed chan struct{} // closed at the next place that comes free
}

// Open looks every profile's app up and removes what dead owners left there. It fails
// with backends.ErrUnavailable where a token is missing or refused.
func Open(ctx context.Context, c Config, at Surroundings) (*Backend, error) {
	c, err := c.complete(at)
	if err != nil {
		return nil, err
	}
	life, stop := context.WithCancel(context.WithoutCancel(ctx))
	b := &Backend{conf: c, owner: backends.Self(), boot: backends.BootID(), tag: slotd.NewID()[:6], token: newToken, stop: stop,
		freed: make(chan struct{}), upload: upload{configured: c.Slotd}}
	b.profiles, b.accounts, err = profiles(life, c, at)
	if err != nil {
		b.Close(context.WithoutCancel(ctx))
		return nil, fmt.Errorf("%w: %w", backends.ErrUnavailable, err)
	}
	var errs []error
	for _, p := range b.profiles {
		if err := p.learn(ctx); err != nil {
			p.note(err)
			errs = append(errs, err)
		}
	}
	if err := errors.Join(errs...); err != nil && (len(errs) == len(b.profiles) || errors.Is(err, ErrAuth) || errors.Is(err, ErrRefused)) {
		b.Close(context.WithoutCancel(ctx))
		return nil, fmt.Errorf("%w: %s: %w", backends.ErrUnavailable, c.Server, err)
	}
	n, err := b.sweep(ctx)
	b.swept.Store(int64(n))
	if err = errors.Join(append(errs, err)...); err != nil {
		at.say("modal: %v", err) // the other profiles can work
	}
	return b, nil
}

// Open implements [backends.Backend]. Spec.Image is a name as of docker, an image of the
// service (im-…), dockerfile:FOLDER, or one of these behind @PROFILE/; @PROFILE alone is
// the profile's own.
func (b *Backend) Open(ctx context.Context, s backends.Spec) (backends.Sandbox, error) {
	ctx, end, err := b.held.Begin(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	among, image, err := b.wanted(s.Image)
	if err != nil {
		return nil, fmt.Errorf("open a box: image %q: %w: %w", s.Image, backends.ErrImage, err)
	}
	var errs []error
	for len(among) > 0 {
		p, err := b.pick(ctx, among)
		if err != nil {
			errs = append(errs, err)
			break
		}
		x, err := b.make(ctx, p, image, s)
		if err == nil {
			p.note(nil)
			b.held.Add(x)
			return x, nil
		}
		b.free(p)
		errs = append(errs, err)
		if ctx.Err() != nil || !p.note(err) {
			break
		}
		among = slices.DeleteFunc(slices.Clone(among), func(o *profile) bool { return o == p })
	}
	return nil, fmt.Errorf("open a box: %w", unopened(ctx, errors.Join(errs...)))
}

// Traits implements [backends.Backend].
func (b *Backend) Traits() backends.Traits {
	t := backends.Traits{Name: Name, Isolated: true, Root: true, PTY: true, Snapshot: true, Images: true, MemoryBy: "service",
		Notes: []string{"sandboxes of " + b.conf.Server}}
	var names []string
	bounded := true
	for _, p := range b.profiles {
		names = append(names, p.name)
		t.Slots += p.Max
		bounded = bounded && p.Max > 0
		if p.name == b.conf.Use || p.Class == b.conf.Use {
			if t.Network != "" && t.Network != p.Network {
				t.Notes = append(t.Notes, "profiles differ in their network: "+p.name+" has "+p.Network)
				continue
			}
			t.Network = p.Network
		}
	}
	if !bounded {
		t.Slots = 0
	}
	if len(names) > 1 {
		t.Notes = append(t.Notes, "profiles "+strings.Join(names, ", "))
	}
	return t
}

// Close implements [backends.Backend].
func (b *Backend) Close(ctx context.Context) error {
	err := b.held.Close(ctx, func(ctx context.Context, x *box) error { return x.Close(ctx) })
	b.stop()
	for _, a := range b.accounts {
		err = errors.Join(err, a.close())
	}
	return err
}
