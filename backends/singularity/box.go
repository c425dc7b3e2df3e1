package singularity

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"hermes/backends"
	"hermes/backends/slotd/client"
	"hermes/backends/slotd/wire"
	"hermes/backends/trees"
)

// serverPath is where slotd is in a box.
const serverPath = "/.hermes/" + wire.Name

// setupTime bounds how long a box may take to get ready on a loaded machine.
const setupTime = 2 * time.Minute

// box is an instance with a slotd in it.
type box struct {
	Client  *client.Client
	back    *Backend
	name    string
	dir     string // on the host: home, scratch folders, overlay
	control wire.HostEnd
	server  *exec.Cmd // `exec`, whose end is that of slotd
	said    *tail
	gone    chan struct{} // closed when server has ended
	once    sync.Mutex
	stopped bool
	left    atomic.Bool // its removal failed
}

func asRoot() bool { return os.Geteuid() == 0 }

// make makes a box.
func (b *Backend) make(ctx context.Context, s backends.Spec, l Limits) (*box, error) {
	image, err := b.images.ready(ctx, cmp.Or(s.Image, b.conf.Image))
	if err != nil {
		return nil, err
	}
	select {
	case b.starting <- struct{}{}:
		defer func() { <-b.starting }()
	case <-ctx.Done():
		return nil, fmt.Errorf("wait for other boxes to be started: %w", context.Cause(ctx))
	}
	x := &box{back: b, name: fmt.Sprintf("hermes-%s-%sx%d", b.owner, b.tag, b.serial.Add(1)), gone: make(chan struct{}), said: &tail{}}
	err = x.start(ctx, image, s, l)
	if err == nil {
		return x, nil
	}
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	return nil, errors.Join(fmt.Errorf("open box %s of image %s: %w", x.name, image, err), b.held.Undo(ctx, x, undoTime, x.remove))
}

// undoTime bounds how long the opener of a box that came to nothing waits for its removal.
const undoTime = 30 * time.Second

// start starts the instance and slotd in it.
func (x *box) start(ctx context.Context, image string, s backends.Spec, l Limits) error {
	if err := x.folders(); err != nil {
		return err
	}
	if err := x.back.program.start(ctx, x.startArgs(image, l)...); err != nil {
		if _, ok := errors.AsType[*failure](err); ok {
			return fmt.Errorf("%w: %w", backends.ErrUnavailable, err)
		}
		return err
	}
	if err := x.serve(); err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { x.control.Conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	if err := x.introduce(s); err != nil {
		return err
	}
	x.Client = client.New(func(context.Context) (net.Conn, error) { return x.control.Dial() },
		client.Options{ID: x.name, Close: x.end, Cause: x.lostCause})
	return nil
}

// folders makes what the box has on the host's disk.
func (x *box) folders() (err error) {
	x.dir, err = os.MkdirTemp(x.back.conf.Dir, x.name+"-")
	if err != nil {
		return fmt.Errorf("folder for a box: %w", err)
	}
	if err := checkPath(x.dir); err != nil {
		return err
	}
	for _, d := range []string{"home", "work", "overlay"} {
		if err := os.Mkdir(filepath.Join(x.dir, d), 0o755); err != nil {
			return fmt.Errorf("folder for a box: %w", err)
		}
	}
	return nil
}

// startArgs is the command line that starts the instance: nothing of the host but what is
// named here, its own processes, and no network.
func (x *box) startArgs(image string, l Limits) []string {
	c := x.back.conf
	args := []string{"instance", "start", "--containall", "--cleanenv", "--no-mount", "hostfs,bind-paths",
		"--net", "--network", "none", "--hostname", "hermes",
		"--home", x.dir + "/home:" + c.Home, "--workdir", x.dir + "/work",
		"--bind", x.back.server + ":" + serverPath + ":ro"}
	for _, p := range c.ReadOnly {
		args = append(args, "--bind", p+":"+p+":ro")
	}
	switch c.Root {
	case rootTmpfs:
		args = append(args, "--writable-tmpfs")
	case rootOverlay:
		args = append(args, "--overlay", x.dir+"/overlay")
	}
	if c.Fakeroot {
		args = append(args, "--fakeroot")
	}
	if asRoot() {
		args = append(args, "--no-privs")
	}
	if l.Memory > 0 {
		args = append(args, "--memory", strconv.FormatInt(l.Memory, 10), "--memory-swap", strconv.FormatInt(l.Memory, 10))
	}
	if l.CPUs > 0 {
		args = append(args, "--cpus", strconv.FormatFloat(l.CPUs, 'f', -1, 64))
	}
	if l.Processes > 0 {
		args = append(args, "--pids-limit", strconv.Itoa(l.Processes+reserve))
	}
	return append(args, image, x.name)
}

// reserve is what slotd itself may have beyond the processes of its commands.
const reserve = 32

// serve starts slotd in the instance, with our socket as its standard input.
func (x *box) serve() error {
	ours, theirs, err := wire.Pair()
	if err != nil {
		return err
	}
	defer theirs.Close()
	x.server = x.back.program.command(context.Background(), "exec", "--cleanenv", "--pwd", "/", "instance://"+x.name, serverPath, "box", "--stdin")
	x.server.Stdin, x.server.Stdout, x.server.Stderr = theirs, x.said, x.said
	if err := x.server.Start(); err != nil {
		ours.Close()
		return err
	}
	x.control.Conn = ours
	go func() {
		x.server.Wait()
		close(x.gone)
	}()
	return nil
}

// introduce tells slotd what it is for and waits until it is ready.
func (x *box) introduce(s backends.Spec) error {
	var space unix.Stat_t
	if err := unix.Stat("/proc/self/ns/pid", &space); err != nil {
		return fmt.Errorf("look at the own pid namespace: %w", err)
	}
	setup := wire.Setup{ID: x.name, Home: x.back.conf.Home, Dir: s.Dir, Env: maps.Clone(x.back.conf.Env), Reset: true, Apart: space.Ino}
	if setup.Env == nil {
		setup.Env = map[string]string{}
	}
	setup.Env["HOME"] = x.back.conf.Home
	maps.Copy(setup.Env, s.Env)
	raw, err := json.Marshal(setup)
	if err != nil {
		return err
	}
	conn := x.control.Conn
	conn.SetDeadline(time.Now().Add(setupTime))
	defer conn.SetDeadline(time.Time{})
	if err := wire.WriteMessage(conn, raw); err != nil {
		return fmt.Errorf("send its setup to slotd: %w %s", err, x.said)
	}
	answer, err := wire.ReadMessage(conn, 64<<10)
	if err != nil {
		return fmt.Errorf("slotd ended while it was set up: %w %s", err, x.said)
	}
	if len(answer) > 0 {
		return fmt.Errorf("set up slotd: %s", answer)
	}
	return nil
}

// lostCause returns an error when commands of the box ended it, and nil when they did not. Where
// the instance is alive and only slotd ended, only a command can have done it.
func (x *box) lostCause(context.Context) error {
	select {
	case <-x.gone:
	case <-time.After(time.Second): // only the connection went
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	i, err := x.back.program.find(ctx, x.name)
	if err != nil || i == nil || unix.Kill(i.PID, 0) != nil {
		return nil
	}
	status, _ := x.server.ProcessState.Sys().(syscall.WaitStatus)
	if code := status.ExitStatus(); code == 0 || code == 255 { // it saw the end of the socket; the program itself failed
		return nil
	}
	return fmt.Errorf("box %s: its server ended (%s): %w", x.name, x.server.ProcessState, backends.ErrBroken)
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

// remove stops the instance and removes its folders. It may be called again.
func (x *box) remove(ctx context.Context) (err error) {
	x.once.Lock()
	defer x.once.Unlock()
	if x.stopped {
		return nil
	}
	defer func() { x.left.Store(err != nil) }()
	if x.control.Conn != nil {
		x.control.Conn.Close() // ends slotd and all processes, whatever the program does
	}
	select {
	case x.back.stopping <- struct{}{}:
	case <-ctx.Done():
		return fmt.Errorf("stop box %s: wait for others to be stopped: %w", x.name, context.Cause(ctx))
	}
	err = x.back.program.stop(ctx, x.name)
	<-x.back.stopping
	if err != nil {
		return fmt.Errorf("stop box %s: %w", x.name, err)
	}
	if x.server != nil {
		select {
		case <-x.gone:
		case <-ctx.Done():
			return fmt.Errorf("stop box %s: slotd has not ended: %w", x.name, context.Cause(ctx))
		}
	}
	if x.dir != "" {
		if err := trees.RemoveAll(x.dir); err != nil {
			return fmt.Errorf("remove the folders of box %s: %w", x.name, err)
		}
	}
	x.stopped = true
	return nil
}

// tail keeps the end of what slotd says, for errors.
type tail struct {
	mu   sync.Mutex
	text []byte
}

// Write implements io.Writer.
func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, p...)
	if extra := len(t.text) - 4096; extra > 0 {
		t.text = bytes.Clone(t.text[extra:])
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return lastLines(t.text)
}
