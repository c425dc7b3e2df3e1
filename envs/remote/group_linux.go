package remote

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"hermes/backends"
)

// markEnv is the variable by which all processes of a program are known, wherever they have
// gone: its value is the owner, as [backends.Owner] writes it, and a random part for each of its programs.
const markEnv = "HERMES_PROGRAM"

// groupPrefix begins the names of our cgroups; the value of the mark follows.
const groupPrefix = "hermes-program-"

// endTime bounds the search for what is left of a program. Each round kills all that it sees,
// so that only one that forks faster than it is read needs more.
const endTime = 5 * time.Second

// family is the processes of one program: its process group, those in its cgroup where we may
// make one, those with its mark, and what these started.
type family struct {
	mark string
	dir  string // its cgroup; "": none
	open *os.File
	attr *syscall.SysProcAttr
	v2   bool // it is born in its cgroup
}

// newFamily begins one.
func newFamily() *family {
	f := &family{mark: fmt.Sprintf("%s-%s", backends.Self(), rand.Text())}
	for _, parent := range groupParents() {
		dir := filepath.Join(parent.dir, groupPrefix+f.mark)
		if os.Mkdir(dir, 0o755) != nil {
			continue // not ours to write, or not mounted so
		}
		f.dir, f.v2 = dir, parent.v2
		if f.v2 {
			file, err := os.Open(dir)
			if err != nil {
				f.forget()
				continue
			}
			f.open = file
		}
		break
	}
	return f
}

// prepare puts the child into its own process group, which an interrupt at the terminal
// does not reach, and has the kernel kill it when hermes is killed.
func (f *family) prepare(c *exec.Cmd) {
	c.Env = append(c.Env, markEnv+"="+f.mark)
	f.attr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	c.SysProcAttr = f.attr
	if f.open != nil {
		f.attr.UseCgroupFD, f.attr.CgroupFD = true, int(f.open.Fd())
	}
}

// unborn gives up that the child is born in its cgroup; it reports whether that was asked for.
func (f *family) unborn() bool {
	asked := f.open != nil
	if asked {
		f.attr.UseCgroupFD, f.v2 = false, false
	}
	return asked
}

// started moves the child into its cgroup where it could not be born there. What it starts
// before has the mark.
func (f *family) started(pid int) {
	if f.dir != "" && !f.v2 && os.WriteFile(filepath.Join(f.dir, "cgroup.procs"), []byte(strconv.Itoa(pid)), 0) != nil {
		f.forget()
	}
}

// kill ends all of them. pid is the program's, which is not reaped yet.
func (f *family) kill(pid int) {
	_ = syscall.Kill(-pid, syscall.SIGKILL) // none may be left
	ctx, cancel := context.WithTimeout(context.Background(), endTime)
	defer cancel()
	endGroup(ctx, f.dir)
	if !f.v2 { // else all were born in the cgroup
		endMarked(ctx, func(mark string) bool { return mark == f.mark })
	}
}

// forget removes the cgroup, which is empty once what was killed is reaped.
func (f *family) forget() {
	if f.open != nil {
		f.open.Close()
		f.open = nil
	}
	if f.dir != "" {
		removeGroup(f.dir)
		f.dir, f.v2 = "", false
	}
}

// removeGroup waits for the dead to leave it, a moment.
func removeGroup(dir string) {
	for end := time.Now().Add(time.Second); ; {
		err := os.Remove(dir)
		if err == nil || !errors.Is(err, unix.EBUSY) || time.Now().After(end) {
			return // the next start sweeps what stays
		}
		<-time.After(5 * time.Millisecond)
	}
}

// waitExit returns when the child has ended, and leaves it to be reaped.
func waitExit(c *exec.Cmd) {
	for errors.Is(unix.Waitid(unix.P_PID, c.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil), unix.EINTR) {
	}
}

// groupParent is a folder of cgroups in which we may make one.
type groupParent struct {
	dir string
	v2  bool
}

// groupParents are our own cgroups, version 2 first.
func groupParents() (all []groupParent) {
	raw, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return nil
	}
	own := map[string]string{}
	for line := range strings.Lines(string(raw)) {
		if f := strings.SplitN(strings.TrimSpace(line), ":", 3); len(f) == 3 {
			own[f[1]] = f[2]
		}
	}
	for _, m := range []struct{ mount, name string }{{"/sys/fs/cgroup", ""}, {"/sys/fs/cgroup/unified", ""}, {"/sys/fs/cgroup/pids", "pids"}, {"/sys/fs/cgroup/systemd", "name=systemd"}} {
		path, ok := own[m.name]
		dir := filepath.Join(m.mount, path)
		if _, err := os.Stat(filepath.Join(dir, "cgroup.procs")); ok && err == nil {
			all = append(all, groupParent{dir, m.name == ""})
		}
	}
	return all
}

// endGroup kills the processes of a cgroup until there are none.
func endGroup(ctx context.Context, dir string) {
	if dir == "" || os.WriteFile(filepath.Join(dir, "cgroup.kill"), []byte("1"), 0) == nil {
		return
	}
	for ctx.Err() == nil {
		raw, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
		left := false
		for _, word := range strings.Fields(string(raw)) {
			pid, bad := strconv.Atoi(word)
			left = left || bad == nil && !isZombie(pid) && unix.Kill(pid, unix.SIGKILL) == nil
		}
		if err != nil || !left {
			return
		}
	}
}

// endMarked kills the processes with a mark that is meant, and all below them, until it sees
// none. One that is killed is seen until it is reaped, without its environment.
func endMarked(ctx context.Context, meant func(mark string) bool) (killed int) {
	for left := -1; left != 0 && ctx.Err() == nil; {
		left = 0
		below, seen := children(), map[int]bool{}
		var end func(pid int)
		end = func(pid int) {
			if seen[pid] {
				return
			}
			seen[pid] = true
			for _, child := range below[pid] {
				end(child)
			}
			if !isZombie(pid) && unix.Kill(pid, unix.SIGKILL) == nil {
				left, killed = left+1, killed+1
			}
		}
		all, _ := filepath.Glob("/proc/[0-9]*/environ")
		for _, file := range all {
			if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file))); err == nil && pid != os.Getpid() && meant(markOf(file)) {
				end(pid)
			}
		}
	}
	return killed
}

// markOf is the mark in an environment, "" for none and for one that may not be read.
func markOf(file string) string {
	raw, err := os.ReadFile(file)
	if err != nil {
		return ""
	}
	for _, v := range bytes.Split(raw, []byte{0}) {
		if mark, ok := bytes.CutPrefix(v, []byte(markEnv+"=")); ok {
			return string(mark)
		}
	}
	return ""
}

// children lists the children of each process.
func children() map[int][]int {
	out := map[int][]int{}
	all, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, file := range all {
		if f := stat(file); len(f) > 1 {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
			parent, _ := strconv.Atoi(f[1])
			out[parent] = append(out[parent], pid)
		}
	}
	return out
}

func isZombie(pid int) bool {
	f := stat(fmt.Sprintf("/proc/%d/stat", pid))
	return len(f) > 0 && f[0] == "Z"
}

// stat gives the fields behind the name: the state, the parent and so on.
func stat(file string) []string {
	raw, err := os.ReadFile(file)
	if err != nil {
		return nil
	}
	return strings.Fields(string(raw[bytes.LastIndexByte(raw, ')')+1:]))
}

// Sweep ends what a hermes that was killed has left of the programs of its environments and
// checkers, and says how many processes that were.
func Sweep(ctx context.Context) int { return endAll(ctx, ofTheDead) }

// EndOwn ends all programs of this process, for one that ends by force.
func EndOwn(ctx context.Context) {
	self := backends.Self()
	endAll(ctx, func(mark string) bool { return strings.HasPrefix(mark, self.String()+"-") })
}

func endAll(ctx context.Context, meant func(mark string) bool) int {
	ctx, cancel := context.WithTimeout(ctx, endTime)
	defer cancel()
	for _, parent := range groupParents() {
		all, _ := filepath.Glob(filepath.Join(parent.dir, groupPrefix+"*"))
		for _, dir := range all {
			if meant(strings.TrimPrefix(filepath.Base(dir), groupPrefix)) {
				endGroup(ctx, dir)
				removeGroup(dir)
			}
		}
	}
	return endMarked(ctx, meant)
}

// ofTheDead reports that the owner of a mark has ended.
func ofTheDead(mark string) bool {
	i := strings.LastIndexByte(mark, '-')
	if i < 0 {
		return false
	}
	owner, err := backends.ParseOwner(mark[:i])
	return err == nil && owner.Dead()
}
