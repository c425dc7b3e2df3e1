//go:build linux

package namespace

import (
	"bufio"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// identities chooses the id of the host to which uid 0 of a box is mapped. A plain user
// has only his own. Root takes one that owns nothing, another for every box, because the
// kernel bounds some things by user and enforces no process limit on its own root.
type identities struct {
	root  bool
	uid   int // the only one, or the first of size
	gid   int
	size  int
	count *atomic.Uint32
	apart bool // each box is counted to its own id, and not to ours
}

// idsFrom is where the ids of boxes begin where every id can be had: beyond users,
// containers and systemd's ranges.
const idsFrom, idsSize = 0x74000000, 1 << 20

// findIdentities looks at what this process may map.
func findIdentities() (identities, error) {
	ids := identities{uid: os.Geteuid(), gid: os.Getegid(), size: 1, count: new(atomic.Uint32)}
	if ids.uid != 0 {
		return ids, nil
	}
	ids.root = true
	ids.count.Store(uint32(os.Getpid()) * 61)
	begin, size, err := largestExtent("/proc/self/uid_map")
	if err != nil {
		return ids, err
	}
	gbegin, gsize, err := largestExtent("/proc/self/gid_map")
	if err != nil {
		return ids, err
	}
	begin = max(begin, gbegin)
	if gsize < size {
		size = gsize
	}
	switch {
	case begin+size > idsFrom+idsSize:
		ids.uid, ids.size = idsFrom, idsSize
	case size > 2048: // in a container: the upper half of what it has
		ids.uid, ids.size = int(begin+size/2), int(size/2)
	}
	ids.gid = ids.uid
	// A namespace that another user made is ours to set up by this right only.
	ids.apart = ids.size > 1 && able(unix.CAP_SYS_ADMIN) && able(unix.CAP_SETUID)
	return ids, nil
}

// able says whether this process has a capability.
func able(capability int) bool {
	head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	return unix.Capget(&head, &data[0]) == nil && data[capability/32].Effective&(1<<(capability%32)) != 0
}

// largestExtent returns the largest range of ids of a map.
func largestExtent(file string) (begin, size int64, err error) {
	f, err := os.Open(file)
	if err != nil {
		return 0, 0, err
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		var in, out, n int64
		if _, err := fmt.Sscan(s.Text(), &in, &out, &n); err == nil && n > size {
			begin, size = in, n
		}
	}
	if size == 0 {
		return 0, 0, fmt.Errorf("%s is empty", file)
	}
	return begin, size, nil
}

// namespaces are those of a box.
const namespaces = unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS | unix.CLONE_NEWCGROUP

// share lowers default limits where the kernel counts what all boxes take together with what we take ourselves:
// then a box may take a sixteenth. Limits that were asked for stay.
func (ids identities) share(l, asked Limits) Limits {
	if ids.apart {
		return l
	}
	of := func(name string, own int) int {
		raw, err := os.ReadFile("/proc/sys/user/" + name)
		all, aerr := strconv.Atoi(strings.TrimSpace(string(raw)))
		if err != nil || aerr != nil {
			return own
		}
		return min(own, max(all/16, 1))
	}
	if asked.Inotify == 0 {
		l.Inotify = of("max_inotify_instances", l.Inotify)
	}
	if asked.Watches == 0 {
		l.Watches = of("max_inotify_watches", l.Watches)
	}
	return l
}

// next chooses the id of a box, as a distance from the first one.
func (ids identities) next() int {
	if ids.size > 1 {
		return int(ids.count.Add(1)) % ids.size
	}
	return 0
}

// owner is the user who makes the namespaces of a box; 0: we do.
func (ids identities) owner(id int) int {
	if ids.apart {
		return ids.uid + id
	}
	return 0
}

// give puts an id behind uid and gid 0 of a process's user namespace.
func (ids identities) give(id, pid int) error {
	uid, gid := ids.uid+id, ids.gid+id
	dir := fmt.Sprintf("/proc/%d/", pid)
	if !ids.root { // root keeps the right to set groups, to drop those of the host; the box loses it with its capabilities
		if err := writeFile(dir+"setgroups", []byte("deny")); err != nil {
			return fmt.Errorf("forbid a box to set groups: %w", err)
		}
	}
	if err := writeFile(dir+"uid_map", fmt.Appendf(nil, "0 %d 1\n", uid)); err != nil {
		return fmt.Errorf("map user %d into a box: %w", uid, err)
	}
	if err := writeFile(dir+"gid_map", fmt.Appendf(nil, "0 %d 1\n", gid)); err != nil {
		return fmt.Errorf("map group %d into a box: %w", gid, err)
	}
	return nil
}

// forbidden looks for the switch of the host that explains why namespaces are refused.
func forbidden(err error) error {
	for _, s := range []struct{ file, bad, why string }{
		{"/proc/sys/user/max_user_namespaces", "0", "user.max_user_namespaces is 0"},
		{"/proc/sys/kernel/unprivileged_userns_clone", "0", "kernel.unprivileged_userns_clone is 0"},
		{"/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1", "AppArmor restricts user namespaces (kernel.apparmor_restrict_unprivileged_userns is 1)"},
	} {
		if raw, rerr := os.ReadFile(s.file); rerr == nil && strings.TrimSpace(string(raw)) == s.bad {
			return fmt.Errorf("%s: %w", s.why, err)
		}
	}
	return err
}
