//go:build linux

package local

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"hermes/backends"
	"hermes/backends/slotd/host"
	"hermes/backends/slotd/wire"
	"hermes/backends/trees"
)

// Backend makes local boxes.
type Backend struct {
	conf  Config
	held  backends.Held[*box]
	swept atomic.Int64 // removed by New and not yet reported
	mine  owned

	starts *backends.Starts
}

// New returns a back-end that makes its boxes in an existing directory, from which it
// removes those of dead owners.
func New(c Config) (*Backend, error) {
	c.Dir = cmp.Or(c.Dir, os.TempDir())
	abs, err := filepath.Abs(c.Dir)
	if err != nil {
		return nil, fmt.Errorf("directory of local boxes: %w", err)
	}
	c.Dir, err = filepath.EvalSymlinks(abs)
	if err != nil {
		return nil, fmt.Errorf("directory of local boxes: %w", err)
	}
	b := &Backend{conf: c, starts: backends.NewStarts()}
	ctx, cancel := context.WithTimeout(context.Background(), sweepTime)
	defer cancel()
	n, _ := sweep(ctx, c.Dir) // what it could not remove does not hinder us; Sweep tells
	b.swept.Store(int64(n))
	return b, nil
}

// Traits implements backends.Backend.
func (b *Backend) Traits() backends.Traits {
	return backends.Traits{Name: "local", Network: "host", MemoryBy: "rlimit", Root: os.Geteuid() == 0, PTY: true,
		Notes: []string{"commands run on this machine as the user of hermes: for trusted work only",
			"memory is limited for each process alone; processes, CPUs and disk are not limited"}}
}

// Open implements backends.Backend.
func (b *Backend) Open(ctx context.Context, s backends.Spec) (backends.Sandbox, error) {
	_, end, err := b.held.Begin(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	if s.Image != "" {
		return nil, fmt.Errorf("open local box: image %q: local boxes have no images: %w", s.Image, backends.ErrImage)
	}
	if err := b.mine.take(b.conf.Dir); err != nil {
		return nil, fmt.Errorf("open local box: %w", passing(err))
	}
	base, err := os.MkdirTemp(b.conf.Dir, prefix+backends.Self().String()+"-")
	if err != nil {
		return nil, fmt.Errorf("open local box: %w", passing(err))
	}
	x, err := b.make(base, s)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open local box: %w", err), os.RemoveAll(base))
	}
	b.held.Add(x)
	return x, nil
}

// passing keeps what may be better in a while from being taken for a machine that cannot
// make boxes at all.
func passing(err error) error {
	for _, e := range []error{unix.ENOSPC, unix.EDQUOT, unix.EMFILE, unix.ENFILE, unix.ENOMEM} {
		if errors.Is(err, e) {
			return err
		}
	}
	return fmt.Errorf("%w: %w", backends.ErrUnavailable, err)
}

// make builds the box in its directory.
func (b *Backend) make(base string, s backends.Spec) (*box, error) {
	home, tmp := filepath.Join(base, "home"), filepath.Join(base, "tmp")
	for _, d := range []string{home, tmp} {
		if err := os.Mkdir(d, 0o700); err != nil {
			return nil, err
		}
	}
	env := map[string]string{"PATH": cmp.Or(b.conf.Path, wire.DefaultPath), "TMPDIR": tmp}
	maps.Copy(env, b.conf.Env)
	maps.Copy(env, s.Env)
	o := host.Options{Home: home, Dir: s.Dir, Confine: b.conf.Confine, Env: env, Grace: b.conf.Grace, Resets: true, Scratch: []string{tmp}}
	if s.Limits.Memory > 0 {
		o.Rlimits = []host.Rlimit{{Resource: unix.RLIMIT_DATA, Value: uint64(s.Limits.Memory)}}
	}
	if s.Dir != "" && !filepath.IsAbs(s.Dir) {
		if err := os.MkdirAll(filepath.Join(home, s.Dir), 0o755); err != nil {
			return nil, err
		}
	}
	h, err := host.New(o)
	if err != nil {
		return nil, err
	}
	return &box{Host: h, base: base, from: b, gone: make(chan struct{})}, nil
}

// Close implements backends.Backend.
func (b *Backend) Close(ctx context.Context) error {
	err := b.held.Close(ctx, func(ctx context.Context, x *box) error { return x.Close(ctx) })
	b.mine.release()
	return err
}

// Exec implements backends.Sandbox.
func (x *box) Exec(ctx context.Context, c backends.Cmd) (backends.Result, error) {
	leave, err := x.from.starts.Wait(ctx, "exec")
	if err != nil {
		return backends.Result{}, err
	}
	defer leave()
	return x.Host.Exec(ctx, c)
}

// box is a slotd host with its own directory.
type box struct {
	*host.Host
	base string
	from *Backend
	once sync.Once
	gone chan struct{} // closed when the box is removed
	err  error         // of the removal
}

// Close implements backends.Sandbox. A file system that does not answer holds up the removal,
// and not its caller beyond ctx.
func (x *box) Close(ctx context.Context) error {
	x.once.Do(func() { go x.remove(context.WithoutCancel(ctx)) })
	select {
	case <-x.gone:
		return x.err
	default:
	}
	ctx, cancel := context.WithTimeout(ctx, closeTime)
	defer cancel()
	select {
	case <-x.gone:
		return x.err
	case <-ctx.Done():
		return fmt.Errorf("close local box %s: it is not removed yet: %w", x.base, context.Cause(ctx))
	}
}

// remove ends the processes of the box and deletes its folder.
func (x *box) remove(ctx context.Context) {
	defer close(x.gone)
	ctx, cancel := context.WithTimeout(ctx, closeTime)
	defer cancel()
	x.err = errors.Join(x.Host.Close(ctx), trees.Remove(ctx, x.base))
	x.from.held.Drop(x)
}

// closeTime bounds the removal of a box.
const closeTime = 2 * time.Minute
