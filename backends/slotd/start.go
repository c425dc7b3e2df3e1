package slotd

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"hermes/backends"
)

// task is one started command.
type task struct {
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

// refusal is a command that could not be started through its own fault.
type refusal struct {
	code int
	text string
}

func (r refusal) Error() string { return r.text }

// stdio are the files with which a command starts.
type stdio struct {
	Files
	tty bool
}

// launch starts a command. A refusal is the command's fault, any other error the box's.
func (h *Host) launch(ctx context.Context, c backends.Cmd, s stdio) (*task, error) {
	env := Environ(h.opt.Env, c)
	argv, err := words(c, env["PATH"])
	if err != nil {
		return nil, err
	}
	dir := at(h.dir, c.Dir)
	if st, err := os.Stat(dir); err != nil || !st.IsDir() {
		return nil, refusal{126, fmt.Sprintf("%s: not a directory that can be entered", dir)}
	}
	prog, err := lookup(argv[0], dir, env["PATH"])
	if err != nil {
		return nil, err
	}
	t := &task{mark: h.mark(), done: make(chan struct{}), began: time.Now(), since: ticks()}
	if h.opt.OOM != nil {
		t.ooms = h.opt.OOM()
	}
	env[MarkEnv] = t.mark
	if s.Report != nil {
		env[c.Report] = ReportPath
	}
	attr := &syscall.ProcAttr{Dir: dir, Env: Pairs(env), Files: []uintptr{s.In.Fd(), s.Out.Fd(), s.Err.Fd()},
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
	stop := unstick()
	for range startTries {
		if t.pid, err = h.spawn.start(prog, argv, attr, h.opt.Rlimits); !errors.Is(err, errUnborn) {
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
func (h *Host) adopt(a Adopted) {
	t := &task{mark: a.Mark, pid: a.PID, done: make(chan struct{}), began: time.Now()}
	if e, ok := readEntry(a.PID); ok { // one that is over is to be collected all the same
		t.since = e.began
	}
	if h.opt.OOM != nil {
		t.ooms = h.opt.OOM()
	}
	h.tasks[t] = true
	h.adopted = append(h.adopted, t)
	go h.await(t)
}

// await collects the command when it ends.
func (h *Host) await(t *task) {
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
		return refusal{127, fmt.Sprintf("%s: cannot be run: %v", name, cause(err))}
	case errors.Is(err, unix.EAGAIN), errors.Is(err, unix.ENOMEM), errors.Is(err, errUnborn): // nobody but its commands has done that
		return fmt.Errorf("start %q: %w: %w", name, backends.ErrBroken, err)
	case errors.Is(err, os.ErrClosed):
		return fmt.Errorf("start %q: %w", name, backends.ErrClosed)
	case errors.Is(err, unix.EACCES), errors.Is(err, unix.ENOEXEC), errors.Is(err, unix.E2BIG),
		errors.Is(err, unix.EINVAL), errors.Is(err, unix.ETXTBSY), errors.Is(err, unix.ELIBBAD),
		errors.Is(err, unix.ELOOP), errors.Is(err, unix.ENAMETOOLONG), errors.Is(err, unix.ENOTDIR):
		return refusal{126, fmt.Sprintf("%s: cannot be run: %v", name, cause(err))}
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

// Defaults is the environment of a box: what every command needs, and under it what the box says.
// Text is UTF-8 unless the box names a locale. LC_CTYPE says no less than LANG=C.UTF-8 does: the
// other categories of that locale are those of C, which is built into the C library, while
// every program would read a dozen files for them at its start.
func Defaults(home string, env map[string]string) map[string]string {
	all := map[string]string{"PATH": DefaultPath, "HOME": home}
	if env["LANG"] == "" && env["LC_ALL"] == "" {
		all["LC_CTYPE"] = "C.UTF-8"
	}
	maps.Copy(all, env)
	return all
}

// Environ is the environment of a command in a box with these defaults.
func Environ(defaults map[string]string, c backends.Cmd) map[string]string {
	env := map[string]string{}
	if !c.ClearEnv {
		maps.Copy(env, defaults)
	}
	maps.Copy(env, c.Env)
	return env
}

// Pairs is an environment as programs get it.
func Pairs(env map[string]string) []string {
	list := make([]string, 0, len(env))
	for _, k := range slices.Sorted(maps.Keys(env)) {
		list = append(list, k+"="+env[k])
	}
	return list
}

// words is the argument vector of a command.
func words(c backends.Cmd, path string) ([]string, error) {
	switch {
	case len(c.Argv) > 0 && c.Shell == "":
		return c.Argv, nil
	case len(c.Argv) == 0 && c.Shell != "":
		if _, err := lookup("bash", "/", searchPath(path)); err == nil {
			return []string{"bash", "-c", c.Shell}, nil
		}
		return []string{"sh", "-c", c.Shell}, nil
	}
	return nil, refusal{126, "a command needs exactly one of argv and shell"}
}

func searchPath(path string) string {
	if path == "" {
		return DefaultPath
	}
	return path
}

// lookup finds a program as execvp does, in the command's PATH and not in ours.
func lookup(name, dir, path string) (string, error) {
	if strings.Contains(name, "/") {
		return runnable(name, at(dir, name))
	}
	denied := error(nil)
	for _, file := range Candidates(name, dir, path) {
		full, err := runnable(name, file)
		if err == nil {
			return full, nil
		}
		if r, ok := err.(refusal); ok && r.code == 126 && name != "" {
			denied = err
		}
	}
	if denied != nil {
		return "", denied
	}
	return "", refusal{127, name + ": command not found"}
}

// Candidates are the files of which a command is the first that exists.
func Candidates(name, dir, path string) []string {
	if strings.Contains(name, "/") {
		return []string{at(dir, name)}
	}
	var all []string
	for _, d := range filepath.SplitList(searchPath(path)) {
		all = append(all, at(dir, d)+"/"+name)
	}
	return all
}

func runnable(name, full string) (string, error) {
	st, err := os.Stat(full)
	switch {
	case err != nil && (errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR)):
		return "", refusal{127, name + ": no such file"}
	case err != nil:
		return "", refusal{126, fmt.Sprintf("%s: %v", name, cause(err))}
	case st.IsDir():
		return "", refusal{126, name + ": is a directory"}
	case st.Mode()&0o111 == 0:
		return "", refusal{126, name + ": permission denied"}
	}
	return full, nil
}

// tree is everything that a command started.
func (t *task) tree() *tree {
	return &tree{since: t.since, roots: []int{t.pid}, known: map[int]uint64{},
		match: func(m string) bool { return m == t.mark }}
}

// end ends the whole tree of a command: TERM, grace, KILL.
func (t *task) end(grace time.Duration) {
	tr := t.tree()
	if grace > 0 && tr.signal(unix.SIGTERM) > 0 {
		tr.signal(unix.SIGCONT) // a stopped process hears TERM only when it goes on
		timer := time.NewTimer(grace)
		select {
		case <-t.done:
		case <-timer.C:
		}
		timer.Stop()
	}
	tr.kill()
}

// marked is every process that bears a mark of the host.
func (h *Host) marked() *tree {
	prefix := h.id + ":"
	return &tree{since: h.began, known: map[int]uint64{},
		match: func(m string) bool { return strings.HasPrefix(m, prefix) }}
}

// killBox ends every process that any command of the host started.
func (h *Host) killBox(running []*task) (left int) {
	tr := h.marked()
	for _, t := range running {
		tr.roots = append(tr.roots, t.pid)
	}
	return tr.kill()
}
