package modal

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"

	"hermes/backends"
	"hermes/backends/modal/wire"
	"hermes/backends/slotd/client"
	slotd "hermes/backends/slotd/wire"
	"hermes/internal/late"
)

// setupTime bounds how long slotd may take to answer once it is in its sandbox, and
// pollTime is between looks.
const (
	setupTime = 2 * time.Minute
	pollTime  = 500 * time.Millisecond
	firstLook = 20 * time.Millisecond
)

// box is a sandbox with a slotd in it.
type box struct {
	*client.Client
	back  *Backend
	p     *profile
	name  string
	id    string // the service's
	route *route
	lines *lines
	ran   atomic.Bool // a command was started
	ended context.CancelFunc
	kept  sync.WaitGroup

	left   atomic.Bool // its removal has failed
	undone bool        // it came to nothing, and has no place

	removed sync.Mutex
	gone    bool
}

var (
	_ backends.Starter     = (*box)(nil)
	_ backends.Streamer    = (*box)(nil)
	_ backends.Selective   = (*box)(nil)
	_ backends.Snapshotter = (*box)(nil)
)

// make makes a box in a place of a profile.
func (b *Backend) make(ctx context.Context, p *profile, image string, s backends.Spec) (*box, error) {
	select {
	case p.making <- struct{}{}:
		defer func() { <-p.making }()
	case <-ctx.Done():
		return nil, fmt.Errorf("wait for other boxes to be made: %w", context.Cause(ctx))
	}
	if err := errors.Join(p.pace(ctx), p.learn(ctx)); err != nil {
		return nil, err
	}
	want, err := p.Settings.with(s.Limits)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrRefused, err)
	}
	if image == "" {
		image = p.Image
	}
	ready, err := p.images.ready(ctx, image)
	if err != nil {
		return nil, p.explain(err)
	}
	x := &box{back: b, p: p, name: b.name(), ended: func() {}}
	if err := x.open(ctx, x.definition(want, ready), s); err != nil {
		if codeOf(err) == codes.NotFound {
			p.images.forget(image) // the service may have dropped it
		}
		err = p.explain(fmt.Errorf("box %s of image %s: %w", x.name, image, err))
		return nil, errors.Join(err, b.held.Undo(ctx, x, b.conf.Call, func(ctx context.Context) error {
			left := x.remove(ctx)
			x.undone = left != nil
			x.left.Store(left != nil)
			return left
		}))
	}
	return x, nil
}

// name makes the name of the next sandbox.
func (b *Backend) name() string {
	return fmt.Sprintf("hermes-%s-%sx%d", b.owner, b.tag, b.serial.Add(1))
}

// definition describes the sandbox of a box.
func (x *box) definition(s Settings, image string) *wire.Sandbox {
	d := &wire.Sandbox{Entrypoint: []string{"sh", "-c", waitScript, "sh", x.program()}, ImageID: image, Name: &x.name,
		Timeout: uint32(math.Ceil(s.Timeout.Seconds())), Network: s.access()}
	if s.Idle > 0 {
		idle := uint32(math.Ceil(s.Idle.Seconds()))
		d.Idle = &idle
	}
	r := &wire.Resources{MilliCPU: uint32(s.CPUs * 1000), MemoryMB: uint32(s.Memory >> 20), DiskMB: uint32(s.Disk >> 20)}
	r.MilliCPUMax, r.MemoryMBMax = r.MilliCPU, r.MemoryMB // what is sure is also what is most
	if kind, n := s.accelerator(); kind != "" {
		r.GPU = &wire.GPU{Type: kind, Count: n}
	}
	d.Resources = r
	return d
}

// access is what boxes of a profile may reach.
func (s Settings) access() *wire.NetworkAccess {
	switch s.Network {
	case networkOpen:
		return &wire.NetworkAccess{Type: wire.NetworkOpen}
	case networkAllow:
		a := &wire.NetworkAccess{Type: wire.NetworkAllowList}
		for _, entry := range s.Allow {
			if _, err := netip.ParsePrefix(entry); err == nil {
				a.CIDRs = append(a.CIDRs, entry)
			} else {
				a.Domains = append(a.Domains, entry)
			}
		}
		return a
	}
	return &wire.NetworkAccess{Type: wire.NetworkBlocked}
}

// program is where slotd is in the sandbox.
func (x *box) program() string {
	if x.p.Program != "" {
		return x.p.Program
	}
	return serverPath
}

// open creates the sandbox and gets slotd to answer in it.
func (x *box) open(ctx context.Context, d *wire.Sandbox, s backends.Spec) error {
	err := x.create(ctx, &wire.CreateRequest{AppID: x.p.app, Definition: d, Tags: x.back.tags(s.Labels, x.p.Timeout)})
	if err != nil {
		return fmt.Errorf("create the sandbox: %w", err)
	}
	task, err := x.task(ctx)
	if err != nil {
		return fmt.Errorf("sandbox %s: %w", x.id, err)
	}
	x.route, err = newRoute(ctx, x.p.api, task, x.over)
	if err != nil {
		return fmt.Errorf("sandbox %s: the way to its commands: %w", x.id, err)
	}
	token := x.back.token()
	setup := slotd.Setup{ID: x.name, Home: x.p.Home, Dir: s.Dir, Env: maps.Clone(x.p.Env), Token: token, Alone: x.back.conf.Linger}
	maps.Copy(setup.Env, s.Env)
	if err := x.settle(ctx, setup); err != nil {
		return x.why(ctx, err)
	}
	x.lines = newLines(x.route, x.program(), "dial", socketPath)
	x.Client = client.New(x.lines.dial, client.Options{ID: x.name, Token: token, Close: x.end, Cause: x.lostCause})
	if err := x.answering(ctx); err != nil {
		return x.why(ctx, err)
	}
	life, end := context.WithCancel(context.Background())
	x.ended = end
	x.kept.Go(func() { x.keep(life) })
	return nil
}

// create makes the sandbox, once: its name is ours alone. Where the outcome is not known
// it is looked up.
func (x *box) create(ctx context.Context, want *wire.CreateRequest) error {
	for try := 1; ; try++ {
		var made wire.SandboxID
		err := x.p.api.call(ctx, wire.SandboxCreate, want, &made)
		if err == nil && made.ID != "" {
			x.id = made.ID
			return nil
		}
		if err == nil {
			err = &callError{call: wire.SandboxCreate, code: codes.Internal, text: "the answer has no id"}
		}
		exists := codeOf(err) == codes.AlreadyExists
		if !exists && (ctx.Err() != nil || !passing(err)) {
			return err
		}
		id, found := x.find(ctx)
		switch {
		case found == nil:
			x.id = id
			return nil
		case codeOf(found) != codes.NotFound || exists || try > 1:
			return errors.Join(err, found)
		}
	}
}

// find looks for the sandbox by its name.
func (x *box) find(ctx context.Context) (string, error) {
	var found wire.SandboxID
	err := x.p.api.call(ctx, wire.SandboxGetFromName, &wire.NameRequest{Name: x.name, Environment: x.p.Environment, App: x.p.App}, &found)
	return found.ID, err
}

// firstKind are the ids of sandboxes for which the service has the calls that we make.
var firstKind = late.Regexp(`^sb-[0-9A-Za-z]{22}$`)

// task waits until the sandbox has a place on a machine.
func (x *box) task(ctx context.Context) (string, error) {
	pause, wait := firstLook, float32(joinTime.Seconds())
	for {
		var t wire.TaskAnswer
		err := x.p.api.within(ctx, joinTime+x.p.api.each, wire.SandboxGetTaskID, &wire.WaitRequest{ID: x.id, Timeout: &wait}, &t)
		switch {
		case codeOf(err) == codes.DeadlineExceeded && ctx.Err() == nil: // it waits for a machine
		case codeOf(err) == codes.NotFound && !firstKind.MatchString(x.id):
			return "", fmt.Errorf("its id is not of the kind that this driver knows: %w", err)
		case err != nil:
			return "", err
		case t.Result != nil && t.Result.Status != wire.StatusRunning:
			return "", ended(t.Result, false)
		case t.TaskID != nil && *t.TaskID != "":
			return *t.TaskID, nil
		}
		if err := sleep(ctx, pause); err != nil {
			return "", fmt.Errorf("wait for a machine: %w", err)
		}
		pause = min(2*pause, pollTime)
	}
}

// answering waits for slotd.
func (x *box) answering(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, setupTime, fmt.Errorf("slotd did not answer within %v", setupTime))
	defer cancel()
	probe := client.New(x.lines.dial, client.Options{ID: x.name})
	defer probe.Close(context.WithoutCancel(ctx))
	for pause := firstLook; ; pause = min(2*pause, pollTime) {
		_, err := probe.Health(ctx)
		if err == nil {
			return nil
		}
		if r := x.result(ctx, 0); r != nil {
			return errors.Join(err, ended(r, false))
		}
		if slept := sleep(ctx, pause); slept != nil {
			return errors.Join(slept, err)
		}
	}
}

// keep calls slotd now and then, so that it knows that its maker lives.
func (x *box) keep(ctx context.Context) {
	tick := time.NewTicker(x.back.conf.Linger / 4)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			call, cancel := context.WithTimeout(ctx, x.back.conf.Linger/4)
			x.Client.Stat(call, "/") // what is wrong shows when the box is used
			cancel()
		}
	}
}

// result is how the sandbox ended. It waits for that as long as wait, and is nil when the
// sandbox still runs or the service does not answer.
func (x *box) result(ctx context.Context, wait time.Duration) *wire.Result {
	seconds := float32(wait.Seconds())
	var w wire.WaitAnswer
	err := x.p.api.within(ctx, wait+x.p.api.each, wire.SandboxWait, &wire.WaitRequest{ID: x.id, Timeout: &seconds}, &w)
	if codeOf(err) == codes.NotFound {
		return &wire.Result{Status: wire.StatusTerminated, Exception: "the service does not know it any more"}
	}
	if err != nil || w.Result == nil || w.Result.Status == wire.StatusRunning {
		return nil
	}
	return w.Result
}

// over reports that the sandbox has ended.
func (x *box) over(ctx context.Context) bool { return x.result(ctx, 0) != nil }

// why adds to an error how the sandbox ended, where it did.
func (x *box) why(ctx context.Context, err error) error {
	if r := x.result(ctx, 0); r != nil {
		return errors.Join(ended(r, false), err)
	}
	return err
}

// endTime is how long the service may take to know that a sandbox has ended.
const endTime = 2 * time.Second

// lostCause says whose fault the end of a box was: nil when it runs, or when the service does
// not answer.
func (x *box) lostCause(context.Context) error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*endTime)
	defer cancel()
	if r := x.result(ctx, endTime); r != nil {
		return fmt.Errorf("sandbox %s: %w", x.id, ended(r, x.ran.Load()))
	}
	return nil
}

// end removes the box; it is what Close of the client calls.
func (x *box) end(ctx context.Context) error {
	if err := x.remove(ctx); err != nil {
		x.left.Store(true)
		return err
	}
	if x.back.held.Drop(x) && !x.undone {
		x.back.free(x.p)
	}
	return nil
}

// Close implements backends.Sandbox. One whose removal fails stays in the books.
func (x *box) Close(ctx context.Context) error {
	if x.Client == nil {
		return x.end(ctx)
	}
	return x.Client.Close(ctx)
}

// remove ends the sandbox. One that has ended, or that the service does not know, is
// removed. One whose creation came to no known end is looked for.
func (x *box) remove(ctx context.Context) error {
	x.removed.Lock()
	defer x.removed.Unlock()
	if x.gone {
		return nil
	}
	x.ended()
	err := x.terminate(ctx)
	if x.lines != nil {
		x.lines.Close()
	}
	if x.route != nil {
		x.kept.Wait()
		x.route.conn.Close()
	}
	if err != nil {
		return fmt.Errorf("remove box %s: %w", x.name, err)
	}
	x.gone = true
	return nil
}

func (x *box) terminate(ctx context.Context) error {
	if x.id == "" {
		id, err := x.find(ctx)
		if codeOf(err) == codes.NotFound {
			return nil
		}
		if err != nil {
			return err
		}
		x.id = id
	}
	return x.p.api.terminate(ctx, x.id)
}

// terminate ends a sandbox.
func (a *api) terminate(ctx context.Context, id string) error {
	err := a.call(ctx, wire.SandboxTerminate, &wire.SandboxID{ID: id}, &wire.Empty{})
	if codeOf(err) == codes.NotFound {
		return nil
	}
	return err
}

// Has implements backends.Selective. A reset would end the lines to slotd, which the
// service runs in the box; a box is destroyed instead.
func (x *box) Has(ability any) bool {
	_, resets := ability.(*backends.Resetter)
	return !resets
}

// Exec implements backends.Sandbox.
func (x *box) Exec(ctx context.Context, c backends.Cmd) (backends.Result, error) {
	x.ran.Store(true)
	return x.Client.Exec(ctx, c)
}

// Start implements backends.Starter.
func (x *box) Start(ctx context.Context, c backends.Cmd, o backends.StartOptions) (backends.Process, error) {
	x.ran.Store(true)
	return x.Client.Start(ctx, c, o)
}

// Stream implements backends.Streamer.
func (x *box) Stream(ctx context.Context, c backends.Cmd, s backends.Streams) (backends.Result, error) {
	x.ran.Store(true)
	return x.Client.Stream(ctx, c, s)
}

// Snapshot implements backends.Snapshotter: files, without ours, environment and
// processes. The service keeps the image under its own id.
func (x *box) Snapshot(ctx context.Context, name string) (string, error) {
	fail := func(err error) error { return fmt.Errorf("snapshot %s of box %s: %w", name, x.name, err) }
	wait := float32(joinTime.Seconds())
	var s wire.SnapshotAnswer
	err := x.p.api.within(ctx, joinTime+x.p.api.each, wire.SandboxSnapshotFs, &wire.WaitRequest{ID: x.id, Timeout: &wait}, &s)
	switch {
	case err != nil:
		return "", fail(unopened(ctx, err))
	case s.Result != nil && s.Result.Status != wire.StatusSuccess:
		return "", fail(fmt.Errorf("%w (status %d): %s", ErrInternal, s.Result.Status, s.Result.Exception))
	case !strings.HasPrefix(s.ImageID, imageID):
		return "", fail(fmt.Errorf("%w: it names the image %q", ErrInternal, s.ImageID))
	}
	return "@" + x.p.name + "/" + s.ImageID, nil
}
