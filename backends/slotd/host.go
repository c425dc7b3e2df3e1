package slotd

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
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
	"hermes/backends/trees"
)

// MarkEnv is the variable by which the processes of a command are found again.
const MarkEnv = "HERMES_EXEC"

// DefaultPath is where programs are looked for when Options.Env has no PATH.
const DefaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// Bounds where a caller names none.
const (
	defaultOutput = 1 << 20  // bytes of each stream of a command
	defaultRead   = 64 << 20 // bytes of a file
)

// Rlimit is a resource limit, soft and hard, of every command (unix.RLIMIT_…).
type Rlimit struct {
	Resource int
	Value    uint64
}

// User is the uid and gid of commands and of the files they own.
type User struct{ UID, GID uint32 }

// Options describe a [Host]. Home is needed; it must exist.
type Options struct {
	ID      string            // name of the box; empty: random
	Home    string            // HOME of commands, absolute
	Dir     string            // working directory; empty: Home; relative to Home
	Confine bool              // file calls cannot leave Home
	Env     map[string]string // of every command; PATH, HOME and LANG have defaults
	Rlimits []Rlimit          // of every command, in force before it runs; with another User this needs CAP_SYS_RESOURCE
	User    *User             // nil: as the host itself
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
	Adopt []Adopted
}

// Adopted is a command that was started by what this program was executed in the place of.
// Its outputs are somebody else's.
type Adopted struct {
	Exec string        `json:"exec"` // the id by which its end can be asked for
	Mark string        `json:"mark"` // its MarkEnv
	PID  int           `json:"pid"`
	Left time.Duration `json:"left_ns,omitempty"` // until its time is over; 0: it has no limit
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

	streams *Streams
	adopted []*task // by the order of Options.Adopt

	base *baseline // Resets only

	files sync.RWMutex // held for reading by each step of a file call
	turns uint64       // resets begun and ended; odd during one

	mu     sync.Mutex
	closed bool
	busy   bool // being reset: nothing starts
	closes chan struct{}
	tasks  map[*task]bool
	procs  map[string]*process
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

// NewHost returns a host that is ready for commands. Close ends it.
func NewHost(o Options) (*Host, error) {
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
	o.Env = Defaults(o.Home, o.Env)
	// What this process was itself handed open must not reach commands.
	if err := unix.CloseRange(3, 1<<31-1, unix.CLOSE_RANGE_CLOEXEC); err != nil && !errors.Is(err, unix.ENOSYS) && !errors.Is(err, unix.EINVAL) {
		return nil, fmt.Errorf("keep open files from commands: %w", err)
	}
	h := &Host{opt: o, id: cmp.Or(o.ID, NewID()), dir: at(o.Home, o.Dir), began: ticks(), closes: make(chan struct{}),
		tasks: map[*task]bool{}, procs: map[string]*process{}, streams: NewStreams()}
	var err error
	if o.Confine {
		if h.root, err = trees.FolderRoot(o.Home); err != nil {
			return nil, fmt.Errorf("home of box: %w", err)
		}
	}
	if h.spawn, err = newSpawner(o.Spawn); err != nil {
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

// NewID returns a random name for a box or an exec.
func NewID() string {
	b := make([]byte, 8)
	rand.Read(b)
	return hex.EncodeToString(b)
}

// ID implements backends.Sandbox.
func (h *Host) ID() string { return h.id }

// Dir is the working directory of commands.
func (h *Host) Dir() string { return h.dir }

// at resolves a path against a directory without touching symbolic links.
func at(dir, path string) string {
	switch {
	case path == "":
		return dir
	case filepath.IsAbs(path):
		return path
	}
	return dir + "/" + path
}

// mark names one command of this host.
func (h *Host) mark() string { return h.id + ":" + strconv.FormatInt(h.serial.Add(1), 10) }

// alive says why the host takes no more calls.
func (h *Host) alive(ctx context.Context, what string) error {
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

// keep remembers a connection of a caller, which Close and a reset close; false after Close.
func (h *Host) keep(c io.Closer) bool { return h.streams.keep(c) }

// drop closes a connection and forgets it.
func (h *Host) drop(c io.Closer) { h.streams.drop(c) }

// Close ends every process of the host, also those in the background.
func (h *Host) Close(ctx context.Context) error {
	h.mu.Lock()
	if h.closed {
		h.mu.Unlock()
		return nil
	}
	h.closed = true
	close(h.closes)
	running := make([]*task, 0, len(h.tasks))
	for t := range h.tasks {
		running = append(running, t)
	}
	h.mu.Unlock()
	left := h.killBox(running)
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
