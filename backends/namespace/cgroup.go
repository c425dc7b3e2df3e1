//go:build linux

package namespace

import (
	"bufio"
	"cmp"
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

	"hermes/backends/slotd/host"
)

// group is a directory of the host's cgroup tree, below which a box may get its cgroup.
type group struct {
	dir         string
	v2          bool
	controllers []string
}

// groups are those that this process can use: one of version 2, or one a controller of
// version 1. None is no failure: then rlimits hold, and Traits say so.
type groups []group

// has reports whether a controller bounds boxes.
func (g groups) has(controller string) bool {
	return slices.ContainsFunc(g, func(x group) bool { return slices.Contains(x.controllers, controller) })
}

// findGroups looks for directories in which groups can be made.
func findGroups(l Limits) groups {
	if l.off {
		return nil
	}
	own, mounts := ownGroups(), groupMounts()
	for _, m := range mounts {
		if m.kind != "cgroup2" {
			continue
		}
		if g, ok := delegated(m, own[""]); ok {
			return groups{g}
		}
	}
	var found groups
	for _, controller := range []string{"memory", "pids", "cpu"} {
		for _, m := range mounts {
			if m.kind != "cgroup" || !slices.Contains(m.options, controller) {
				continue
			}
			g := group{dir: m.below(own[controller]), controllers: []string{controller}}
			if writable(g.dir) {
				found = append(found, g)
				break
			}
		}
	}
	return found
}

// delegated finds the nearest directory above our own group whose children are bounded
// by memory and pids and in which we may make one.
func delegated(m groupMount, own string) (group, bool) {
	for dir := m.below(own); strings.HasPrefix(dir, m.at); dir = filepath.Dir(dir) {
		raw, err := os.ReadFile(dir + "/cgroup.subtree_control")
		if err != nil {
			return group{}, false
		}
		given := strings.Fields(string(raw))
		if slices.Contains(given, "memory") && slices.Contains(given, "pids") && writable(dir) {
			return group{dir: dir, v2: true, controllers: given}, true
		}
	}
	return group{}, false
}

// writable tries to make a group, of a name that no other goroutine gives: where two tried the
// same, the second found its own gone, and its boxes had no limits.
func writable(dir string) bool {
	probe := fmt.Sprintf("%s/%s%d", dir, ownLabel(), serial.Add(1))
	return os.Mkdir(probe, 0o755) == nil && unix.Rmdir(probe) == nil
}

// ownGroups reads our group by controller; "" is version 2.
func ownGroups() map[string]string {
	own := map[string]string{}
	raw, _ := os.ReadFile("/proc/self/cgroup")
	for line := range strings.Lines(string(raw)) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) != 3 {
			continue
		}
		for _, c := range strings.Split(parts[1], ",") {
			own[c] = parts[2]
		}
	}
	return own
}

// groupMount is a mounted cgroup tree.
type groupMount struct {
	kind, root, at string
	options        []string
}

// below returns where a group is found under the mount.
func (m groupMount) below(own string) string {
	rest, ok := strings.CutPrefix(own, strings.TrimSuffix(m.root, "/"))
	if !ok {
		rest = ""
	}
	return filepath.Join(m.at, rest)
}

// groupMounts reads the mounted cgroup trees.
func groupMounts() []groupMount {
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return nil
	}
	defer f.Close()
	var mounts []groupMount
	for s := bufio.NewScanner(f); s.Scan(); {
		before, after, ok := strings.Cut(s.Text(), " - ")
		a, b := strings.Fields(before), strings.Fields(after)
		if ok && len(a) >= 5 && len(b) >= 3 && strings.HasPrefix(b[0], "cgroup") {
			mounts = append(mounts, groupMount{kind: b[0], root: a[3], at: a[4], options: strings.Split(b[2], ",")})
		}
	}
	return mounts
}

// boxGroup are the directories of one box.
type boxGroup struct {
	parents groups
	dirs    []string // one below each parent
	v2      *os.File // to clone the box into; nil: enter is needed
	oom     string
}

// limit writes the limits of the box.
func (b *boxGroup) limit(l Limits) error {
	for i, dir := range b.dirs {
		if err := b.parents[i].limit(dir, l); err != nil {
			return err
		}
	}
	return nil
}

// coresOnly says that a group bounds nothing but the use of cores. A box without such a
// bound does without it.
func (g group) coresOnly() bool { return slices.Equal(g.controllers, []string{"cpu"}) }

// make makes the groups of a box, as yet without limits.
func (g groups) make(name string) (*boxGroup, error) {
	b := &boxGroup{}
	for _, parent := range g {
		if parent.coresOnly() {
			continue
		}
		dir, err := b.add(parent, name)
		if err != nil {
			b.remove()
			return nil, err
		}
		if slices.Contains(parent.controllers, "memory") {
			b.oom = dir + map[bool]string{true: "/memory.events", false: "/memory.oom_control"}[parent.v2]
		}
		if parent.v2 {
			f, err := os.Open(dir)
			if err != nil {
				b.remove()
				return nil, fmt.Errorf("open a cgroup: %w", err)
			}
			b.v2 = f
		}
	}
	return b, nil
}

// add makes a group below one more parent.
func (b *boxGroup) add(parent group, name string) (dir string, err error) {
	dir = filepath.Join(parent.dir, name)
	if err := os.Mkdir(dir, 0o755); err != nil {
		return "", fmt.Errorf("make a cgroup: %w", err)
	}
	b.parents, b.dirs = append(b.parents, parent), append(b.dirs, dir)
	return dir, nil
}

// addCores makes those groups that make left out, and moves a process into them.
func (b *boxGroup) addCores(all groups, name string, pid int) error {
	for _, parent := range all {
		if !parent.coresOnly() {
			continue
		}
		dir, err := b.add(parent, name)
		if err == nil {
			err = join(dir, pid)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// setting is one line for one file of a group.
type setting struct {
	controller, file, value string
	optional                bool
}

// limit writes the limits of a box into its group.
func (g group) limit(dir string, l Limits) error {
	memory, pids := strconv.FormatInt(l.Memory, 10), strconv.Itoa(l.Processes+reserve)
	settings := []setting{
		{"memory", "memory.limit_in_bytes", memory, false},
		{"memory", "memory.memsw.limit_in_bytes", memory, true},
		{"memory", "memory.kmem.tcp.limit_in_bytes", strconv.FormatInt(min(l.Sockets, l.Memory), 10), true},
		{"pids", "pids.max", pids, false},
	}
	quota := strconv.FormatInt(int64(l.CPUs*100_000), 10)
	if g.v2 {
		settings = []setting{{"memory", "memory.max", memory, false}, {"memory", "memory.swap.max", "0", true}, {"pids", "pids.max", pids, false}}
		if l.CPUs > 0 {
			settings = append(settings, setting{"cpu", "cpu.max", quota + " 100000", false})
		}
	} else if l.CPUs > 0 {
		settings = append(settings, setting{"cpu", "cpu.cfs_quota_us", quota, false})
	}
	for _, s := range settings {
		if !slices.Contains(g.controllers, s.controller) {
			continue
		}
		if err := writeFile(filepath.Join(dir, s.file), []byte(s.value)); err != nil && !s.optional {
			return fmt.Errorf("limit a cgroup: %w", err)
		}
	}
	return nil
}

// enter moves a process that was not cloned into the groups.
func (b *boxGroup) enter(pid int) error {
	if b.v2 != nil {
		return nil
	}
	for _, dir := range b.dirs {
		if err := join(dir, pid); err != nil {
			return err
		}
	}
	return nil
}

// join moves a process into a group.
func join(dir string, pid int) error {
	if err := writeFile(dir+"/cgroup.procs", []byte(strconv.Itoa(pid))); err != nil {
		return fmt.Errorf("move a box into its cgroup: %w", err)
	}
	return nil
}

// kills counts the out-of-memory kills so far.
func (b *boxGroup) kills() int64 {
	if b == nil || b.oom == "" {
		return 0
	}
	f, err := os.Open(b.oom)
	if err != nil {
		return 0
	}
	defer f.Close()
	return host.OOMCounter(f)()
}

// remove removes the groups. The kernel needs a moment after the last process.
func (b *boxGroup) remove() error {
	if b == nil {
		return nil
	}
	if b.v2 != nil {
		b.v2.Close()
	}
	var errs []error
	for _, dir := range b.dirs {
		errs = append(errs, removeGroup(dir))
	}
	return errors.Join(errs...)
}

// removeGroup removes one group, waiting up to a second for its processes to be gone.
func removeGroup(dir string) error {
	for wait := 100 * time.Microsecond; ; wait *= 2 {
		err := unix.Rmdir(dir)
		if err == nil || err == unix.ENOENT {
			return nil
		}
		if err != unix.EBUSY || wait > time.Second {
			return fmt.Errorf("remove the cgroup %s: %w", dir, err)
		}
		time.Sleep(wait)
	}
}

// writeFile writes a file that is there, or a setting of the kernel, whole. Package os asks
// of every file whether it can be waited for: seven system calls instead of three.
func writeFile(path string, data []byte) error {
	fd, err := unix.Open(path, unix.O_WRONLY|unix.O_TRUNC|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return &fs.PathError{Op: "open", Path: path, Err: err}
	}
	if n, werr := unix.Write(fd, data); werr != nil || n < len(data) {
		err = &fs.PathError{Op: "write", Path: path, Err: cmp.Or(werr, error(unix.EIO))}
	}
	return errors.Join(err, unix.Close(fd))
}
