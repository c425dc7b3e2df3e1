package docker

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/mount"
	"github.com/docker/docker/api/types/network"

	"hermes/backends"
	"hermes/backends/egress"
	"hermes/backends/slotd/client"
	"hermes/backends/slotd/wire"
)

// box is a container with a slotd in it.
type box struct {
	*client.Client
	back     *Backend
	name     string
	control  *wire.HostEnd // nil: reached by exec
	token    string
	proxy    *egress.Proxy    // nil: none
	boxProxy *egress.BoxProxy // nil: no proxy, or not yet
	started  chan struct{}    // closed when the engine has answered to start
	ended    context.CancelFunc
	made     chan struct{} // closed when the engine has answered to create; nil before that is asked
	left     atomic.Bool   // its last removal failed
	removed  sync.Mutex
	gone     bool
}

// make makes a box.
func (b *Backend) make(ctx context.Context, s backends.Spec, l Limits) (*box, error) {
	select {
	case b.making <- struct{}{}:
		defer func() { <-b.making }()
	case <-ctx.Done():
		return nil, fmt.Errorf("wait for other boxes to be made: %w", context.Cause(ctx))
	}
	ref, err := b.images.ready(ctx, s.Image)
	if err != nil {
		return nil, err
	}
	x := &box{back: b, name: b.name(), started: make(chan struct{}), ended: func() {}}
	user, err := b.conf.user()
	if err != nil {
		return nil, err
	}
	setup := wire.Setup{ID: x.name, Home: b.conf.Home, Dir: s.Dir, Env: maps.Clone(b.conf.Env), User: user, Reset: true}
	if setup.Env == nil {
		setup.Env = map[string]string{}
	}
	x.proxy, err = egress.Of(b.proxy, s.Network)
	if err != nil {
		return nil, err
	}
	if x.proxy != nil {
		setup.ProxyPort = egress.Port
		maps.Copy(setup.Env, egress.Env())
	}
	maps.Copy(setup.Env, s.Env)
	config, host := b.container(ref, s, l)
	setUp := x.bind
	if b.copies.Load() {
		setUp = x.copy
	}
	err = setUp(ctx, setup, config, host)
	if err != nil && b.conf.Inject == "auto" && b.proxy == nil && isElsewhere(err) && !b.conf.ReadOnly {
		b.copies.Store(true) // a socket of ours, but an engine with other files
		return b.again(ctx, x, s, l)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open box %s of image %s: %w", x.name, ref, err), x.undo(ctx))
	}
	x.client()
	return x, nil
}

// Narrow implements backends.Narrower.
func (b *Backend) Narrow(network []string) error {
	_, err := egress.Of(b.proxy, network)
	return err
}

func (x *box) client() {
	x.Client = client.New(x.dial, client.Options{ID: x.name, Token: x.token, Close: x.end, Cause: x.lostCause})
}

// undoTime bounds how long the opener of a box that came to nothing waits for its removal.
const undoTime = 30 * time.Second

// undo removes a box that came to nothing. Where the engine does not let it, the box stays
// in the books, for Sweep and Close to try again.
func (x *box) undo(ctx context.Context) error {
	return x.back.held.Undo(ctx, x, undoTime, func(ctx context.Context) error {
		err := x.remove(ctx)
		if err != nil {
			x.client() // by which it is tried again
		}
		return err
	})
}

// again makes a box in the other way. The place among those being made is free again.
func (b *Backend) again(ctx context.Context, x *box, s backends.Spec, l Limits) (*box, error) {
	if err := x.undo(ctx); err != nil {
		return nil, err
	}
	<-b.making
	defer func() { b.making <- struct{}{} }()
	return b.make(ctx, s, l)
}

// isElsewhere reports the engine's complaint about a path of ours that it does not have.
func isElsewhere(err error) bool {
	return strings.Contains(err.Error(), "bind source path does not exist") || strings.Contains(err.Error(), "no such file or directory") && strings.Contains(err.Error(), "mount")
}

// maxLocked is how many bytes of memory a process of a box may lock.
const maxLocked = 1 << 20

// container describes the container of a box, less what brings slotd in.
func (b *Backend) container(ref string, s backends.Spec, l Limits) (*container.Config, *container.HostConfig) {
	pids := int64(l.Processes + reserve)
	config := &container.Config{
		Image: ref, Hostname: "hermes", User: "0:0",
		Entrypoint: []string{serverPath}, Healthcheck: &container.HealthConfig{Test: []string{"NONE"}},
		Labels: b.labels(s.Labels),
	}
	if filepath.IsAbs(s.Dir) {
		config.WorkingDir = s.Dir
	}
	host := &container.HostConfig{
		NetworkMode: container.NetworkMode(b.conf.Network),
		CapDrop:     []string{"ALL"}, CapAdd: capabilities(),
		SecurityOpt:    []string{"no-new-privileges"},
		ReadonlyRootfs: b.conf.ReadOnly,
		LogConfig:      container.LogConfig{Type: "none"},
		Runtime:        b.conf.Runtime,
		OomScoreAdj:    500, // boxes before hermes
		MaskedPaths:    masked(),
		Resources: container.Resources{
			Memory: l.Memory, MemorySwap: l.Memory, PidsLimit: &pids, NanoCPUs: int64(l.CPUs * 1e9),
			Ulimits: []*container.Ulimit{
				{Name: "nofile", Soft: int64(l.Files), Hard: int64(l.Files)},
				{Name: "core", Soft: 0, Hard: 0},
				{Name: "sigpending", Soft: int64(l.Signals), Hard: int64(l.Signals)},
				{Name: "msgqueue", Soft: l.Queues, Hard: l.Queues},
				{Name: "nice", Soft: 0, Hard: 0},
				{Name: "rtprio", Soft: 0, Hard: 0},
			},
		},
	}
	if !b.engine.podman { // where it is rootless, its own limit may be less
		host.Ulimits = append(host.Ulimits, &container.Ulimit{Name: "memlock", Soft: maxLocked, Hard: maxLocked})
	}
	if b.engine.podman {
		host.LogConfig = container.LogConfig{} // its "none" has another spelling
		host.OomScoreAdj = 0                   // a rootless one may not
		host.MaskedPaths = nil                 // podman has another list
	}
	if !b.engine.memory {
		host.Memory, host.MemorySwap = 0, 0
	}
	if l.Disk > 0 {
		host.Ulimits = append(host.Ulimits, &container.Ulimit{Name: "fsize", Soft: l.Disk, Hard: l.Disk})
	}
	switch {
	case b.conf.ReadOnly:
		home := b.conf.Home
		if home == "" {
			home = "/root"
		}
		share := "exec,mode=1777,size=" + strconv.FormatInt(max(l.Disk/4, 1<<20), 10)
		host.Tmpfs = map[string]string{home: share, "/tmp": share, "/var/tmp": share, "/run": share}
		host.ShmSize = max(l.Disk/4, 1<<20)
	case l.Disk > 0 && b.engine.quota:
		host.StorageOpt = map[string]string{"size": strconv.FormatInt(l.Disk, 10)}
	}
	return config, host
}

// bind makes the box with slotd mounted into it, and its control socket.
func (x *box) bind(ctx context.Context, s wire.Setup, config *container.Config, host *container.HostConfig) error {
	dir, err := os.MkdirTemp("", x.name+"-")
	if err != nil {
		return fmt.Errorf("folder for the socket: %w", err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "s")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Net: "unix", Name: path})
	if err != nil {
		return fmt.Errorf("socket for the box: %w", err)
	}
	defer l.Close()
	if err := os.Chmod(path, 0o666); err != nil { // root of the box may be another user of ours; the folder is closed
		return err
	}
	config.Cmd = []string{"box", "--connect", socketPath}
	host.Mounts = []mount.Mount{
		{Type: mount.TypeBind, Source: x.back.server, Target: serverPath, ReadOnly: true},
		{Type: mount.TypeBind, Source: path, Target: socketPath, ReadOnly: true},
	}
	if err := x.create(ctx, config, host); err != nil {
		return err
	}
	conn, err := x.called(ctx, l)
	if err != nil {
		return err
	}
	x.control = &wire.HostEnd{Conn: conn}
	stop := context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	if err := introduce(conn, s); err != nil || s.ProxyPort == 0 {
		return err
	}
	out, err := wire.ReceiveListener(conn)
	if err != nil {
		return err
	}
	x.boxProxy = x.proxy.Serve(x.name, out)
	go func() { // slotd says no more: what comes is the end of the box
		conn.Read(make([]byte, 1))
		x.boxProxy.Close()
	}()
	return nil
}

// introduce sends the setup and waits for slotd to be ready.
func introduce(conn *net.UnixConn, s wire.Setup) error {
	raw, err := json.Marshal(s)
	if err != nil {
		return err
	}
	conn.SetDeadline(time.Now().Add(setupTime))
	defer conn.SetDeadline(time.Time{})
	if err := wire.WriteMessage(conn, raw); err != nil {
		return fmt.Errorf("send its setup to slotd: %w", err)
	}
	answer, err := wire.ReadMessage(conn, 64<<10)
	if err != nil {
		return fmt.Errorf("slotd ended while it was set up: %w", err)
	}
	if len(answer) > 0 {
		return fmt.Errorf("set up slotd: %s", answer)
	}
	return nil
}

// called starts the container and waits for its slotd to call. The engine's answer is
// not waited for when slotd is quicker.
func (x *box) called(ctx context.Context, l *net.UnixListener) (*net.UnixConn, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, setupTime, fmt.Errorf("slotd did not call within %v", setupTime))
	defer cancel()
	failed := make(chan error, 1)
	go func() {
		defer close(x.started)
		// A start that was sent is waited for: it cannot be taken back, only followed by removal.
		if err := x.back.engine.web.ContainerStart(context.WithoutCancel(ctx), x.name, container.StartOptions{}); err != nil {
			failed <- fmt.Errorf("start: %w", err)
			l.Close()
			return
		}
		if err := x.ending(ctx); err != nil {
			failed <- err
			l.Close()
		}
	}()
	stop := context.AfterFunc(ctx, func() { l.Close() })
	defer stop()
	conn, err := l.AcceptUnix()
	if err == nil {
		return conn, nil
	}
	select {
	case err := <-failed:
		return nil, err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// create creates the container. An order that was sent is waited for by whoever removes
// the box, although the caller may leave: an engine can carry it out long after its client
// has hung up, and what it makes then must be found.
func (x *box) create(ctx context.Context, config *container.Config, host *container.HostConfig) error {
	config.Labels[labelSpec] = digest(config, host)
	answer := make(chan error, 1)
	x.made = make(chan struct{})
	go func() {
		defer close(x.made)
		own, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), setupTime, fmt.Errorf("the engine did not answer within %v", setupTime))
		defer cancel()
		answer <- x.order(own, ctx, config, host)
	}()
	select {
	case err := <-answer:
		return err
	case <-ctx.Done():
		return fmt.Errorf("create the container: %w", context.Cause(ctx))
	}
}

// awayTime is how long an engine may be away, as when it is started again,
// before no box can be made.
const (
	awayTime   = 20 * time.Second
	firstPause = 20 * time.Millisecond
)

// order asks for the container. Its name makes that safe to repeat: one whose answer was
// lost is found again, and never made twice. It is not repeated for a caller who left.
func (x *box) order(ctx, caller context.Context, config *container.Config, host *container.HostConfig) error {
	web := x.back.engine.web
	end := time.Now().Add(awayTime)
	for pause := firstPause; ; pause = min(2*pause, 2*time.Second) {
		_, err := web.ContainerCreate(ctx, config, host, &network.NetworkingConfig{}, nil, x.name)
		switch {
		case err == nil:
			return nil
		case cerrdefs.IsConflict(err):
			return x.adopt(ctx, config.Labels[labelSpec], err)
		case caller.Err() == nil && refused(err) && time.Now().Add(pause).Before(end):
			select {
			case <-time.After(pause):
			case <-caller.Done():
			}
			continue
		case cerrdefs.IsNotFound(err) && strings.Contains(strings.ToLower(err.Error()), "image"):
			x.back.images.forget(config.Image)
			return fmt.Errorf("%w: %w", backends.ErrImage, err)
		case refused(err):
			return fmt.Errorf("create the container: %w: %w", backends.ErrUnavailable, err)
		}
		return fmt.Errorf("create the container: %w", err)
	}
}

// adopt takes over a container of our name, if it is just as we wanted it.
func (x *box) adopt(ctx context.Context, spec string, conflict error) error {
	c, err := x.back.engine.web.ContainerInspect(ctx, x.name)
	if err != nil {
		return fmt.Errorf("create the container: %w (%w)", conflict, err)
	}
	if c.Config == nil || c.Config.Labels[labelSpec] != spec || c.State == nil || c.State.Status != container.StateCreated {
		return fmt.Errorf("create the container: another one has its name: %w", conflict)
	}
	return nil
}

// digest identifies what a container was made from.
func digest(config *container.Config, host *container.HostConfig) string {
	raw, _ := json.Marshal([]any{config, host})
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:])
}

// dial connects to slotd.
func (x *box) dial(ctx context.Context) (net.Conn, error) {
	if x.control != nil {
		return x.control.Dial()
	}
	return x.dialExec(ctx)
}

// ending returns an error when the container ends before ctx does.
func (x *box) ending(ctx context.Context) error {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		c, err := x.back.engine.web.ContainerInspect(ctx, x.name)
		if err == nil && c.State != nil && !c.State.Running && c.State.Status != container.StateCreated {
			return fmt.Errorf("its first process ended at once (exit code %d) %s", c.State.ExitCode, c.State.Error)
		}
	}
}

// lostCause says whose fault the end of a box was: nil when it was not its commands'. The
// engine is asked, for a short while: where it does not answer, it was ours.
func (x *box) lostCause(context.Context) error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		c, err := x.back.engine.web.ContainerInspect(ctx, x.name)
		if err != nil || c.State == nil {
			return nil
		}
		if !c.State.Running {
			return blame(x.name, c.State)
		}
		select {
		case <-ctx.Done():
			return nil // it runs: only the connection went
		case <-tick.C:
		}
	}
}

// blame reads the end of a container, whose first process is slotd.
func blame(name string, s *container.State) error {
	switch {
	case s.OOMKilled:
		return fmt.Errorf("box %s: its memory limit was hit and the server with it: %w", name, backends.ErrBroken)
	case s.Error == "" && wire.EndedByCommands(s.ExitCode):
		return fmt.Errorf("box %s: its server ended with exit code %d: %w", name, s.ExitCode, backends.ErrBroken)
	}
	return nil
}

// end removes the box; it is what Close of the client calls. One that could not be removed
// stays in the books: it is tried again by the next Close, by Sweep, and at the end.
func (x *box) end(ctx context.Context) error {
	err := x.remove(ctx)
	if err == nil {
		x.back.held.Drop(x)
	}
	return err
}

// remove ends the container and removes it. A container that is gone is removed.
func (x *box) remove(ctx context.Context) (err error) {
	x.removed.Lock()
	defer x.removed.Unlock()
	if x.gone {
		return nil
	}
	defer func() { x.left.Store(err != nil) }()
	x.ended()
	if x.control != nil {
		x.control.Conn.Close() // ends slotd, whatever the engine does
	}
	if x.boxProxy != nil {
		x.boxProxy.Close()
	}
	if x.made != nil {
		select {
		case <-x.made:
		case <-ctx.Done():
			return fmt.Errorf("remove box %s: it is still being made: %w", x.name, context.Cause(ctx))
		}
	}
	if err := x.back.engine.remove(ctx, x.name); err != nil {
		return fmt.Errorf("remove box %s: %w", x.name, err)
	}
	x.gone = true
	return nil
}

// Unwrap implements backends.Unwrapper.
func (x *box) Unwrap() backends.Sandbox { return x.Client }

// Snapshot implements backends.Snapshotter: files, without what lies in memory (such as
// /dev/shm, and home of a read-only box), without environment and processes.
func (x *box) Snapshot(ctx context.Context, name string) (string, error) {
	ref := "hermes-snapshot:" + name
	_, err := x.back.engine.web.ContainerCommit(ctx, x.name, container.CommitOptions{Reference: ref, Pause: true,
		Changes: []string{"ENTRYPOINT []", "CMD []", "LABEL " + labelOwner + "= " + labelKind + "=" + kindSnapshot}})
	if err != nil {
		return "", fmt.Errorf("snapshot %s of box %s: %w", name, x.name, err)
	}
	return ref, nil
}
