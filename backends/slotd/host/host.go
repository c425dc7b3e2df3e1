//go:build linux

package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"hermes/backends"
	"hermes/backends/slotd/pipes"
	"hermes/backends/slotd/procs"
	"hermes/backends/slotd/wire"
	"hermes/backends/trees"
)

// Rlimit is a resource limit, soft and hard, of every command (unix.RLIMIT_…).
type Rlimit struct {
	Resource int
	Value    uint64
}

// Options describe a [Host]. Home is needed; it must exist.
type Options struct {
	ID      string            // name of the box; empty: random
	Home    string            // HOME of commands, absolute
	Dir     string            // working directory; empty: Home; relative to Home
	Confine bool              // file calls cannot leave Home
	Env     map[string]string // of every command; PATH, HOME and LC_CTYPE have defaults
	Rlimits []Rlimit          // of every command, in force before it runs; with another User this needs CAP_SYS_RESOURCE
	User    *wire.User        // nil: as the host itself
	Grace   time.Duration     // between TERM and KILL at a time-out; 0: one second
	// Spawn runs once on the OS thread that starts every command, to set what threads
	// hand down to children: capabilities, no_new_privs, seccomp.
	Spawn func() error
	// Reap collects orphans that fall to this process: set it for pid 1 and subreapers.
	Reap bool
	// Resets says that the box will be reset: what lies in Home and Scratch now is noted,
	// as are mounts and listeners. Without it Reset fails.
	Resets  bool
	Scratch []string // folders beside Home that commands write to: /tmp and its like
	// Private says that every process, file system and port that this process can see is
	// the box's own, so that a reset may end, remove and judge all of it.
	Private bool
	// Made says that commands ran in the box before: Home was there, and need not be now.
	Made bool
	// OOM counts the out-of-memory kills of the box so far; nil: unknown.
	OOM func() int64
	// Adopt are commands that run already, as children of this process.
	Adopt []wire.Adopted
}

// Host runs commands and handles files where it lives. It implements
// [backends.Sandbox] and all optional abilities but snapshots.
type Host struct {
	opt    Options
	id     string
	dir    string
	root   *os.Root // Confine only
	began  uint64   // clock ticks since boot: older processes are not ours
	serial atomic.Int64
	spawn  *spawner
	stop   context.CancelFunc
	reaped sync.WaitGroup

	streams *pipes.Streams
	adopted []*Task // by the order of Options.Adopt

	base *baseline // Resets only

	files sync.RWMutex // held for reading by each step of a file call
	turns uint64       // resets begun and ended; odd during one

	mu     sync.Mutex
	closed bool
	busy   bool // being reset: nothing starts
	closes chan struct{}
	tasks  map[*Task]bool
	procs  map[string]*Process
	order  []string // of procs, oldest first
}

var (
	_ backends.Sandbox   = (*Host)(nil)
	_ backends.Starter   = (*Host)(nil)
	_ backends.Stater    = (*Host)(nil)
	_ backends.Searcher  = (*Host)(nil)
	_ backends.Copier    = (*Host)(nil)
	_ backends.Forwarder = (*Host)(nil)
	_ backends.Streamer  = (*Host)(nil)
	_ backends.Resetter  = (*Host)(nil)
)

// New returns a host that is ready for commands. Close ends it.
func New(o Options) (*Host, error) {
	if !filepath.IsAbs(o.Home) {
		return nil, fmt.Errorf("home %q is not an absolute path", o.Home)
	}
	if s, err := os.Stat(o.Home); err != nil {
		if !o.Made {
			return nil, fmt.Errorf("home of box: %w", err)
		}
	} else if !s.IsDir() && !o.Made {
		return nil, fmt.Errorf("home of box: %s is not a directory", o.Home)
	}
	o.Grace = cmp.Or(o.Grace, time.Second)
	o.Env = wire.Defaults(o.Home, o.Env)
	// What this process was itself handed open must not reach commands.
	if err := unix.CloseRange(3, 1<<31-1, unix.CLOSE_RANGE_CLOEXEC); err != nil && !errors.Is(err, unix.ENOSYS) && !errors.Is(err, unix.EINVAL) {
		return nil, fmt.Errorf("keep open files from commands: %w", err)
	}
	h := &Host{opt: o, id: cmp.Or(o.ID, wire.NewID()), dir: wire.Join(o.Home, o.Dir), began: procs.Ticks(), closes: make(chan struct{}),
		tasks: map[*Task]bool{}, procs: map[string]*Process{}, streams: pipes.New()}
	var err error
	if o.Confine {
		h.root, err = trees.FolderRoot(o.Home)
		if err != nil {
			return nil, fmt.Errorf("home of box: %w", err)
		}
	}
	h.spawn, err = newSpawner(o.Spawn)
	if err != nil {
		return nil, fmt.Errorf("prepare the thread that starts commands: %w", err)
	}
	for _, a := range o.Adopt { // before orphans are collected
		h.adopt(a)
	}
	if o.Resets {
		h.base = h.note()
	}
	ctx, stop := context.WithCancel(context.Background())
	h.stop = stop
	if o.Reap {
		h.reaped.Go(func() { h.reap(ctx) })
	}
	return h, nil
}

// ID implements backends.Sandbox.
func (h *Host) ID() string { return h.id }

// Dir is the working directory of commands.
func (h *Host) Dir() string { return h.dir }

// mark names one command of this host.
func (h *Host) mark() string { return h.id + ":" + strconv.FormatInt(h.serial.Add(1), 10) }

// Alive says why the host takes no more calls.
func (h *Host) Alive(ctx context.Context, what string) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	select {
	case <-h.closes:
		return fmt.Errorf("%s: %w", what, backends.ErrClosed)
	default:
		return nil
	}
}

// Keep remembers a connection of a caller, which Close and a reset close; false after Close.
func (h *Host) Keep(c io.Closer) bool { return h.streams.Keep(c) }

// Drop closes a connection and forgets it.
func (h *Host) Drop(c io.Closer) { h.streams.Drop(c) }

// Close ends every process of the host, also those in the background.
func (h *Host) Close(ctx context.Context) error {
	h.mu.Lock()
	if h.closed {
		h.mu.Unlock()
		return nil
	}
	h.closed = true
	close(h.closes)
	running := make([]*Task, 0, len(h.tasks))
	for t := range h.tasks {
		running = append(running, t)
	}
	h.mu.Unlock()
	left, _ := h.killBox(running)
	var errs []error
	for _, t := range running {
		select {
		case <-t.done:
		case <-ctx.Done():
			errs = append(errs, fmt.Errorf("wait for process %d of box %s: %w", t.pid, h.id, ctx.Err()))
		}
	}
	if left > 0 {
		errs = append(errs, fmt.Errorf("box %s: %d processes could not be killed", h.id, left))
	}
	h.streams.Close()
	h.spawn.close()
	h.stop()
	h.reaped.Wait()
	if h.root != nil {
		h.root.Close()
	}
	return errors.Join(errs...)
}
