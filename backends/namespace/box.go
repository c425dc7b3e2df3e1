//go:build linux

package namespace

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"hermes/backends"
	"hermes/backends/egress"
	"hermes/backends/namespace/pid1"
	"hermes/backends/slotd/wire"
)

// setupTime bounds how long a box may take to get ready on a loaded machine.
const setupTime = 20 * time.Second

// serial numbers the boxes of this process.
var serial = new(atomic.Uint64)

// box is one box as the host sees it; a [sandbox] in front of it is what callers get.
type box struct {
	id       string
	back     *Backend
	proc     *os.Process
	first    *pid1.Conn
	control  wire.HostEnd
	group    *boxGroup
	plan     plan          // once it is built
	proxy    *egress.Proxy // of its way out; nil: there is none
	client   Client
	key      string           // of the plan that it was built to ahead
	mu       sync.Mutex       // of group, boxProxy, ended and failed
	boxProxy *egress.BoxProxy // nil: no way out of the box
	ended    bool             // pid 1 has; no proxy is served any more
	gone     chan struct{}    // closed when pid 1 has ended and its cgroups are removed, or cannot be
	state    *os.ProcessState // how it ended; after gone
	kills    int64            // out-of-memory kills; after gone
	failed   error            // of removing its cgroups; after gone
	meddled  string           // the hard limit of pid 1 that somebody changed, if it was killed; after gone
	closing  atomic.Bool      // we end it
	left     atomic.Bool      // its removal has failed

	starting sync.RWMutex // held for reading while pid 1 starts a command, for writing while it becomes slotd
	woken    bool         // nothing is started by pid 1 any more
	wokenErr error
	up       chan struct{} // closed when woken
	marks    atomic.Uint64
	leaving  sync.RWMutex // held for reading while a command is ended whose caller has left
	needed   atomic.Bool  // slotd was, by a call that pid 1 cannot do
	given    atomic.Bool  // to a caller, and not counted yet in what is usual
	looking  sync.Mutex   // held while stopped children are made to go on
	stuck    atomic.Int64 // when there was one last, in nanoseconds
	runs     sync.Map     // of *run by *pid1.Child: what pid 1 has started
}

// start makes a box.
func (b *Backend) start(ctx context.Context, s backends.Spec) (*box, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("open a box: %w", err)
	}
	from, err := b.image(ctx, s)
	if err != nil {
		return nil, err
	}
	p, err := b.conf.plan(s, from)
	if err != nil {
		return nil, err
	}
	image := -1
	if p.Image {
		image, err = b.openImage(&p)
		if err != nil {
			return nil, err
		}
		if image >= 0 {
			defer unix.Close(image)
		}
	}
	x, err := b.blank(ctx, b.usual.asked(p))
	if err != nil {
		return nil, err
	}
	if x.key != "" {
		return x, nil
	}
	if err := x.setUp(ctx, p, image); err != nil {
		x.end(context.WithoutCancel(ctx))
		if cause := context.Cause(ctx); cause != nil {
			return nil, fmt.Errorf("open box %s: %w", x.id, cause)
		}
		if p.Image {
			return nil, fmt.Errorf("image %q: %w: %w", cmp.Or(s.Image, b.conf.Root), backends.ErrImage, err)
		}
		return nil, unavailable(err)
	}
	return x, nil
}

// clone makes a process with its own namespaces, in cgroups without limits yet.
func (b *Backend) clone() (*box, error) {
	x := &box{id: ownLabel() + strconv.FormatUint(serial.Add(1), 10), back: b, gone: make(chan struct{}), up: make(chan struct{})}
	var err error
	x.group, err = b.groups.make(x.id)
	if err != nil {
		return nil, err
	}
	id := b.ids.next()
	if err := x.launch(b.ids.owner(id)); err != nil {
		return nil, errors.Join(unavailable(forbidden(err)), x.group.remove())
	}
	if err := b.ids.give(id, x.proc.Pid); err != nil {
		x.end(context.Background())
		return nil, unavailable(forbidden(err))
	}
	if err := x.group.enter(x.proc.Pid); err != nil {
		x.end(context.Background())
		return nil, err
	}
	return x, nil
}

// launch clones pid 1 of the box. It waits for what it is to do.
func (x *box) launch(owner int) error {
	ours, theirs, err := wire.Pair()
	if err != nil {
		return err
	}
	defer theirs.Close()
	x.proc, x.first, err = x.back.forker.clone(owner, ours, theirs, x.group.v2)
	if err != nil {
		ours.Close()
		return err
	}
	x.control.Conn = ours
	go x.await()
	return nil
}

// await collects pid 1 when it ends, whyever that is, and what the box leaves.
func (x *box) await() {
	x.meddled = x.lookBefore()
	x.state, _ = x.proc.Wait()
	x.mu.Lock()
	x.ended = true
	x.mu.Unlock()
	if x.boxProxy != nil {
		x.boxProxy.Close() // its sockets would keep the box's network alive
	}
	x.kills = x.group.kills()
	x.failed = x.group.remove()
	close(x.gone)
}

// lookBefore waits for the end of pid 1 and looks at its limits before it is collected. The
// kernel kills a process beyond its hard limit of processor time as an operator would.
func (x *box) lookBefore() string {
	for unix.Waitid(unix.P_PID, x.proc.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil) == unix.EINTR {
	}
	if x.closing.Load() {
		return ""
	}
	return meddled(x.proc.Pid)
}

// setUp puts limits on the waiting process and lets it build the box.
func (x *box) setUp(ctx context.Context, p plan, image int) error {
	if err := x.limit(p.Limits); err != nil {
		return err
	}
	p.ByRlimit = !x.back.groups.has("memory")
	var err error
	if p.Proxy {
		x.proxy, err = egress.Of(x.back.proxy, p.Network)
		if err != nil {
			return err
		}
	}
	var fds []int
	if image >= 0 {
		mapImage(image, x.proc.Pid)
		fds = []int{image}
	}
	list, err := x.back.lists.of(p, x.back.ids)
	if err != nil {
		return err
	}
	own, cancel := context.WithTimeoutCause(ctx, setupTime, errors.New("the box did not get ready in time"))
	defer cancel()
	if err := x.first.Play(own, list, fds...); err != nil {
		return fmt.Errorf("set up the box: %w", err)
	}
	x.plan = p
	x.client = x.back.connect(Server{ID: x.id, Dial: x.dial, Close: x.end, Cause: x.lostCause, Called: x.called, Silent: x.resume})
	if p.Resets || p.Proxy { // what a reset goes back to has to be seen now, and the socket of the proxy made before the first command
		return x.wake(own)
	}
	return nil
}

// limit bounds the box, unless it has ended.
func (x *box) limit(l Limits) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.ended {
		return fmt.Errorf("box %s ended before it was set up", x.id)
	}
	if l.CPUs > 0 {
		if err := x.group.addCores(x.back.groups, x.id, x.proc.Pid); err != nil {
			return err
		}
	}
	return x.group.limit(l)
}

// opens serves the proxy of the box on its socket. It ends with the box.
func (x *box) opens(l net.Listener) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.ended {
		l.Close()
		return
	}
	x.boxProxy = x.proxy.Serve(x.id, l)
}

// called notes calls that need slotd.
func (x *box) called(path string) {
	if !strings.HasPrefix(path, "exec/") {
		x.needed.Store(true)
	}
}

// dial connects to the server in the box, which it brings into being.
func (x *box) dial(ctx context.Context) (net.Conn, error) {
	if err := x.wake(ctx); err != nil {
		return nil, err
	}
	return x.control.Dial()
}

// lostCause says whose fault the end of a box was: nil when it was not its commands'.
func (x *box) lostCause(context.Context) error {
	if x.isStuck() {
		return fmt.Errorf("box %s: its commands stop others before they have started: %w", x.id, backends.ErrBroken)
	}
	select {
	case <-x.gone:
	case <-time.After(time.Second): // only the connection went
		return nil
	}
	if x.kills > 0 {
		return fmt.Errorf("box %s: its memory limit was hit and the server with it: %w", x.id, backends.ErrBroken)
	}
	if x.meddled != "" {
		return fmt.Errorf("box %s: its commands changed a limit of its server (%s), which ended: %w", x.id, x.meddled, backends.ErrBroken)
	}
	// Nothing in the box can send pid 1 a SIGKILL, or has a way to its socket; any other end came from inside.
	status, ok := x.state.Sys().(syscall.WaitStatus)
	ours := status.Signaled() && status.Signal() == syscall.SIGKILL || status.Exited() && (status.ExitStatus() == pid1.ExitHelpless || status.ExitStatus() == pid1.ExitNonsense)
	if ok && !ours {
		return fmt.Errorf("box %s: its server ended (%s): %w", x.id, x.state, backends.ErrBroken)
	}
	return nil
}

// end ends the box. With pid 1 the kernel ends every process of it, and its mounts,
// network and files vanish. A box that leaves a cgroup stays in the books: its removal is
// tried again by the next Close, by Sweep, and at the end.
func (x *box) end(ctx context.Context) error {
	x.closing.Store(true)
	x.proc.Kill()
	x.control.Conn.Close()
	if x.given.CompareAndSwap(true, false) {
		x.back.usual.ended(x.needed.Load())
	}
	x.allLeft()
	err := x.removed(ctx)
	if err != nil {
		x.left.Store(true)
		x.back.held.Add(x)
		return err
	}
	x.back.held.Drop(x)
	return nil
}

// removed waits for the end of pid 1, and removes the cgroups that could not be removed
// then.
func (x *box) removed(ctx context.Context) error {
	select {
	case <-x.gone:
	case <-ctx.Done():
		return fmt.Errorf("close box %s: %w", x.id, ctx.Err())
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.failed != nil && x.left.Load() {
		x.failed = x.group.remove()
	}
	return x.failed
}

// close ends the box and the calls of its user.
func (x *box) close(ctx context.Context) error {
	if x.client == nil { // it was made ahead, or came to nothing
		return x.end(ctx)
	}
	return x.client.Close(ctx)
}
