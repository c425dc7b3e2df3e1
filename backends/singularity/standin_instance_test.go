//go:build linux

package singularity_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// plan is what an instance's first process gets as its argument.
type plan struct {
	Name, Root, Stage string
	Options           options
}

// start starts an instance and returns when it is ready.
func start(args []string) error {
	o, rest, err := parse(args, startOptions())
	if err == nil {
		err = o.together()
	}
	if err != nil || len(rest) < 2 {
		return usage("instance start: %v %v", rest, err)
	}
	image, name := rest[0], rest[1]
	if !validName(name) {
		return usage("instance name %q", name)
	}
	if os.Getuid() != 0 {
		return errors.New("the stand-in needs root")
	}
	root, err := rootOf(image)
	if err != nil {
		return err
	}
	p := plan{Name: name, Root: root, Stage: state("roots", name), Options: o}
	if err := errors.Join(os.MkdirAll(p.Stage, 0o700), os.MkdirAll(state("instances"), 0o700)); err != nil {
		return err
	}
	claim, err := os.OpenFile(record(name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("instance %s already exists", name)
	}
	defer claim.Close()
	pid, err := launch(p)
	if err != nil {
		forget(name)
		return err
	}
	return json.NewEncoder(claim).Encode(instance{Name: name, PID: pid, Img: image, Out: os.DevNull, Err: os.DevNull})
}

// launch starts the first process in its own namespaces.
func launch(p plan) (pid int, err error) {
	raw, err := json.Marshal(p)
	if err != nil {
		return 0, err
	}
	r, w, err := os.Pipe()
	if err != nil {
		return 0, err
	}
	defer r.Close()
	defer w.Close()
	c := exec.Command("/proc/self/exe")
	c.Args = []string{standInName, holder, string(raw)}
	c.ExtraFiles = []*os.File{w}
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Cloneflags: syscall.CLONE_NEWNS}
	for name, flag := range map[string]uintptr{
		"containall": syscall.CLONE_NEWPID | syscall.CLONE_NEWIPC,
		"net":        syscall.CLONE_NEWNET,
		"hostname":   syscall.CLONE_NEWUTS,
	} {
		if p.Options.has(name) {
			c.SysProcAttr.Cloneflags |= flag
		}
	}
	if err := c.Start(); err != nil {
		return 0, err
	}
	w.Close()
	answer := make([]byte, 4096)
	n, _ := r.Read(answer)
	if string(answer[:n]) != "ready" {
		c.Process.Kill()
		c.Wait()
		return 0, fmt.Errorf("container setup: %s", answer[:n])
	}
	pid = c.Process.Pid
	return pid, c.Process.Release()
}

// hold is the first process of an instance: it builds the root and collects orphans.
func hold(raw string) int {
	ready := os.NewFile(3, "ready")
	var p plan
	err := json.Unmarshal([]byte(raw), &p)
	if err == nil {
		err = p.enter()
	}
	if err != nil {
		fmt.Fprint(ready, err)
		return 255
	}
	news := make(chan os.Signal, 1)
	signal.Notify(news, unix.SIGCHLD, unix.SIGTERM, unix.SIGHUP, unix.SIGINT)
	fmt.Fprint(ready, "ready")
	ready.Close()
	for {
		<-news
		for {
			if pid, err := unix.Wait4(-1, nil, unix.WNOHANG, nil); pid <= 0 && err != unix.EINTR {
				break
			}
		}
	}
}

// enter builds the root of an instance around this process.
func (p plan) enter() error {
	if !p.Options.has("containall") {
		return errors.New("the stand-in makes closed instances only")
	}
	root := p.Stage + "/root"
	steps := []func() error{
		func() error { return mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "") },
		func() error { return mount("tmpfs", p.Stage, "tmpfs", unix.MS_NOSUID, "mode=0755,size=1g") },
		func() error { return p.overlay(root) },
		func() error { return p.binds(root) },
		func() error { return p.system(root) },
		func() error { return enterRoot(root) },
	}
	if name := p.Options.one("hostname"); name != "" {
		steps = append(steps, func() error { return unix.Sethostname([]byte(name)) })
	}
	if p.Options.has("net") {
		steps = append(steps, loopback)
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// overlay mounts the image, with memory or the folder of --overlay above it.
func (p plan) overlay(root string) error {
	above := p.Stage
	if dir := p.Options.one("overlay"); dir != "" {
		above, _, _ = strings.Cut(dir, ":")
	}
	for _, dir := range []string{root, above + "/upper", above + "/work"} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	return mount("overlay", root, "overlay", unix.MS_NODEV, "lowerdir="+p.Root+",upperdir="+above+"/upper,workdir="+above+"/work")
}

// binds shows what --bind, --home and --workdir name.
func (p plan) binds(root string) error {
	var all []string
	for _, v := range p.Options["bind"] {
		all = append(all, strings.Split(v, ",")...)
	}
	if h := p.Options.one("home"); h != "" {
		all = append(all, h)
	}
	if w := p.Options.one("workdir"); w != "" {
		for _, dir := range []string{"tmp", "var_tmp"} {
			path := filepath.Join(w, dir)
			if err := errors.Join(os.MkdirAll(path, 0o755), os.Chmod(path, 0o777|os.ModeSticky)); err != nil {
				return err
			}
			all = append(all, path+":/"+strings.ReplaceAll(dir, "_", "/"))
		}
	}
	for _, spec := range all {
		parts := strings.Split(spec, ":")
		dest := parts[min(1, len(parts)-1)]
		if err := bindTo(parts[0], root+dest, len(parts) == 3 && parts[2] == "ro"); err != nil {
			return err
		}
	}
	return nil
}

func bindTo(from, to string, readOnly bool) error {
	s, err := os.Stat(from)
	if err != nil {
		return err
	}
	if s.IsDir() {
		err = os.MkdirAll(to, 0o755)
	} else if err = os.MkdirAll(filepath.Dir(to), 0o755); err == nil {
		var f *os.File
		f, err = os.OpenFile(to, os.O_CREATE|os.O_WRONLY, 0o644)
		if err == nil {
			f.Close()
		}
	}
	if err == nil {
		err = mount(from, to, "", unix.MS_BIND|unix.MS_REC, "")
	}
	if err == nil && readOnly {
		err = mount("", to, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY|unix.MS_NOSUID|unix.MS_NODEV, "")
	}
	return err
}

// system mounts /proc and a /dev of a few devices.
func (p plan) system(root string) error {
	for _, dir := range []string{"/proc", "/dev"} {
		if err := os.MkdirAll(root+dir, 0o755); err != nil {
			return err
		}
	}
	err := errors.Join(mount("proc", root+"/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""),
		mount("tmpfs", root+"/dev", "tmpfs", unix.MS_NOSUID, "mode=0755,size=1m"))
	for _, dir := range []string{"/dev/pts", "/dev/shm", "/dev/mqueue"} {
		err = errors.Join(err, os.MkdirAll(root+dir, 0o755))
	}
	err = errors.Join(err, mount("devpts", root+"/dev/pts", "devpts", unix.MS_NOSUID|unix.MS_NOEXEC, "newinstance,ptmxmode=0666,mode=0620"),
		mount("tmpfs", root+"/dev/shm", "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=1777,size=64m"),
		mount("mqueue", root+"/dev/mqueue", "mqueue", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""))
	for _, name := range []string{"null", "zero", "full", "random", "urandom", "tty"} {
		err = errors.Join(err, bindTo("/dev/"+name, root+"/dev/"+name, false))
	}
	for from, to := range map[string]string{
		"ptmx":   "pts/ptmx",
		"fd":     "/proc/self/fd",
		"stdin":  "/proc/self/fd/0",
		"stdout": "/proc/self/fd/1",
		"stderr": "/proc/self/fd/2",
	} {
		err = errors.Join(err, os.Symlink(to, root+"/dev/"+from))
	}
	for _, path := range []string{"/proc/sys", "/proc/sysrq-trigger", "/proc/irq", "/proc/bus", "/proc/fs"} {
		if _, missing := os.Stat(root + path); missing == nil {
			err = errors.Join(err, bindTo(root+path, root+path, true))
		}
	}
	for _, path := range []string{"/proc/kcore", "/proc/keys", "/proc/kallsyms"} {
		if _, missing := os.Stat(root + path); missing == nil {
			err = errors.Join(err, bindTo("/dev/null", root+path, false))
		}
	}
	return err
}

func enterRoot(root string) error {
	err := os.Chdir(root)
	if err == nil {
		err = unix.PivotRoot(".", ".")
	}
	if err == nil {
		err = unix.Unmount(".", unix.MNT_DETACH)
	}
	if err == nil {
		err = os.Chdir("/")
	}
	return err
}

func loopback() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	r, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	r.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	return unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, r)
}

func mount(from, to, kind string, flags uintptr, data string) error {
	if err := unix.Mount(from, to, kind, flags, data); err != nil {
		return fmt.Errorf("mount %s at %s: %w", kind+from, to, err)
	}
	return nil
}

// execute becomes a command in an instance, without privileges.
func execute(args []string) error {
	o, rest, err := parse(args, execOptions())
	if err != nil || len(rest) < 2 {
		return usage("exec: %v %v", rest, err)
	}
	name, ok := strings.CutPrefix(rest[0], "instance://")
	if !ok {
		return usage("exec of %q: the stand-in runs in instances only", rest[0])
	}
	i, err := load(name)
	if err != nil {
		return err
	}
	enter, err := exec.LookPath("nsenter")
	if err != nil {
		return err
	}
	env := []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "APPTAINER_NAME=" + name}
	if !o.has("cleanenv") {
		env = slices.Concat(os.Environ(), env)
	}
	argv := []string{"nsenter", "--target", strconv.Itoa(i.PID), "--mount", "--pid", "--ipc", "--uts", "--net", "--",
		"setpriv", "--no-new-privs", "--bounding-set=-all", "--inh-caps=-all", "--clear-groups"}
	return syscall.Exec(enter, append(argv, rest[1:]...), env)
}
