//go:build linux

package namespace

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"hermes/backends/namespace/pid1"
)

// stage is where the new root is put together, in the box's own mount namespace.
const stage = "/tmp"

// here is AT_FDCWD as a system call takes it.
const here = uint64(1<<64 - 100)

// etcTrees are directories of /etc without which the host's programs do not work.
// Nothing else of /etc is shown.
var etcTrees = []string{"alternatives", "ssl", "pki", "crypto-policies", "fonts", "java"}

// etcFiles are copied, so that commands may change them.
var etcFiles = []string{"ld.so.cache", "ld.so.conf", "nsswitch.conf", "protocols", "services", "localtime", "timezone", "mime.types",
	"profile", "bash.bashrc", "inputrc", "shells", "debian_version", "os-release", "lsb-release", "magic", "login.defs"}

// maxEtc bounds a file of /etc. Those beyond maxCopy are shown instead of copied: a copy
// is memory of every box. So are all that follow when maxCopies have been copied.
const (
	maxEtc    = 1 << 20
	maxCopy   = 64 << 10
	maxCopies = 384 << 10
)

// topLevel are the entries of / that hold programs, besides /usr.
var topLevel = []string{"bin", "sbin", "lib", "lib32", "lib64", "libx32"}

// devicesOf are the devices of a box.
var devicesOf = []string{"null", "zero", "full", "random", "urandom", "tty"}

// The attributes of mounts.
const (
	noSetuid = unix.MOUNT_ATTR_NOSUID
	shown    = unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV // files of the host
	device   = unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NOEXEC
)

// builder writes the list of system calls by which a process with its own namespaces makes
// a box of itself. What it has to know of the host, it looks up here: no call of the list
// depends on more than whether another succeeded.
type builder struct {
	*pid1.List
	plan  plan
	made  map[string]bool // folders of the box that the list has made
	trees []shownTree
	fd    pid1.Slot // of a file that is written
}

// shownTree is a part of the host that the box sees, as a detached mount.
type shownTree struct {
	path   string
	folder bool
	fd     pid1.Slot
}

// build writes the list for a plan. With an image whose mount is passed, that is slot 0.
func build(p plan, ids identities) (*pid1.List, error) {
	passed := 0
	if p.Image && p.ImageDir == "" {
		passed = 1
	}
	b := &builder{List: pid1.NewList(passed), plan: p, made: map[string]bool{"/": true}}
	b.fd = b.Slot()
	b.identity(ids)
	b.Call("make mounts private", unix.SYS_MOUNT, "", "/", "", unix.MS_REC|unix.MS_PRIVATE, 0)
	image := pid1.Slot(0)
	if p.Image && passed == 0 {
		image = b.clone(p.ImageDir, noSetuid)
	}
	etc, err := b.host()
	if err != nil {
		return nil, err
	}
	at := b.root(image)
	b.devices()
	null, empty := b.clone("/dev/null", shown), b.covers()
	var dev pid1.Slot
	if p.Image {
		dev = b.clone(stage+"/dev", 0)
	}
	b.Call("enter the root of the box", unix.SYS_CHDIR, at)
	b.Call("change the root", unix.SYS_PIVOT_ROOT, ".", ".")
	// From here on paths are the box's own: no link of an image leads out of it.
	if p.Image {
		b.folder("/dev")
		b.attach(dev, "/dev")
	}
	b.files(etc)
	b.proc(null, empty)
	b.folders()
	b.Call("leave the host's root", unix.SYS_UMOUNT2, ".", unix.MNT_DETACH)
	b.Call("enter the box's root", unix.SYS_CHDIR, "/")
	b.settle()
	return b.List, nil
}

// identity makes the process uid 0 of its user namespace, and the first that the host's
// out-of-memory killer takes.
func (b *builder) identity(ids identities) {
	if ids.root {
		b.Call("drop the host's groups", unix.SYS_SETGROUPS, 0, 0)
		b.Call("become group 0 of the box", unix.SYS_SETRESGID, 0, 0, 0)
		b.Call("become user 0 of the box", unix.SYS_SETRESUID, 0, 0, 0)
	}
	b.Call("make a session", unix.SYS_SETSID)
	b.Call("set the mask of new files", unix.SYS_UMASK, 0o022)
	b.Call("name the process", unix.SYS_PRCTL, unix.PR_SET_NAME, "hermes-pid1")
	b.Call("open its own files of /proc", unix.SYS_PRCTL, unix.PR_SET_DUMPABLE, 1)
	b.Call("open oom_score_adj", unix.SYS_OPENAT, here, "/proc/self/oom_score_adj", unix.O_WRONLY|unix.O_CLOEXEC).Or(unix.ENOENT, unix.EACCES, unix.EPERM).Skip(1).Into(b.fd)
	b.Call("set oom_score_adj", unix.SYS_WRITE, b.fd, "500", 3).Or(unix.EACCES, unix.EPERM)
}

// clone detaches a copy of what is mounted at a path, with the attributes set on all of it.
func (b *builder) clone(path string, attrs int) pid1.Slot {
	fd := b.Call("clone the mount of "+path, unix.SYS_OPEN_TREE, here, path, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE).Keep()
	if attrs != 0 {
		b.Call("set the mount attributes of "+path, unix.SYS_MOUNT_SETATTR, fd, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, b.Words(attrs, 0, 0, 0), 32)
	}
	return fd
}

// attach puts a detached mount over a path.
func (b *builder) attach(fd pid1.Slot, at string) pid1.Step {
	return b.Call("mount "+at+" in the box", unix.SYS_MOVE_MOUNT, fd, "", here, at, unix.MOVE_MOUNT_F_EMPTY_PATH)
}

// bind mounts a path over another; the new mount has the attributes of the first.
func (b *builder) bind(from, at string) pid1.Step {
	return b.Call("mount "+at+" in the box", unix.SYS_MOUNT, from, at, 0, unix.MS_BIND, 0)
}

// seal adds attributes to a mount.
func (b *builder) seal(at string, attrs int) pid1.Step {
	return b.Call("set the mount attributes of "+at, unix.SYS_MOUNT_SETATTR, here, at, 0, b.Words(attrs, 0, 0, 0), 32)
}

// mount mounts a new file system.
func (b *builder) mount(kind, at string, flags int, options string) {
	b.Call(fmt.Sprintf("mount %s (%s) in the box", kind, options), unix.SYS_MOUNT, kind, at, kind, flags, options)
}

// folder makes a directory and what is missing above it.
func (b *builder) folder(path string) {
	if b.made[path] {
		return
	}
	b.made[path] = true
	b.folder(filepath.Dir(path))
	b.Call("make "+path+" in the box", unix.SYS_MKDIRAT, here, path, 0o755).Or(unix.EEXIST)
}

// write writes a file, whole.
func (b *builder) write(path string, data []byte) {
	b.Call("make "+path+" in the box", unix.SYS_OPENAT, here, path, unix.O_WRONLY|unix.O_CREAT|unix.O_TRUNC|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o644).Into(b.fd)
	if len(data) > 0 {
		b.Call("write "+path+" in the box", unix.SYS_WRITE, b.fd, b.Bytes(data), len(data))
	}
	b.Call("close "+path, unix.SYS_CLOSE, b.fd)
}

// host takes what the box is to see of the host, before the stage covers some of it, and
// returns the files of /etc. An image brings its own.
func (b *builder) host() (etc map[string][]byte, err error) {
	for _, path := range b.plan.ReadOnly {
		if err := b.show(path); err != nil {
			return nil, err
		}
	}
	if b.plan.Image {
		return nil, nil
	}
	if err := b.show("/usr"); err != nil {
		return nil, err
	}
	for _, name := range topLevel {
		if s, err := os.Lstat("/" + name); err == nil && s.IsDir() {
			if err := b.show("/" + name); err != nil {
				return nil, err
			}
		}
	}
	for _, name := range etcTrees {
		if s, err := os.Lstat("/etc/" + name); err == nil && s.IsDir() {
			if err := b.show("/etc/" + name); err != nil {
				return nil, err
			}
		}
	}
	etc, copied := map[string][]byte{}, 0
	for _, name := range etcFiles {
		s, err := os.Stat("/etc/" + name)
		if err != nil || !s.Mode().IsRegular() || s.Size() > maxEtc {
			continue
		}
		if s.Size() > maxCopy || copied+int(s.Size()) > maxCopies {
			if err := b.show("/etc/" + name); err != nil {
				return nil, err
			}
			continue
		}
		raw, err := os.ReadFile("/etc/" + name)
		if err != nil || len(raw) > maxCopy {
			continue // of no use to a box, or written right now
		}
		etc[name], copied = raw, copied+len(raw)
	}
	etc["passwd"] = fmt.Appendf(nil, "root:x:0:0:root:%s:/bin/sh\nnobody:x:65534:65534:nobody:/:/usr/sbin/nologin\n", b.plan.Home)
	etc["group"] = []byte("root:x:0:\nnogroup:x:65534:\n")
	etc["hosts"] = []byte("127.0.0.1 localhost hermes\n::1 localhost\n")
	etc["hostname"] = []byte("hermes\n")
	return etc, nil
}

// show takes a directory or file of the host, read-only.
func (b *builder) show(path string) error {
	s, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("show %s in boxes: %w", path, err)
	}
	b.trees = append(b.trees, shownTree{path, s.IsDir(), b.clone(path, shown)})
	return nil
}

// root mounts the memory of the box, over the image where there is one, and says where its
// root lies.
func (b *builder) root(image pid1.Slot) (at string) {
	disk := b.plan.Limits.Disk
	b.mount("tmpfs", stage, unix.MS_NOSUID|unix.MS_NODEV, fmt.Sprintf("mode=0755,size=%d,nr_inodes=%d", disk, max(disk/4096, 16384)))
	if !b.plan.Image {
		return stage
	}
	for _, name := range []string{"/lower", "/upper", "/scratch", "/root"} {
		b.Call("make a folder for the image", unix.SYS_MKDIRAT, here, stage+name, 0o755)
	}
	b.Call("mount the image "+b.plan.ImageDir, unix.SYS_MOVE_MOUNT, image, "", here, stage+"/lower", unix.MOVE_MOUNT_F_EMPTY_PATH)
	b.mount("overlay", stage+"/root", unix.MS_NOSUID|unix.MS_NODEV, "lowerdir="+stage+"/lower,upperdir="+stage+"/upper,workdir="+stage+"/scratch,userxattr")
	return stage + "/root"
}

// devices builds /dev: six devices, terminals of the box's own, shared memory within the
// bounds of the disk.
func (b *builder) devices() {
	own := stage + "/dev"
	for _, dir := range []string{own, own + "/pts", own + "/shm"} {
		b.Call("make "+dir, unix.SYS_MKDIRAT, here, dir, 0o755)
	}
	for _, name := range devicesOf {
		at := own + "/" + name
		b.Call("make "+at, unix.SYS_MKNODAT, here, at, unix.S_IFREG|0o644, 0)
		b.bind("/dev/"+name, at)
		b.seal(at, device)
	}
	b.Call("open /dev/shm to all", unix.SYS_FCHMODAT, here, own+"/shm", 0o1777)
	b.mount("devpts", own+"/pts", unix.MS_NOSUID|unix.MS_NOEXEC, fmt.Sprintf("newinstance,ptmxmode=0666,mode=0620,max=%d", b.plan.Limits.Terminals))
	if b.plan.Resets { // a reset finds POSIX message queues only where they are mounted
		b.Call("make /dev/mqueue", unix.SYS_MKDIRAT, here, own+"/mqueue", 0o755)
		b.mount("mqueue", own+"/mqueue", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "")
	}
	for _, link := range [][2]string{{"ptmx", "pts/ptmx"}, {"fd", "/proc/self/fd"}, {"stdin", "/proc/self/fd/0"}, {"stdout", "/proc/self/fd/1"}, {"stderr", "/proc/self/fd/2"}} {
		b.link(own+"/"+link[0], link[1])
	}
}

// link makes a symbolic link.
func (b *builder) link(at, to string) {
	b.Call("make the link "+at+" in the box", unix.SYS_SYMLINKAT, to, here, at)
}

// covers takes an empty directory, to cover others.
func (b *builder) covers() pid1.Slot {
	b.Call("make the folder that hides others", unix.SYS_MKDIRAT, here, stage+"/empty", 0o755)
	return b.clone(stage+"/empty", shown|unix.MOUNT_ATTR_NOEXEC)
}

// files puts the host's programs and the files of /etc in place.
func (b *builder) files(etc map[string][]byte) {
	if !b.plan.Image {
		for _, name := range topLevel {
			if to, err := os.Readlink("/" + name); err == nil {
				b.link("/"+name, to)
			}
		}
	}
	b.folder("/proc") // empty until proc is mounted, see apart
	for _, t := range b.trees {
		if t.folder {
			b.folder(t.path)
		} else {
			b.folder(filepath.Dir(t.path))
			b.Call("make "+t.path+" in the box", unix.SYS_MKNODAT, here, t.path, unix.S_IFREG|0o644, 0).Or(unix.EEXIST)
		}
		b.attach(t.fd, t.path)
		if t.folder {
			b.apart(t.path)
		}
	}
	names := make([]string, 0, len(etc))
	for name := range etc {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		b.folder("/etc")
		b.write("/etc/"+name, etc[name])
	}
}

// apart covers a folder of the host with an overlay of it, whose files are inodes of the box: locks, leases and
// watches on them meet neither the host nor another box. An overlay without a layer for changes needs a second
// lower layer: it is the folder /proc, which the mount of proc covers later. The kernel refuses overlays before
// 5.11, of folders with mounts in them, and of some file systems. Then the folder stays as it is.
func (b *builder) apart(path string) {
	if strings.ContainsAny(path, `:,\`) { // which options would need to quote
		return
	}
	b.Call("give "+path+" inodes of the box", unix.SYS_MOUNT, "overlay", path, "overlay", unix.MS_RDONLY|unix.MS_NOSUID|unix.MS_NODEV, "lowerdir="+path+":/proc,userxattr").
		Or(unix.EINVAL, unix.EPERM, unix.ENODEV, unix.ELOOP)
}

// closedProc can only be read, hiddenProc not even that.
var (
	closedProc = []string{"bus", "fs", "irq", "sysrq-trigger"}
	hiddenProc = []string{"acpi", "asound", "interrupts", "kallsyms", "kcore", "keys", "key-users", "kmsg", "kpagecgroup", "kpagecount",
		"kpageflags", "latency_stats", "modules", "pagetypeinfo", "sched_debug", "scsi", "slabinfo", "timer_list", "timer_stats",
		"vmallocinfo", "driver", "iomem", "ioports"}
)

// proc mounts /proc of the box's own processes and closes what tells of the host. Of
// processes that a command may not look into, the first one and its threads, it shows
// nothing: else their owner, uid 0 of the box, might write to some of their files.
func (b *builder) proc(null, empty pid1.Slot) {
	b.Call("mount proc in the box (a /proc with covered parts, as in a container, forbids it)", unix.SYS_MOUNT, "proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "hidepid=2")
	for _, name := range closedProc {
		b.bind("/proc/"+name, "/proc/"+name).Or(unix.ENOENT).Skip(1)
		b.seal("/proc/"+name, shown|unix.MOUNT_ATTR_NOEXEC)
	}
	covers := map[bool]struct {
		fd    pid1.Slot
		first string
	}{false: {fd: null}, true: {fd: empty}}
	for _, name := range hiddenProc {
		// What only the host's root may read needs no cover: no id of the box is that root.
		s, err := os.Lstat("/proc/" + name)
		if err != nil || s.Mode().Perm()&0o044 == 0 {
			continue
		}
		c := covers[s.IsDir()]
		if c.first == "" { // the detached mount, once, and then what it became
			b.attach(c.fd, "/proc/"+name)
			c.first = "/proc/" + name
			covers[s.IsDir()] = c
			continue
		}
		b.bind(c.first, "/proc/"+name).Or(unix.ENOENT)
	}
	if !b.plan.Image { // an empty folder for good: it cannot be removed where it covers others
		b.Call("remove the folder that hides others", unix.SYS_UNLINKAT, here, "/empty", unix.AT_REMOVEDIR).Or(unix.EBUSY)
	}
	b.sys("/proc/sys")
}

// sys forbids nested namespaces, which ends cloning mounts too, and makes the kernel's
// settings read-only.
func (b *builder) sys(sys string) {
	for _, kind := range []string{"user", "mnt", "pid", "net", "ipc", "uts", "cgroup", "time"} {
		b.set(sys+"/user/max_"+kind+"_namespaces", 0)
	}
	b.set(sys+"/user/max_inotify_instances", int64(b.plan.Limits.Inotify))
	b.set(sys+"/user/max_inotify_watches", int64(b.plan.Limits.Watches))
	if b.plan.ByRlimit { // else its cgroup counts it
		b.set(sys+"/kernel/shmall", max(b.plan.Limits.Memory>>12, 1)).Or(unix.ENOENT, unix.EACCES, unix.EPERM) // read-only before Linux 6.12
	}
	b.bind(sys, sys)
	b.seal(sys, shown|unix.MOUNT_ATTR_NOEXEC)
}

// set writes a setting of the box's own namespaces, unless this kernel has none for them.
func (b *builder) set(file string, value int64) pid1.Step {
	text := strconv.FormatInt(value, 10)
	open := b.Call("open "+file, unix.SYS_OPENAT, here, file, unix.O_WRONLY|unix.O_CLOEXEC).Or(unix.ENOENT).Skip(2)
	open.Into(b.fd)
	b.Call("set "+file+" to "+text, unix.SYS_WRITE, b.fd, text, len(text))
	b.Call("close "+file, unix.SYS_CLOSE, b.fd)
	return open
}

// folders makes what commands expect to find.
func (b *builder) folders() {
	open := []string{"/tmp", "/var/tmp"}
	for _, dir := range append([]string{"/etc", "/run", "/var/log", "/sys", b.plan.Home, b.plan.Dir}, open...) {
		b.folder(filepath.Clean(dir))
	}
	for _, dir := range open {
		step := b.Call("open "+dir+" of the box to all", unix.SYS_FCHMODAT, here, dir, 0o1777)
		if b.plan.Image { // which may have something else there
			step.Or(unix.EPERM, unix.ENOENT, unix.EROFS, unix.ENOTDIR)
		}
	}
	// An image may have anything in these places. Commands need them.
	for _, dir := range []string{b.plan.Home, b.plan.Dir} {
		b.Call("use "+dir+" of the box", unix.SYS_FACCESSAT, here, strings.TrimSuffix(dir, "/")+"/.", 0)
	}
}

// reserve is what the server itself may have beyond the processes of its commands, so
// that a box full of them still answers.
const reserve = 64

// settle sets what belongs to the process: name, loopback, limits.
func (b *builder) settle() {
	b.Call("set the host name", unix.SYS_SETHOSTNAME, "hermes", len("hermes"))
	b.Call("open a socket to raise lo", unix.SYS_SOCKET, unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0).Into(b.fd)
	lo := make([]byte, 40) // struct ifreq
	copy(lo, "lo")
	binary.NativeEndian.PutUint16(lo[16:], unix.IFF_UP|unix.IFF_RUNNING)
	b.Call("raise lo", unix.SYS_IOCTL, b.fd, unix.SIOCSIFFLAGS, b.Bytes(lo))
	l := b.plan.Limits
	b.limits([]rlimit{{unix.RLIMIT_NPROC, uint64(l.Processes + reserve)}, {unix.RLIMIT_CORE, 0}, {unix.RLIMIT_FSIZE, uint64(l.Disk)},
		{unix.RLIMIT_SIGPENDING, uint64(l.Signals + reserve)}, {unix.RLIMIT_MSGQUEUE, uint64(l.Queues)}, {unix.RLIMIT_MEMLOCK, maxLocked},
		{unix.RLIMIT_NICE, 0}, {unix.RLIMIT_RTPRIO, 0}})
	// From here on no process of the box can look into this one.
	b.Call("hide the memory of the first process", unix.SYS_PRCTL, unix.PR_SET_DUMPABLE, 0)
	b.Call("close what the box was built of", unix.SYS_CLOSE_RANGE, pid1.Free, 1<<32-1, 0)
}

// maxLocked is how many bytes of memory a process may lock, and a box of System V shared memory.
const maxLocked = 1 << 20

// rlimit is a resource limit, soft and hard.
type rlimit struct {
	resource int
	value    uint64
}

// limits sets limits of the process that plays the list, never to more than it may.
func (b *builder) limits(all []rlimit) { setLimits(b.List, all) }

func setLimits(l *pid1.List, all []rlimit) {
	for _, r := range all {
		v := r.value
		var own unix.Rlimit
		if unix.Getrlimit(r.resource, &own) == nil {
			v = min(v, own.Max)
		}
		l.Call(fmt.Sprintf("set limit %d to %d", r.resource, v), unix.SYS_PRLIMIT64, 0, r.resource, l.Words(v, v), 0)
	}
}
