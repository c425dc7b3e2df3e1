//go:build linux

package host

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"hermes/backends"
	"hermes/backends/slotd/pipes"
	"hermes/backends/slotd/procs"
	"hermes/backends/slotd/wire"
)

// Task is one started command.
type Task struct {
	mark  string
	pid   int
	since uint64
	began time.Time
	ooms  int64
	done  chan struct{}   // closed when the command itself has ended
	ended unix.WaitStatus // how, and what it used; after done
	used  unix.Rusage
	void  atomic.Bool // a reset ended it: there is no result
}

// stdio are the files with which a command starts.
type stdio struct {
	pipes.Files
	tty bool
}

// launch starts a command. A refusal is the command's fault, any other error the box's.
func (h *Host) launch(ctx context.Context, c backends.Cmd, s stdio) (*Task, error) {
	env := wire.Environ(h.opt.Env, c)
	argv, err := words(c, env["PATH"])
	if err != nil {
		return nil, err
	}
	dir := wire.Join(h.dir, c.Dir)
	if st, err := os.Stat(dir); err != nil || !st.IsDir() {
		return nil, pipes.Refuse(126, fmt.Sprintf("%s: not a directory that can be entered", dir))
	}
	prog, err := lookup(argv[0], dir, env["PATH"])
	if err != nil {
		return nil, err
	}
	t := &Task{mark: h.mark(), done: make(chan struct{}), began: time.Now(), since: procs.Ticks()}
	if h.opt.OOM != nil {
		t.ooms = h.opt.OOM()
	}
	env[wire.MarkEnv] = t.mark
	if s.Report != nil {
		env[c.Report] = wire.ReportPath
	}
	attr := &syscall.ProcAttr{Dir: dir, Env: wire.Pairs(env), Files: []uintptr{s.In.Fd(), s.Out.Fd(), s.Err.Fd()},
		Sys: &syscall.SysProcAttr{Setsid: true, Setctty: s.tty}}
	if s.Report != nil {
		attr.Files = append(attr.Files, s.Report.Fd())
	}
	if s.Kept != nil {
		for len(attr.Files) < backends.KeptFD {
			attr.Files = append(attr.Files, ^uintptr(0)) // not open
		}
		attr.Files = append(attr.Files, s.Kept.Fd())
	}
	if u := h.opt.User; u != nil {
		attr.Sys.Credential = &syscall.Credential{Uid: u.UID, Gid: u.GID}
	}
	h.mu.Lock() // the reaper must not see the child before it is known
	defer h.mu.Unlock()
	if h.closed || h.busy {
		return nil, fmt.Errorf("start %q: %w", argv[0], backends.ErrClosed)
	}
	if _, err := h.turn(ctx, "start"); err != nil {
		return nil, err
	}
	stop := continueStopped()
	for range startTries {
		t.pid, err = h.spawn.start(prog, argv, attr, h.opt.Rlimits)
		if !errors.Is(err, errNoCommand) {
			break
		}
	}
	stop()
	runtime.KeepAlive(s)
	if err != nil {
		return nil, startFault(argv[0], err)
	}
	h.tasks[t] = true
	go h.await(t)
	return t, nil
}

// adopt makes a command of a child that runs.
func (h *Host) adopt(a wire.Adopted) {
	t := &Task{mark: a.Mark, pid: a.PID, done: make(chan struct{}), began: time.Now()}
	if e, ok := procs.Read(a.PID); ok { // one that is over is to be collected all the same
		t.since = e.Began
	}
	if h.opt.OOM != nil {
		t.ooms = h.opt.OOM()
	}
	h.tasks[t] = true
	h.adopted = append(h.adopted, t)
	go h.await(t)
}

// AdoptedTask is the i-th of Options.Adopt.
func (h *Host) AdoptedTask(i int) *Task { return h.adopted[i] }

// await collects the command when it ends.
func (h *Host) await(t *Task) {
	ended, used, _ := collect(t.pid)
	h.mu.Lock()
	t.ended, t.used = ended, used
	delete(h.tasks, t)
	close(t.done)
	h.mu.Unlock()
}

// startFault sorts errors of fork and exec.
func startFault(name string, err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist): // the interpreter of a script is missing
		return pipes.Refuse(127, fmt.Sprintf("%s: cannot be run: %v", name, cause(err)))
	case errors.Is(err, unix.EAGAIN), errors.Is(err, unix.ENOMEM), errors.Is(err, errNoCommand): // only the box's commands can cause it
		return fmt.Errorf("start %q: %w: %w", name, backends.ErrBroken, err)
	case errors.Is(err, os.ErrClosed):
		return fmt.Errorf("start %q: %w", name, backends.ErrClosed)
	case errors.Is(err, unix.EACCES), errors.Is(err, unix.ENOEXEC), errors.Is(err, unix.E2BIG),
		errors.Is(err, unix.EINVAL), errors.Is(err, unix.ETXTBSY), errors.Is(err, unix.ELIBBAD),
		errors.Is(err, unix.ELOOP), errors.Is(err, unix.ENAMETOOLONG), errors.Is(err, unix.ENOTDIR):
		return pipes.Refuse(126, fmt.Sprintf("%s: cannot be run: %v", name, cause(err)))
	}
	return fmt.Errorf("start %q: %w", name, err)
}

// cause is the innermost error.
func cause(err error) error {
	for {
		next := errors.Unwrap(err)
		if next == nil {
			return err
		}
		err = next
	}
}

// words is the argument vector of a command.
func words(c backends.Cmd, path string) ([]string, error) {
	switch {
	case len(c.Argv) > 0 && c.Shell == "":
		return c.Argv, nil
	case len(c.Argv) == 0 && c.Shell != "":
		if _, err := lookup("bash", "/", wire.SearchPath(path)); err == nil {
			return []string{"bash", "-c", c.Shell}, nil
		}
		return []string{"sh", "-c", c.Shell}, nil
	}
	return nil, pipes.Refuse(126, "a command needs exactly one of argv and shell")
}

// lookup finds a program as execvp does, in the command's PATH and not in ours.
func lookup(name, dir, path string) (string, error) {
	if strings.Contains(name, "/") {
		return runnable(name, wire.Join(dir, name))
	}
	denied := error(nil)
	for _, file := range wire.Candidates(name, dir, path) {
		full, err := runnable(name, file)
		if err == nil {
			return full, nil
		}
		if r, ok := err.(pipes.Refusal); ok && r.ExitCode() == 126 && name != "" {
			denied = err
		}
	}
	if denied != nil {
		return "", denied
	}
	return "", pipes.Refuse(127, name+": command not found")
}

func runnable(name, full string) (string, error) {
	st, err := os.Stat(full)
	switch {
	case err != nil && (errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR)):
		return "", pipes.Refuse(127, name+": no such file")
	case err != nil:
		return "", pipes.Refuse(126, fmt.Sprintf("%s: %v", name, cause(err)))
	case st.IsDir():
		return "", pipes.Refuse(126, name+": is a directory")
	case st.Mode()&0o111 == 0:
		return "", pipes.Refuse(126, name+": permission denied")
	}
	return full, nil
}

// tree is everything that a command started.
func (t *Task) tree() *procs.Tree {
	return &procs.Tree{Since: t.since, Roots: []int{t.pid}, Known: map[int]uint64{},
		Match: func(m string) bool { return m == t.mark }}
}

// Signal sends a signal to every process of the command.
func (t *Task) Signal(s syscall.Signal) { t.tree().Signal(s) }

// end ends the whole tree of a command: TERM, grace, KILL.
func (t *Task) end(grace time.Duration) {
	tr := t.tree()
	if grace > 0 && tr.Signal(unix.SIGTERM) > 0 {
		tr.Signal(unix.SIGCONT) // a stopped process hears TERM only when it goes on
		timer := time.NewTimer(grace)
		select {
		case <-t.done:
		case <-timer.C:
		}
		timer.Stop()
	}
	tr.Kill()
}

// marked is every process that bears a mark of the host.
func (h *Host) marked() *procs.Tree {
	prefix := h.id + ":"
	return &procs.Tree{Since: h.began, Known: map[int]uint64{},
		Match: func(m string) bool { return strings.HasPrefix(m, prefix) }}
}

// killBox ends every process that any command of the host started. It returns how many are
// left, and how many there were.
func (h *Host) killBox(running []*Task) (left, killed int) {
	tr := h.marked()
	for _, t := range running {
		tr.Roots = append(tr.Roots, t.pid)
	}
	left = tr.Kill()
	return left, tr.Killed
}
