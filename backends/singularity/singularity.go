// Package singularity makes boxes of instances of Apptainer, or of Singularity from which
// it comes: containers of an ordinary user, as on clusters where there is no engine.
//
// An instance is started from a SIF file or a folder, closed to the host in all ways that
// the program has, and slotd is started in it by `exec instance://NAME`. Its standard
// input is a socket through which hermes passes connections, so commands never pay for
// the program's own start. When hermes ends, however it does, slotd sees the end of the
// socket and takes all processes of the box with it; the empty instance that stays bears
// its owner in its name and is stopped at the next start.
//
// No command line goes through a shell.
//
// A [Backend] and its boxes are safe for concurrent use.
package singularity

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync/atomic"

	"hermes/backends"
	"hermes/backends/slotd/program"
	"hermes/backends/slotd/wire"
)

// Name is the back-end's name in configuration and traits.
const Name = "singularity"

// Surroundings are what the driver takes from the environment of hermes.
type Surroundings struct {
	Path string            // PATH
	Env  map[string]string // passed to the program, see Wanted
	Tell func(text string)
}

// Wanted picks from an environment what the program needs to find its settings, caches,
// credentials and helpers. Nothing of it reaches a box.
func Wanted(env func(string) string) map[string]string {
	m := map[string]string{}
	names := []string{"HOME", "USER", "LOGNAME", "TMPDIR", "XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS",
		"http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"}
	for _, prefix := range []string{"APPTAINER_", "SINGULARITY_"} {
		for _, name := range []string{"CONFIGDIR", "CACHEDIR", "TMPDIR", "DOCKER_USERNAME", "DOCKER_PASSWORD", "DISABLE_CACHE"} {
			names = append(names, prefix+name)
		}
	}
	for _, name := range names {
		if v := env(name); v != "" {
			m[name] = v
		}
	}
	return m
}

// environ is the environment of the program.
func (s Surroundings) environ() []string {
	env := []string{"PATH=" + s.Path}
	for k, v := range s.Env {
		env = append(env, k+"="+v)
	}
	slices.Sort(env)
	return env
}

// Kind returns the registry value of this back-end for a process with these surroundings.
func Kind(at Surroundings) backends.Kind {
	k := backends.NewKind(Name, func(ctx context.Context, c Config) (backends.Backend, error) {
		return Open(ctx, c, at)
	})
	k.Auto = 3
	k.Around = func(env func(string) string, tell func(string)) backends.Kind {
		return Kind(Surroundings{Path: env("PATH"), Env: Wanted(env), Tell: tell})
	}
	return k
}

// Backend makes boxes of instances.
type Backend struct {
	conf     Config
	program  *singular
	images   *images
	server   string // path of the program that is slotd
	forget   func() error
	owner    backends.Owner
	tag      string // tells its names from those of other back-ends of this process
	serial   atomic.Uint64
	starting chan struct{} // bounds the starts under way
	stopping chan struct{} // and the stops: each is a few processes of the program
	held     backends.Held[*box]
	swept    atomic.Int64 // removed by Open and not yet reported
}

// Open finds the program and removes what dead owners left. It fails with
// backends.ErrUnavailable and the cause where the program is not installed or cannot
// separate processes.
func Open(ctx context.Context, c Config, at Surroundings) (*Backend, error) {
	c, err := c.complete()
	if err != nil {
		return nil, fmt.Errorf("singularity back-end: %w", err)
	}
	p, err := findProgram(ctx, c.Program, at)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", backends.ErrUnavailable, err)
	}
	owner := backends.Self()
	server, forget, err := program.Find(c.Slotd, runtime.GOARCH, fmt.Sprintf("hermes-%s-0-", owner))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", backends.ErrUnavailable, err)
	}
	if err := checkPath(server); err != nil {
		return nil, errors.Join(fmt.Errorf("slotd for boxes: %w", err), forget())
	}
	b := &Backend{conf: c, program: p, server: server, forget: forget, owner: owner, tag: wire.NewID()[:6], starting: make(chan struct{}, c.Starts), stopping: make(chan struct{}, 2*c.Starts),
		images: &images{program: p, conf: c, owner: owner, tell: at.Tell, fresh: map[string]bool{}}}
	swept, err := b.sweep(ctx)
	b.swept.Store(int64(swept))
	if err != nil && at.Tell != nil {
		at.Tell("singularity: " + err.Error()) // what could not be removed does not hinder us
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
	x, err := b.make(ctx, s, limits)
	if err != nil {
		return nil, err
	}
	b.held.Add(x)
	return x.Client, nil
}

// Traits implements [backends.Backend].
func (b *Backend) Traits() backends.Traits {
	t := backends.Traits{Name: Name, Isolated: true, Network: "none", Root: b.conf.Fakeroot || asRoot(), PTY: true, Images: true,
		Notes: []string{b.program.version, "disk is not limited"}}
	if b.conf.Limits.Memory > 0 {
		t.MemoryBy = "cgroup"
	} else {
		t.Notes = append(t.Notes, "memory is not limited unless limits say so, which needs cgroups of version 2 or root")
	}
	return t
}

// Close implements [backends.Backend].
func (b *Backend) Close(ctx context.Context) error {
	err := b.held.Close(ctx, func(ctx context.Context, x *box) error {
		if x.Client != nil { // nil: it came to nothing, and its removal failed
			x.Client.Close(ctx) // an error is not lost: end tries the removal again
		}
		return x.end(ctx)
	})
	return errors.Join(err, b.forget())
}
