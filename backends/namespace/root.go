package namespace

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// stage is where the new root is put together, in the box's own mount namespace.
const stage = "/tmp"

// root is what was opened on the host before the stage covers some of it.
type root struct {
	plan    plan
	image   *tree
	trees   map[string]tree // by path in the box
	devices map[string]tree
	links   map[string]string // symbolic links of the host's /
	copies  map[string]int    // files for /etc
	etc     map[string][]byte
}

// etcTrees are directories of /etc without which the host's programs do not work.
// Nothing else of /etc is shown.
var etcTrees = []string{"alternatives", "ssl", "pki", "crypto-policies", "fonts", "java"}

// etcFiles are copied, so that commands may change them.
var etcFiles = []string{"ld.so.cache", "ld.so.conf", "nsswitch.conf", "protocols", "services", "localtime", "timezone", "mime.types",
	"profile", "bash.bashrc", "inputrc", "shells", "debian_version", "os-release", "lsb-release", "magic", "login.defs"}

// maxEtc bounds a file of /etc. Those beyond maxCopy are shown instead of copied: a copy
// is memory of every box.
const (
	maxEtc  = 1 << 20
	maxCopy = 64 << 10
)

// topLevel are the entries of / that hold programs, besides /usr.
var topLevel = []string{"bin", "sbin", "lib", "lib32", "lib64", "libx32"}

// devicesOf are the devices of a box.
var devicesOf = []string{"null", "zero", "full", "random", "urandom", "tty"}

// collect opens all that the box takes from the host.
func collect(p plan, image int) (*root, error) {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return nil, fmt.Errorf("make mounts private: %w", err)
	}
	r := &root{plan: p, trees: map[string]tree{}, devices: map[string]tree{}, links: map[string]string{}, copies: map[string]int{}, etc: map[string][]byte{}}
	for _, name := range devicesOf {
		t, err := cloneTree("/dev/"+name, device)
		if err != nil {
			return nil, err
		}
		r.devices[name] = t
	}
	for _, path := range p.ReadOnly {
		if err := r.show(path); err != nil {
			return nil, err
		}
	}
	if p.Image {
		return r, r.openImage(image)
	}
	return r, r.openHost()
}

// openImage takes the image's mount.
func (r *root) openImage(fd int) error {
	t := tree{fd: fd, from: r.plan.ImageDir}
	if fd < 0 {
		var err error
		if t, err = cloneTree(r.plan.ImageDir, noSetuid); err != nil {
			return err
		}
	}
	r.image = &t
	return nil
}

// openHost takes the host's programs and the harmless part of /etc.
func (r *root) openHost() error {
	if err := r.show("/usr"); err != nil {
		return err
	}
	for _, name := range topLevel {
		path := "/" + name
		if link, err := os.Readlink(path); err == nil {
			r.links[path] = link
		} else if s, err := os.Stat(path); err == nil && s.IsDir() {
			if err := r.show(path); err != nil {
				return err
			}
		}
	}
	for _, name := range etcTrees {
		path := "/etc/" + name
		var st unix.Stat_t
		if err := unix.Lstat(path, &st); err == nil && st.Mode&unix.S_IFMT == unix.S_IFDIR {
			if err := r.show(path); err != nil {
				return err
			}
		}
	}
	for _, name := range etcFiles {
		if err := r.openEtc(name); err != nil {
			return err
		}
	}
	r.etc["passwd"] = fmt.Appendf(nil, "root:x:0:0:root:%s:/bin/sh\nnobody:x:65534:65534:nobody:/:/usr/sbin/nologin\n", r.plan.Home)
	r.etc["group"] = []byte("root:x:0:\nnogroup:x:65534:\n")
	r.etc["hosts"] = []byte("127.0.0.1 localhost hermes\n::1 localhost\n")
	r.etc["hostname"] = []byte("hermes\n")
	return nil
}

// openEtc opens a file of /etc, or shows it where it is large.
func (r *root) openEtc(name string) error {
	fd, err := unix.Open("/etc/"+name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	var s unix.Stat_t
	err = unix.Fstat(fd, &s)
	switch {
	case err != nil || s.Mode&unix.S_IFMT != unix.S_IFREG || s.Size > maxEtc:
		err = nil
	case s.Size > maxCopy:
		err = r.show("/etc/" + name)
	default:
		r.copies[name] = fd
		return nil
	}
	unix.Close(fd)
	return err
}

// show takes a directory or file of the host, read-only.
func (r *root) show(path string) error {
	t, err := cloneTree(path, shown)
	if err == nil {
		r.trees[path] = t
	}
	return err
}

// enter builds the root and makes it the only one.
func (r *root) enter() error {
	options := fmt.Sprintf("mode=0755,size=%d,nr_inodes=%d", r.plan.Limits.Disk, max(r.plan.Limits.Disk/4096, 16384))
	if err := mountFS("tmpfs", stage, unix.MS_NOSUID|unix.MS_NODEV, options); err != nil {
		return err
	}
	at := stage
	if r.image != nil {
		at = stage + "/root"
		if err := r.overlay(at); err != nil {
			return err
		}
	}
	for _, step := range []func(string) error{r.files, r.dev, r.proc, r.folders} {
		if err := step(at); err != nil {
			return err
		}
	}
	return pivot(at)
}

// overlay mounts the image with the box's own memory above it.
func (r *root) overlay(at string) error {
	for _, name := range []string{"lower", "upper", "scratch", "root"} {
		if err := os.Mkdir(stage+"/"+name, 0o755); err != nil {
			return err
		}
	}
	if err := r.image.attach(stage + "/lower"); err != nil {
		return err
	}
	return mountFS("overlay", at, unix.MS_NOSUID|unix.MS_NODEV,
		"lowerdir="+stage+"/lower,upperdir="+stage+"/upper,workdir="+stage+"/scratch,userxattr")
}

// files puts the host's programs and the files of /etc in place.
func (r *root) files(at string) error {
	for path, link := range r.links {
		if err := os.Symlink(link, at+path); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	for path, t := range r.trees {
		if err := t.attach(at + path); err != nil {
			return err
		}
	}
	if len(r.etc) == 0 {
		return nil
	}
	if err := makeDirs(at + "/etc"); err != nil {
		return err
	}
	for name, from := range r.copies {
		if err := copyFile(at+"/etc/"+name, from); err != nil {
			return fmt.Errorf("copy /etc/%s into the box: %w", name, err)
		}
	}
	for name, raw := range r.etc {
		if err := writeFile(at+"/etc/"+name, raw); err != nil {
			return err
		}
	}
	return nil
}

// copyFile copies a file, which it closes, within the kernel: nothing of it stays in the server's
// memory.
func copyFile(to string, from int) error {
	defer unix.Close(from)
	fd, err := unix.Open(to, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_CLOEXEC, 0o644)
	if err != nil {
		return err
	}
	for {
		n, err := unix.Sendfile(fd, from, nil, maxEtc)
		if err == unix.EINTR || err == nil && n > 0 {
			continue
		}
		return errors.Join(err, unix.Close(fd))
	}
}

// dev builds /dev: six devices, terminals of the box's own, shared memory within the
// bounds of the disk.
func (r *root) dev(at string) error {
	own := at + "/dev"
	if r.image != nil {
		own = stage + "/dev"
	}
	for _, dir := range []string{own, own + "/pts", own + "/shm"} {
		if err := makeDirs(dir); err != nil {
			return err
		}
	}
	for name, t := range r.devices {
		if err := t.attach(own + "/" + name); err != nil {
			return err
		}
	}
	if err := unix.Chmod(own+"/shm", 0o1777); err != nil {
		return err
	}
	if err := mountFS("devpts", own+"/pts", unix.MS_NOSUID|unix.MS_NOEXEC, "newinstance,ptmxmode=0666,mode=0620"); err != nil {
		return err
	}
	if r.plan.Resets { // a reset finds POSIX message queues only where they are mounted
		if err := os.Mkdir(own+"/mqueue", 0o755); err != nil {
			return err
		}
		if err := mountFS("mqueue", own+"/mqueue", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
			return err
		}
	}
	for name, to := range map[string]string{"ptmx": "pts/ptmx", "fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2"} {
		if err := unix.Symlink(to, own+"/"+name); err != nil {
			return err
		}
	}
	if r.image == nil {
		return nil
	}
	t, err := cloneTree(own, 0)
	if err != nil {
		return err
	}
	return t.attach(at + "/dev")
}

// closedProc can only be read, hiddenProc not even that.
var (
	closedProc = []string{"bus", "fs", "irq", "sysrq-trigger"}
	hiddenProc = []string{"acpi", "asound", "interrupts", "kallsyms", "kcore", "keys", "key-users", "kmsg", "kpagecgroup", "kpagecount",
		"kpageflags", "latency_stats", "modules", "pagetypeinfo", "sched_debug", "scsi", "slabinfo", "timer_list", "timer_stats",
		"vmallocinfo", "driver", "iomem", "ioports"}
)

// proc mounts /proc of the box's own processes and closes what tells of the host.
func (r *root) proc(at string) error {
	own, empty := at+"/proc", stage+"/empty"
	if err := errors.Join(makeDirs(own), makeDirs(empty)); err != nil {
		return err
	}
	if err := mountFS("proc", own, unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return fmt.Errorf("%w (a /proc with covered parts, as in a container, forbids it)", err)
	}
	for _, name := range closedProc {
		if err := again(own+"/"+name, shown|unix.MOUNT_ATTR_NOEXEC); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	for _, name := range hiddenProc {
		if err := hide(own+"/"+name, empty); err != nil {
			return err
		}
	}
	if err := unix.Rmdir(empty); err != nil { // where it covers others it stays, empty for good
		return fmt.Errorf("remove the folder that hides others: %w", err)
	}
	return closeSys(own + "/sys")
}

// closeSys forbids nested namespaces, which ends cloning mounts too, and makes the
// kernel's settings read-only.
func closeSys(sys string) error {
	t, err := cloneTree(sys, shown|unix.MOUNT_ATTR_NOEXEC)
	if err != nil {
		return err
	}
	for _, kind := range []string{"user", "mnt", "pid", "net", "ipc", "uts", "cgroup", "time"} {
		if err := writeFile(sys+"/user/max_"+kind+"_namespaces", []byte("0")); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("forbid nested %s namespaces: %w", kind, err)
		}
	}
	return t.attach(sys)
}

// hide covers a file with /dev/null and a directory with an empty one. What only the
// host's root may read needs no cover: no id of the box is that root.
func hide(path, empty string) error {
	var s unix.Stat_t
	if err := unix.Lstat(path, &s); err != nil || s.Mode&0o044 == 0 {
		return nil
	}
	cover, attrs := "/dev/null", uint64(shown)
	if s.Mode&unix.S_IFMT == unix.S_IFDIR {
		cover, attrs = empty, shown|unix.MOUNT_ATTR_NOEXEC
	}
	t, err := cloneTree(cover, attrs)
	if err != nil {
		return err
	}
	return t.attach(path)
}

// folders makes what commands expect to find.
func (r *root) folders(at string) error {
	dirs := []string{"/etc", "/run", "/var/tmp", "/var/log", "/sys", "/tmp"}
	if r.image == nil { // all there is so far was made here
		for _, dir := range dirs {
			if err := makeDirs(at + dir); err != nil {
				return fmt.Errorf("make %s in the box: %w", dir, err)
			}
		}
		dirs = nil
	}
	if err := makeInside(at, append(dirs, r.plan.Home, r.plan.Dir)); err != nil {
		return err
	}
	for _, dir := range []string{"/tmp", "/var/tmp"} {
		if err := unix.Chmod(at+dir, 0o1777); err != nil && r.image == nil {
			return fmt.Errorf("open %s of the box to all: %w", dir, err)
		}
	}
	return nil
}

// makeInside makes directories below at. A symbolic link of an image must not lead out.
func makeInside(at string, dirs []string) error {
	inside, err := os.OpenRoot(at)
	if err != nil {
		return err
	}
	defer inside.Close()
	for _, dir := range dirs {
		name := strings.TrimPrefix(filepath.Clean(dir), "/")
		if name == "" {
			continue
		}
		if err := inside.MkdirAll(name, 0o755); err != nil {
			return fmt.Errorf("make %s in the box: %w", dir, err)
		}
	}
	return nil
}

// pivot makes at the root and lets go of the host's.
func pivot(at string) error {
	if err := os.Chdir(at); err != nil {
		return err
	}
	if err := unix.PivotRoot(".", "."); err != nil {
		return fmt.Errorf("change the root: %w", err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return fmt.Errorf("leave the host's root: %w", err)
	}
	return os.Chdir("/")
}
