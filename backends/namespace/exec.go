//go:build linux

package namespace

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"hermes/backends"
	"hermes/backends/namespace/pid1"
	"hermes/backends/slotd/pipes"
	"hermes/backends/slotd/wire"
)

// sandbox is a box as callers see it. As long as nothing but commands and plain files was asked
// for, pid 1 does that itself; slotd takes its place at the first call of any other kind, and when a
// command has to be ended, for which its whole tree must be found.
type sandbox struct {
	Client
	box *box
}

// Unwrap implements [backends.Unwrapper]: the client has the other abilities.
func (s *sandbox) Unwrap() backends.Sandbox { return s.Client }

// errAwake says that slotd has taken the place of pid 1.
var errAwake = errors.New("slotd serves the box")

// Exec implements [backends.Sandbox].
func (s *sandbox) Exec(ctx context.Context, c backends.Cmd) (backends.Result, error) {
	leave, err := s.box.back.starts.Wait(ctx, "exec")
	if err != nil {
		return backends.Result{}, err
	}
	defer leave()
	s.box.allLeft()
	r, err := s.box.exec(ctx, c)
	if errors.Is(err, errAwake) || errors.Is(err, pid1.ErrRefused) || errors.Is(err, pid1.ErrTooLong) { // nothing of the command ran
		return s.Client.Exec(ctx, c)
	}
	return r, err
}

// run is a command that pid 1 has started.
type run struct {
	child    *pid1.Child
	mark     string
	deadline time.Time // zero: none
}

// exec is the id under which slotd is asked about the run, when it has adopted it.
func (r *run) exec() string { return "first-" + strconv.FormatUint(r.child.ID, 10) }

// exec runs a command as a child of pid 1.
func (x *box) exec(ctx context.Context, c backends.Cmd) (backends.Result, error) {
	if err := ctx.Err(); err != nil {
		return backends.Result{}, fmt.Errorf("exec: %w", err)
	}
	if (len(c.Argv) > 0) == (c.Shell != "") {
		return backends.Result{}, errAwake // slotd says what is wrong with it
	}
	if (c.Report != "" || c.Alone) && !x.empty() {
		return backends.Result{}, errAwake // slotd tells processes apart, and ends them
	}
	select {
	case <-x.up:
		return backends.Result{}, errAwake
	default:
	}
	began, before := time.Now(), x.group.kills()
	mark := x.id + ":first-" + strconv.FormatUint(x.marks.Add(1), 10)
	list := x.command(c, mark)
	r, err := x.back.streams.Run(c, func(f pipes.Files) (func() (backends.Result, error), error) {
		x.starting.RLock()
		defer x.starting.RUnlock()
		if x.woken {
			return nil, errAwake
		}
		fds := []int{int(f.In.Fd()), int(f.Out.Fd()), int(f.Err.Fd())}
		for _, more := range []*os.File{f.Kept, f.Report} { // in the order of the slots of x.command
			if more != nil {
				fds = append(fds, int(more.Fd()))
			}
		}
		child, err := x.first.Start(list, fds...)
		if errors.Is(err, pid1.ErrGone) {
			return nil, x.client.Lost(ctx, "exec", err)
		}
		if err != nil {
			return nil, err
		}
		run := &run{child: child, mark: mark}
		if c.Timeout > 0 {
			run.deadline = began.Add(c.Timeout)
		}
		x.runs.Store(child, run)
		return func() (backends.Result, error) {
			r, err := x.follow(ctx, run)
			if err == nil && c.Report != "" {
				r.Left, err = x.endLeft(ctx)
			}
			return r, err
		}, nil
	})
	if err == nil {
		r.OOM = r.OOM || x.group.kills() > before
	}
	return r, err
}

// empty says that nothing runs in the box. What a command leaves running is a child of pid
// 1, or of one.
func (x *box) empty() bool {
	pid := strconv.Itoa(x.proc.Pid)
	files, err := filepath.Glob("/proc/" + pid + "/task/*/children")
	return err == nil && len(files) > 0 && len(childrenOf(pid)) == 0 // a kernel may not tell
}

// endLeft ends what a command left running, and says how many processes that were.
func (x *box) endLeft(ctx context.Context) (int, error) {
	if x.empty() {
		return 0, nil
	}
	r, err := x.client.Exec(ctx, backends.Cmd{Argv: []string{"true"}, Dir: "/", Alone: true, Timeout: time.Minute})
	return r.Ended, err
}

// follow waits for the end of a command. One whose time is over, or whose caller leaves, is
// slotd's to end. The caller does not wait for that: where thousands leave at once, most
// close their boxes next, which is the end of all that is in them.
func (x *box) follow(ctx context.Context, r *run) (backends.Result, error) {
	var over <-chan time.Time
	if !r.deadline.IsZero() {
		timer := time.NewTimer(time.Until(r.deadline))
		defer timer.Stop()
		over = timer.C
	}
	late := time.AfterFunc(stuckAfter, x.continueStopped)
	defer late.Stop()
	select {
	case end, ok := <-r.child.Ended:
		return x.reported(ctx, r, end, ok)
	case <-over:
	case <-ctx.Done():
		x.leave(r)
		return backends.Result{}, x.client.Lost(ctx, "exec", context.Cause(ctx))
	case <-x.up:
	}
	if err := x.wake(ctx); err != nil {
		x.runs.Delete(r.child)
		return backends.Result{}, x.client.Lost(ctx, "exec", err)
	}
	select {
	case end, ok := <-r.child.Ended: // before slotd was there
		return x.reported(ctx, r, end, ok)
	default:
	}
	defer x.runs.Delete(r.child)
	return x.client.Join(ctx, r.exec())
}

// leave ends a command whose caller has left, before the next one begins.
func (x *box) leave(r *run) {
	x.leaving.RLock()
	go func() { // end waits for it, by the lock
		defer x.leaving.RUnlock()
		defer x.runs.Delete(r.child)
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		if x.wake(ctx) == nil {
			x.client.Join(ctx, r.exec()) // ctx has ended, so slotd ends the command
		}
	}()
}

// allLeft waits until what callers left behind has been ended.
func (x *box) allLeft() {
	x.leaving.Lock()
	defer x.leaving.Unlock()
}

// reported returns the result of a command whose end pid 1 has reported.
func (x *box) reported(ctx context.Context, r *run, end pid1.Report, ok bool) (backends.Result, error) {
	x.runs.Delete(r.child)
	if !ok {
		return backends.Result{}, x.client.Lost(ctx, "exec", pid1.ErrGone)
	}
	status, used, err := r.child.Exit(end)
	if err != nil {
		return backends.Result{}, err
	}
	return pipes.Ended(status, used), nil
}

// wake makes slotd of pid 1, which stays what it is: the same process with the same
// children and the same socket. It is not ended by ctx: others wait for it too.
func (x *box) wake(ctx context.Context) error {
	x.starting.Lock()
	defer x.starting.Unlock()
	if x.woken {
		return x.wokenErr
	}
	ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), setupTime, errors.New("slotd did not start in time"))
	defer cancel()
	x.woken, x.wokenErr = true, x.become(ctx)
	if x.wokenErr != nil {
		x.wokenErr = fmt.Errorf("bring slotd into box %s: %w", x.id, x.wokenErr)
		x.proc.Kill() // half of it is of no use to anybody
	}
	close(x.up)
	return x.wokenErr
}

// become has pid 1 execute slotd, and hands it what runs.
func (x *box) become(ctx context.Context) error {
	s := settings{Plan: x.plan, ID: x.id}
	fds := []int{int(x.back.forker.file.Fd())}
	if x.group.oom != "" {
		counter, err := os.Open(x.group.oom)
		if err != nil {
			return err
		}
		defer counter.Close()
		s.Counter, fds = true, append(fds, int(counter.Fd()))
	}
	children, err := x.children(ctx)
	if err != nil {
		return err
	}
	for _, child := range children {
		v, ok := x.runs.Load(child)
		if !ok {
			continue // its caller is gone already
		}
		r := v.(*run)
		a := wire.Adopted{Exec: r.exec(), Mark: r.mark, PID: child.PID}
		if !r.deadline.IsZero() {
			a.Left = max(time.Until(r.deadline), 1)
		}
		s.Running = append(s.Running, a)
	}
	raw, err := json.Marshal(s)
	if err != nil {
		return fmt.Errorf("encode the settings of a server: %w", err)
	}
	if len(raw) > maxSettings {
		return fmt.Errorf("the settings of a server have %d bytes, more than %d: too large an environment", len(raw), maxSettings)
	}
	complaint, err := x.first.Become(ctx, become(s.Counter), wire.Message(raw), fds...)
	if errors.Is(err, fs.ErrNotExist) { // not of the file, which is open, but of what it names as its loader
		err = fmt.Errorf("%w: a hermes that is linked dynamically does not run in every box; build it with make build, or CGO_ENABLED=0", err)
	}
	if err != nil {
		return err
	}
	if complaint != "" {
		return errors.New(complaint)
	}
	if !x.plan.Proxy {
		return nil
	}
	l, err := wire.ReceiveListener(x.control.Conn)
	if err != nil {
		return err
	}
	x.opens(l)
	return nil
}

// maxSettings bounds the settings of a server.
const maxSettings = 8 << 20
