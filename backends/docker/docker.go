// Package docker makes boxes of containers of a Docker engine, or of podman where its
// socket speaks the same API.
//
// A container's first process is slotd, mounted into it. Commands, files and searches
// never pass the engine, which only creates and removes. With an engine on this
// machine slotd calls hermes on a socket that is mounted into the container and removed
// once it was used; connections are passed through it as descriptors. Containers end
// with their hermes, also when it is killed; what is left of them is removed at the next
// start. With an engine elsewhere slotd is copied in and reached by the engine's exec,
// with a token. Such a box ends after a time without calls.
//
// Containers have no network unless one is named, no capabilities but those that
// installing packages needs, no new privileges, the engine's seccomp filter, and bounds
// of memory, processes and cores.
//
// A [Backend] and its boxes are safe for concurrent use.
package docker

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/docker/docker/client"

	"hermes/backends"
	"hermes/backends/egress"
	"hermes/backends/slotd/program"
	"hermes/backends/slotd/wire"
)

// Name is the back-end's name in configuration and traits.
const Name = "docker"

// Kind returns the registry value of this back-end on a machine described by at.
func Kind(at Surroundings) backends.Kind {
	k := backends.NewKind(Name, func(ctx context.Context, c Config) (backends.Backend, error) {
		return Open(ctx, c, at)
	})
	k.Auto = 2 // it finds podman too
	k.Egress = true
	k.Filters = true
	k.Around = func(env func(string) string, tell func(string)) backends.Kind {
		config := env("DOCKER_CONFIG")
		if home := env("HOME"); config == "" && home != "" {
			config = filepath.Join(home, ".docker")
		}
		return Kind(Surroundings{Host: env("DOCKER_HOST"), Certs: env("DOCKER_CERT_PATH"), ConfigDir: config, RuntimeDir: env("XDG_RUNTIME_DIR"), Tell: tell})
	}
	return k
}

// Backend makes boxes of containers.
type Backend struct {
	conf   Config
	engine *engine
	images *images
	proxy  *egress.Proxy // nil: no way out but the engine's network
	server string        // path of the program that is slotd
	forget func() error
	owner  backends.Owner
	tag    string // tells its names from those of other back-ends of this process
	serial atomic.Uint64
	copies atomic.Bool   // slotd is copied into containers, not mounted
	alone  time.Duration // ends a copied slotd after this time without calls
	making chan struct{} // bounds the creations under way
	held   backends.Held[*box]
	swept  atomic.Int64 // removed by Open and not yet reported
	stop   context.CancelFunc
}

// Open connects to an engine and removes what dead owners left there. It fails with
// backends.ErrUnavailable and the cause where there is no engine that answers.
func Open(ctx context.Context, c Config, at Surroundings) (*Backend, error) {
	c, err := c.complete()
	if err != nil {
		return nil, fmt.Errorf("%w", err)
	}
	e, err := connect(ctx, c, at)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", backends.ErrUnavailable, err)
	}
	if err := e.can(ctx, c); err != nil {
		e.web.Close()
		return nil, fmt.Errorf("%w: engine %s: %w", backends.ErrUnavailable, e.host, err)
	}
	owner := backends.Self()
	server, forget, err := program.Find(c.Slotd, e.arch, fmt.Sprintf("hermes-%s-0-", owner)) // swept like the folders of boxes
	if err != nil {
		e.web.Close()
		return nil, fmt.Errorf("%w: %w", backends.ErrUnavailable, err)
	}
	life, stop := context.WithCancel(context.WithoutCancel(ctx))
	b := &Backend{conf: c, engine: e, server: server, forget: forget, owner: owner, tag: wire.NewID()[:6], making: make(chan struct{}, c.Creates), alone: alone, stop: stop,
		images: &images{life: life, engine: e, conf: c, config: at.ConfigDir, tell: at.Tell, known: map[string]*readied{}}}
	if c.Egress.On() {
		if !e.local {
			err = fmt.Errorf("egress: %s is not on this machine, and the proxy works here only", c.Host)
		} else {
			b.proxy, err = egress.New(c.Egress, "backends.docker.egress", egress.Outside{})
		}
		if err != nil {
			return nil, errors.Join(err, b.Close(context.WithoutCancel(ctx)))
		}
	}
	b.copies.Store(c.Inject == "copy" || c.Inject == "auto" && !e.local)
	swept, err := e.sweep(ctx)
	b.swept.Store(int64(swept))
	if err != nil {
		at.say("docker: %v", err) // what it could not remove does not hinder us
	}
	return b, nil
}

// Open implements [backends.Backend].
func (b *Backend) Open(ctx context.Context, s backends.Spec) (backends.Sandbox, error) {
	ctx, end, err := b.held.Begin(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	limits, err := b.conf.Limits.with(s.Limits)
	if err != nil {
		return nil, fmt.Errorf("open a box: %w", err)
	}
	if limits.Disk > 0 && !b.conf.ReadOnly && !b.engine.quota {
		return nil, fmt.Errorf("open a box with %d bytes of disk: %w: %w", limits.Disk, backends.ErrUnavailable, b.engine.noQuota())
	}
	x, err := b.make(ctx, s, limits)
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = errors.Join(cause, err)
		}
		return nil, err
	}
	b.held.Add(x)
	return x, nil
}

// Traits implements [backends.Backend].
func (b *Backend) Traits() backends.Traits {
	t := backends.Traits{Name: Name, Isolated: true, Network: b.conf.Network, Root: b.conf.User == "", PTY: true, Snapshot: true, Images: true}
	t.Notes = append(t.Notes, b.engine.about())
	if b.proxy != nil {
		t.Network = "allow-list"
	}
	if b.engine.memory {
		t.MemoryBy = "cgroup"
	} else {
		t.Notes = append(t.Notes, "the engine cannot limit memory")
	}
	switch {
	case b.conf.ReadOnly:
		t.Notes = append(t.Notes, "the root is read-only; home and scratch folders are in memory, of a bounded size")
	case !b.engine.quota:
		t.Notes = append(t.Notes, "disk is not limited: storage driver "+b.engine.storage)
	}
	t.Notes = append(t.Notes, b.engine.warnings...)
	return t
}

// Close implements [backends.Backend].
func (b *Backend) Close(ctx context.Context) error {
	err := b.held.Close(ctx, func(ctx context.Context, x *box) error { return x.Close(ctx) })
	b.stop()
	b.images.work.Wait()
	if b.proxy != nil {
		err = errors.Join(err, b.proxy.Close())
	}
	return errors.Join(err, b.forget(), b.engine.web.Close())
}

// name makes the name of the next container.
func (b *Backend) name() string {
	return fmt.Sprintf("hermes-%s-%sx%d", b.owner, b.tag, b.serial.Add(1))
}

// Where things of ours are in a container.
const (
	inside     = "/.hermes"
	serverPath = inside + "/" + wire.Name
	socketPath = inside + "/socket"
	setupPath  = inside + "/setup"
)

// Limits with which a box can work at all.
const (
	minMemory    = 32 << 20
	minProcesses = 16
	minDisk      = 1 << 20
)

// reserve is what slotd itself may have beyond the processes of its commands.
const reserve = 32

// setupTime bounds how long a container may take to get ready on a loaded machine.
const setupTime = 2 * time.Minute

// refused reports errors that say that no engine answered.
func refused(err error) bool {
	return client.IsErrConnectionFailed(err) || strings.Contains(err.Error(), "EOF") || strings.Contains(err.Error(), "connection reset")
}

// capabilities are what installing packages as root of a box needs, and what slotd needs to
// end processes of other users. Only slotd keeps SETPCAP, not its commands: the kernel lets no
// process change priority, scheduling or cores of one that has a capability which it lacks.
func capabilities() []string {
	return slices.Clone([]string{"CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "SETGID", "SETPCAP", "SETUID"})
}
