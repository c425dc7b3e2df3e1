//go:build linux

package host

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"hermes/backends"
	"hermes/backends/slotd/procs"
	"hermes/backends/slotd/wire"
	"hermes/backends/trees"
)

// Bounds of a reset.
const (
	maxBaseline = 20_000 // files of an image below home and scratch
	maxLeft     = 32     // complaints
	killRounds  = 200
)

// known is a file as the box was given it.
type known struct {
	inode    uint64
	mode     fs.FileMode
	uid, gid uint32
	size     int64
	changed  unix.Timespec // ctime; unset for folders, which change with their entries
	isDir    bool
}

// baseline is what a reset must come back to.
type baseline struct {
	files  map[string]known
	tooBig bool
	mounts []string
	ports  []string
	self   []string      // what commands of our user can set of this process
	since  unix.Timespec // younger files elsewhere were changed by commands
}

// roots are the folders that a reset empties.
func (h *Host) roots() []string {
	all := []string{h.opt.Home}
	for _, d := range h.opt.Scratch {
		d = filepath.Clean(d)
		if !slices.Contains(all, d) {
			all = append(all, d)
		}
	}
	return all
}

// note records the box as it is.
func (h *Host) note() *baseline {
	b := &baseline{files: map[string]known{}}
	for _, root := range h.roots() {
		b.note(root)
	}
	if h.opt.Private {
		b.mounts = mounts()
		b.ports = listeners()
		b.self = settings()
		b.since = nextTick()
	}
	return b
}

// note adds a folder and everything below it.
func (b *baseline) note(root string) {
	k, ok := look(root)
	if !ok || b.tooBig {
		return
	}
	b.files[root] = k
	folder, _, err := trees.Folder(root)
	if err != nil {
		return
	}
	defer folder.Close()
	trees.Walk(context.Background(), folder, trees.Bounds{Depth: maxDepth, Path: maxPath, Entries: maxBaseline + 1}, trees.Visitor{
		Visit: func(e *trees.Entry) error {
			if st, err := e.Stat(); err == nil {
				b.files[filepath.Join(root, e.Path)] = knownOf(st)
			}
			b.tooBig = len(b.files) > maxBaseline
			if b.tooBig {
				return fs.SkipAll
			}
			return nil
		},
		Left: func(_ string, why error) { b.tooBig = b.tooBig || errors.As(why, new(*trees.BoundError)) },
	})
}

// nextTick waits until the clock of file systems has moved, so that whatever was written
// before is older than its answer and whatever is written later is not.
func nextTick() unix.Timespec {
	var was, now unix.Timespec
	unix.ClockGettime(unix.CLOCK_REALTIME_COARSE, &was)
	for now = was; now == was; {
		time.Sleep(200 * time.Microsecond)
		unix.ClockGettime(unix.CLOCK_REALTIME_COARSE, &now)
	}
	return now
}

func look(p string) (known, bool) {
	var st trees.Info
	if err := unix.Lstat(p, &st.Stat_t); err != nil {
		return known{}, false
	}
	return knownOf(&st), true
}

func knownOf(st *trees.Info) known {
	k := known{inode: st.Ino, mode: st.Mode(), uid: st.Uid, gid: st.Gid, isDir: st.Mode().IsDir()}
	if !k.isDir {
		k.size, k.changed = st.Size, st.Ctim
	}
	return k
}

// Reset implements backends.Resetter. Nothing starts while it works; commands that ran
// end with backends.ErrClosed.
func (h *Host) Reset(ctx context.Context, l backends.Level) (backends.Cleaned, error) {
	if err := h.Alive(ctx, "reset"); err != nil {
		return backends.Cleaned{}, err
	}
	if l != backends.ResetFiles && l != backends.ResetFull {
		return backends.Cleaned{}, fmt.Errorf("reset level %q: have %s, %s", l, backends.ResetFiles, backends.ResetFull)
	}
	if h.base == nil {
		return backends.Cleaned{}, fmt.Errorf("reset: this box was not made for it: %w", errors.ErrUnsupported)
	}
	h.mu.Lock()
	if h.busy {
		h.mu.Unlock()
		return backends.Cleaned{}, fmt.Errorf("reset: another one is under way: %w", backends.ErrClosed)
	}
	h.busy = true
	h.mu.Unlock()
	h.endTurns()
	defer func() {
		h.freeTurns()
		h.mu.Lock()
		h.busy = false
		h.mu.Unlock()
	}()
	began := time.Now()
	ctx, cancel := context.WithTimeoutCause(ctx, wire.ResetTime, errSlow(wire.ResetTime))
	defer cancel()
	w := &wipe{h: h, ctx: ctx}
	w.processes(ctx)
	for _, root := range h.roots() {
		if now, ok := look(root); ok && w.given(root, now) {
			w.folder(root)
		}
	}
	w.missing()
	if l == backends.ResetFull {
		w.everything()
	}
	if h.base.tooBig {
		w.left("more than %d files came with the box: changes among them cannot be seen", maxBaseline)
	}
	w.done.Took = time.Since(began)
	return w.done, ctx.Err()
}

// wipe is one reset.
type wipe struct {
	h    *Host
	ctx  context.Context // of the call
	done backends.Cleaned
}

func (w *wipe) left(format string, args ...any) {
	if len(w.done.Left) < maxLeft {
		w.done.Left = append(w.done.Left, fmt.Sprintf(format, args...))
	}
}

// processes ends every process and closes every pipe of the box.
func (w *wipe) processes(ctx context.Context) {
	h := w.h
	h.mu.Lock()
	running := make([]*Task, 0, len(h.tasks))
	for t := range h.tasks {
		t.void.Store(true)
		running = append(running, t)
	}
	h.mu.Unlock()
	w.done.Killed = len(running)
	left, _ := h.killBox(running)
	if h.opt.Private {
		left = w.others()
	}
	if left > 0 {
		w.left("%d processes", left)
	}
	for _, t := range running {
		select {
		case <-t.done:
		case <-ctx.Done():
			w.left("process %d", t.pid)
		}
	}
	h.streams.Cut()
	h.mu.Lock()
	clear(h.procs)
	h.order = nil
	h.mu.Unlock()
}

// others kills all processes in the box's own pid namespace, stopped or of any user,
// until none is seen.
func (w *wipe) others() (left int) {
	self := os.Getpid()
	for range killRounds {
		left = 0
		for _, e := range procs.List(0) {
			if e.PID == self || e.PID == 1 || e.Ppid == 0 {
				continue // the box's first process, and those that its makers sent in
			}
			left++
			w.done.Killed++
			unix.Kill(e.PID, unix.SIGKILL)
			procs.WaitGone(map[int]bool{e.PID: true}, 50*time.Millisecond)
		}
		if left == 0 {
			return 0
		}
	}
	return left
}

// given says whether a folder is the one that came with the box. Of another one, or of a
// link in its place, nothing is removed: it may lead anywhere.
func (w *wipe) given(p string, now known) bool {
	was, ok := w.h.base.files[p]
	return ok && was.isDir && now.isDir && was.inode == now.inode
}

// folder removes what was not there when the box was noted.
func (w *wipe) folder(dir string) {
	before := w.done.Removed
	names, more, err := namesOf(dir, maxNames)
	if errors.Is(err, fs.ErrPermission) {
		trees.Loosen(dir)
		names, more, err = namesOf(dir, maxNames)
	}
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			w.left("%v", err)
		}
		return
	}
	for _, name := range names {
		p := filepath.Join(dir, name)
		was, given := w.h.base.files[p]
		now, ok := look(p)
		switch {
		case !ok:
		case w.given(p, now):
			w.folder(p)
		case given && now == was:
		default:
			w.done.Removed++
			if err := trees.Remove(w.ctx, p); err != nil {
				w.left("%v", err)
			}
		}
	}
	switch {
	case !more:
	case w.done.Removed > before && w.ctx.Err() == nil:
		w.folder(dir)
	default:
		w.left("%s has more than %d names", dir, maxNames)
	}
}

// missing looks for what came with the box and is not as it was.
func (w *wipe) missing() {
	for p, was := range w.h.base.files {
		now, ok := look(p)
		if ok && w.given(p, now) && was.mode != now.mode {
			os.Chmod(p, was.mode)
			now, ok = look(p)
		}
		if !ok || now != was {
			w.left("%s came with the box and was changed", p)
		}
	}
}

// everything removes IPC objects and looks for changes anywhere else.
func (w *wipe) everything() {
	if !w.h.opt.Private {
		w.left("the box shares its machine: a full reset cannot be vouched for")
		return
	}
	if err := removeIPC(); err != nil {
		w.left("%v", err)
	}
	if now := mounts(); !slices.Equal(now, w.h.base.mounts) {
		w.left("the mounts are not those that came with the box")
	}
	if now := listeners(); !slices.Equal(now, w.h.base.ports) {
		w.left("ports or abstract sockets are in use: %s", strings.Join(now, " "))
	}
	if now := settings(); !slices.Equal(now, w.h.base.self) {
		w.left("the server's own limits or priority were changed: %s", strings.Join(now, ", "))
	}
	w.elsewhere()
}

// elsewhere reports files outside of the wiped folders that changed since the box was
// noted. A change time cannot be forged without setting the clock.
func (w *wipe) elsewhere() {
	skip := append(w.h.roots(), "/proc", "/sys", "/dev/pts", "/dev/mqueue")
	for _, m := range readOnly() {
		if m != "/" {
			skip = append(skip, m)
		}
	}
	since := w.h.base.since
	top, _, err := trees.Folder("/")
	if err != nil {
		w.left("/ cannot be looked at: %v", err)
		return
	}
	defer top.Close()
	err = trees.Walk(w.ctx, top, trees.Bounds{Depth: maxDepth, Path: maxPath, Entries: 4 * trees.Entries}, trees.Visitor{
		Visit: func(e *trees.Entry) error {
			p := "/" + e.Path
			if len(w.done.Left) >= maxLeft {
				return fs.SkipAll
			}
			if slices.Contains(skip, p) {
				return fs.SkipDir
			}
			st, err := e.Stat()
			if err != nil {
				w.left("%s cannot be looked at: %v", p, err)
				return nil
			}
			if e.Type&fs.ModeCharDevice != 0 {
				return nil // the machine's, shared with other boxes
			}
			c := st.Ctim
			if c.Sec > since.Sec || c.Sec == since.Sec && c.Nsec >= since.Nsec {
				w.left("%s was changed", p)
			}
			return nil
		},
		Left: func(p string, why error) { w.left("/%s cannot be looked at: %v", p, why) },
	})
	if err != nil {
		w.left("not everything could be looked at: %v", err)
	}
}

// mounts lists mount points with their kinds, sorted.
func mounts() []string {
	raw, _ := procs.ReadKernel("/proc/self/mountinfo")
	var all []string
	for line := range strings.Lines(string(raw)) {
		if f := strings.Fields(line); len(f) > 5 {
			all = append(all, f[0]+" "+f[4])
		}
	}
	slices.Sort(all)
	return all
}

// readOnly lists the mount points that cannot be written.
func readOnly() []string {
	raw, _ := procs.ReadKernel("/proc/self/mountinfo")
	var all []string
	for line := range strings.Lines(string(raw)) {
		if f := strings.Fields(line); len(f) > 5 && slices.Contains(strings.Split(f[5], ","), "ro") {
			all = append(all, f[4])
		}
	}
	return all
}

// listeners lists listening ports and abstract sockets of this network namespace.
func listeners() []string {
	var all []string
	for _, kind := range []string{"tcp", "tcp6", "udp", "udp6"} {
		raw, _ := procs.ReadKernel("/proc/self/net/" + kind)
		for line := range strings.Lines(string(raw)) {
			f := strings.Fields(line)
			if len(f) > 3 && (f[3] == "0A" || f[3] == "07") {
				all = append(all, kind+":"+f[1])
			}
		}
	}
	raw, _ := procs.ReadKernel("/proc/self/net/unix")
	for line := range strings.Lines(string(raw)) {
		if f := strings.Fields(line); len(f) > 7 && strings.HasPrefix(f[7], "@") {
			all = append(all, f[7])
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// removeIPC removes System V objects and message queues.
func removeIPC() error {
	var errs []error
	for kind, call := range map[string]uintptr{"shm": unix.SYS_SHMCTL, "sem": unix.SYS_SEMCTL, "msg": unix.SYS_MSGCTL} {
		raw, err := procs.ReadKernel("/proc/sysvipc/" + kind)
		if err != nil {
			continue // a kernel without them
		}
		first := true
		for line := range strings.Lines(string(raw)) {
			f := strings.Fields(line)
			if first || len(f) < 2 {
				first = false
				continue
			}
			id, err := strconv.Atoi(f[1])
			if err != nil {
				continue
			}
			args := [2]uintptr{unix.IPC_RMID, 0}
			if kind == "sem" {
				args = [2]uintptr{0, unix.IPC_RMID}
			}
			if _, _, no := unix.Syscall6(call, uintptr(id), args[0], args[1], 0, 0, 0); no != 0 && no != unix.EINVAL && no != unix.EIDRM {
				errs = append(errs, fmt.Errorf("remove %s %d: %w", kind, id, no))
			}
		}
	}
	queues, _ := listKernel("/dev/mqueue")
	for _, q := range queues {
		errs = append(errs, os.Remove("/dev/mqueue/"+q.Name()))
	}
	return errors.Join(errs...)
}
