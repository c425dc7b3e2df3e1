//go:build linux

package escapes

import (
	"errors"
	"maps"
	"os"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// attempts are ways out of a box, or towards the host, by system call or file. Each runs
// as a separate program in the box; no error means that it worked. Where nothing forbids
// them they work and harm nothing, but for the few of [unproven].
func attempts() map[string]func() error {
	all := map[string]func() error{}
	for _, part := range []map[string]func() error{mounts(), namespaces(), processes(), kernel(), settings(), devices(), networks(), files()} {
		for name := range part {
			if all[name] != nil {
				panic("two attempts have the name " + name)
			}
		}
		maps.Copy(all, part)
	}
	return all
}

func mounts() map[string]func() error {
	return map[string]func() error{
		"mount a tmpfs":         mounted("tmpfs"),
		"mount a new proc":      mounted("proc"),
		"mount sysfs":           mounted("sysfs"),
		"mount cgroup2":         mounted("cgroup2"),
		"mount debugfs":         mounted("debugfs"),
		"mount devtmpfs":        mounted("devtmpfs"),
		"mount a devpts":        mounted("devpts"),
		"mount mqueue":          mounted("mqueue"),
		"bind the root again":   func() error { return bound("/") },
		"bind /proc again":      func() error { return bound("/proc") },
		"remount /usr writable": func() error { return past(unix.Mount("", "/usr", "", unix.MS_REMOUNT|unix.MS_BIND, ""), unix.EINVAL) },
		"share mounts":          func() error { return unix.Mount("", "/", "", unix.MS_SHARED, "") },
		"unmount /proc":         func() error { return unix.Unmount("/proc", unix.MNT_DETACH) },
		"unmount /proc/sys":     func() error { return past(unix.Unmount("/proc/sys", unix.MNT_DETACH), unix.EINVAL) },
		"fsopen":                func() error { _, err := unix.Fsopen("tmpfs", 0); return err },
		"fspick":                func() error { _, err := unix.Fspick(unix.AT_FDCWD, "/", 0); return err },
		"open_tree":             func() error { _, err := unix.OpenTree(unix.AT_FDCWD, "/", unix.OPEN_TREE_CLONE); return err },
		"open_tree_attr":        raw(later(unix.EINVAL), 467, ^uintptr(99), text("/"), unix.OPEN_TREE_CLONE, buffer(), 32),
		"move_mount": func() error {
			return past(unix.MoveMount(unix.AT_FDCWD, "/proc", unix.AT_FDCWD, "/tmp", 0), unix.EINVAL, unix.EBUSY)
		},
		"mount_setattr": func() error {
			return past(unix.MountSetattr(unix.AT_FDCWD, "/", 0, &unix.MountAttr{Attr_clr: unix.MOUNT_ATTR_RDONLY}), unix.EINVAL)
		},
		"pivot_root": func() error { return past(unix.PivotRoot("/tmp", "/tmp"), unix.EINVAL, unix.EBUSY) },
		"chroot":     func() error { return unix.Chroot("/tmp") },
	}
}

// bound binds a folder elsewhere and back.
func bound(path string) error {
	dir, err := os.MkdirTemp("", "bind")
	if err != nil {
		return err
	}
	defer os.Remove(dir)
	if err := unix.Mount(path, dir, "", unix.MS_BIND, ""); err != nil {
		return err
	}
	return unix.Unmount(dir, unix.MNT_DETACH)
}

func namespaces() map[string]func() error {
	return map[string]func() error{
		"unshare a user ns":   func() error { return past(unix.Unshare(unix.CLONE_NEWUSER), unix.EINVAL) }, // a program of many threads may not
		"unshare a mount ns":  unshared(unix.CLONE_NEWNS),
		"unshare a net ns":    unshared(unix.CLONE_NEWNET),
		"unshare a pid ns":    unshared(unix.CLONE_NEWPID),
		"unshare an ipc ns":   unshared(unix.CLONE_NEWIPC),
		"unshare a uts ns":    unshared(unix.CLONE_NEWUTS),
		"unshare a cgroup ns": unshared(unix.CLONE_NEWCGROUP),
		"unshare a time ns":   unshared(unix.CLONE_NEWTIME),
		"clone a user ns":     forked(unix.CLONE_NEWUSER),
		"clone a mount ns":    forked(unix.CLONE_NEWNS),
		"clone a pid ns":      forked(unix.CLONE_NEWPID),
		"clone a net ns":      forked(unix.CLONE_NEWNET),
		"clone3 a user ns":    forked3(unix.CLONE_NEWUSER),
		"clone3 a mount ns":   forked3(unix.CLONE_NEWNS),
		"setns": func() error {
			fd, err := unix.Open("/proc/self/ns/uts", unix.O_RDONLY|unix.O_CLOEXEC, 0)
			if err != nil {
				return err
			}
			return unix.Setns(fd, unix.CLONE_NEWUTS)
		},
		"setns by a pidfd": func() error {
			fd, err := unix.PidfdOpen(os.Getppid(), 0)
			if err != nil {
				return err
			}
			return unix.Setns(fd, unix.CLONE_NEWUTS|unix.CLONE_NEWNET)
		},
		"namespaces of pid 1":       func() error { _, err := os.Readlink("/proc/1/ns/net"); return err },
		"open a namespace of pid 1": openFor("/proc/1/ns/mnt", os.O_RDONLY),
		"namespaces of the parent":  func() error { return openFor(parent("/proc/%d/ns/user"), os.O_RDONLY)() },
	}
}

func unshared(flags int) func() error { return func() error { return unix.Unshare(flags) } }

// landmark lies at one address in every process of this program, box server and test too.
var landmark = [8]byte{'l', 'a', 'n', 'd'}

// across reads or writes memory of a process by a system call.
func across(nr uintptr, pid int) error {
	var mine [8]byte
	local := unix.Iovec{Base: &mine[0], Len: 8}
	remote := unix.RemoteIovec{Base: uintptr(unsafe.Pointer(&landmark)), Len: 8}
	copy(mine[:], landmark[:])
	return past(call(nr, uintptr(pid), uintptr(unsafe.Pointer(&local)), 1, uintptr(unsafe.Pointer(&remote)), 1, 0), unix.EFAULT)
}

func pidfdGet(pid int) error {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return err
	}
	_, err = unix.PidfdGetfd(fd, 1, 0)
	return past(err, unix.EBADF)
}

// attach traces a process and lets go of it.
func attach(pid int) error {
	if err := unix.PtraceSeize(pid); err != nil {
		return err
	}
	return past(unix.PtraceDetach(pid), unix.ESRCH) // it was not stopped: it goes on, and the trace ends with us
}

func processes() map[string]func() error {
	return map[string]func() error{
		"ptrace pid 1":               func() error { return attach(1) },
		"ptrace the parent":          func() error { return attach(os.Getppid()) },
		"memory of pid 1":            openFor("/proc/1/mem", os.O_RDWR),
		"memory of the parent":       func() error { return openFor(parent("/proc/%d/mem"), os.O_RDWR)() },
		"read memory of pid 1":       func() error { return across(unix.SYS_PROCESS_VM_READV, 1) },
		"read memory of the parent":  func() error { return across(unix.SYS_PROCESS_VM_READV, os.Getppid()) },
		"write memory of the parent": func() error { return across(unix.SYS_PROCESS_VM_WRITEV, os.Getppid()) },
		"map of pid 1":               look("/proc/1/maps"),
		"map files of pid 1":         list("/proc/1/map_files"),
		"pages of pid 1":             openFor("/proc/1/pagemap", os.O_RDONLY),
		"stack of pid 1":             look("/proc/1/stack"),
		"system call of pid 1":       look("/proc/1/syscall"),
		"auxiliary vector of pid 1":  look("/proc/1/auxv"),
		"root of pid 1":              list("/proc/1/root/."),
		"cwd of pid 1":               list("/proc/1/cwd/"),
		"program of pid 1":           openFor("/proc/1/exe", os.O_RDONLY),
		"change the program of pid 1": func() error {
			return openFor("/proc/1/exe", os.O_WRONLY)()
		},
		"change the program of the parent": func() error { return openFor(parent("/proc/%d/exe"), os.O_WRONLY)() },
		"environment of pid 1":             look("/proc/1/environ"),
		"environment of the parent":        func() error { return look(parent("/proc/%d/environ"))() },
		"descriptors of pid 1":             func() error { return opened("/proc/1/fd", os.O_RDONLY) },
		"links of descriptors":             func() error { _, err := os.Readlink("/proc/1/fd/0"); return err },
		"descriptors of the parent":        func() error { return opened(parent("/proc/%d/fd"), os.O_RDONLY) },
		"pidfd_getfd pid 1":                func() error { return pidfdGet(1) },
		"pidfd_getfd the parent":           func() error { return pidfdGet(os.Getppid()) },
		"compare with pid 1":               raw(nil, unix.SYS_KCMP, 1, 1, 1 /* VM */, 0, 0),
		"move pages of pid 1":              raw(later(unix.ENODEV), unix.SYS_MIGRATE_PAGES, 1, 64, buffer(), buffer()),
		"be killed later than pid 1":       rewrite("/proc/1/oom_score_adj"),
		"be killed last": func() error {
			return os.WriteFile("/proc/self/oom_score_adj", []byte("-1000"), 0)
		},
		"dumps of pid 1":              rewriteAs("0x", "/proc/1/coredump_filter"), // it shows bare hexadecimal, and takes that for octal
		"login of pid 1":              rewrite("/proc/1/loginuid"),
		"slack of pid 1's timers":     rewrite("/proc/1/timerslack_ns"),
		"limits of pid 1":             limitsOf(1),
		"priority of pid 1":           func() error { return unix.Setpriority(unix.PRIO_PROCESS, 1, 0) },
		"cores of pid 1":              func() error { var s unix.CPUSet; s.Set(0); s.Set(1); return unix.SchedSetaffinity(1, &s) },
		"scheduling of pid 1":         raw(nil, unix.SYS_SCHED_SETSCHEDULER, 1, 0, buffer()),
		"disk priority of pid 1":      raw(nil, unix.SYS_IOPRIO_SET, 1, 1, 2<<13|4),
		"become another user":         func() error { return call(unix.SYS_SETUID, 1000) },
		"become another group":        func() error { return call(unix.SYS_SETGID, 1000) },
		"set groups":                  func() error { return call(unix.SYS_SETGROUPS, 1, buffer()) },
		"be another user for files":   filesAs,
		"take capabilities":           takeCapability,
		"real-time scheduling":        func() error { return realTime(1) },
		"deadline scheduling":         deadlineScheduling,
		"a negative priority":         func() error { return unix.Setpriority(unix.PRIO_PROCESS, 0, -5) },
		"raise the process limit":     unlimited(unix.RLIMIT_NPROC),
		"raise the file limit":        unlimited(unix.RLIMIT_FSIZE),
		"raise the memory-lock limit": unlimited(unix.RLIMIT_MEMLOCK),
		"raise the queue limit":       unlimited(unix.RLIMIT_MSGQUEUE),
		"kill pid 1":                  killInit,
		"new memory map":              func() error { return past(unix.Prctl(unix.PR_SET_MM, 6 /* START_STACK */, 1, 0, 0), unix.EINVAL) },
	}
}

// filesAs is another user for files alone, which the call reports only when it is made again.
func filesAs() error {
	if _, err := unix.SetfsuidRetUid(1000); err != nil {
		return err
	}
	now, err := unix.SetfsuidRetUid(-1)
	if err == nil && now != 1000 {
		return unix.EPERM
	}
	return err
}

func limitsOf(pid int) func() error {
	return func() error {
		var was unix.Rlimit
		if err := unix.Prlimit(pid, unix.RLIMIT_CORE, nil, &was); err != nil {
			return err
		}
		return unix.Prlimit(pid, unix.RLIMIT_CORE, &was, nil)
	}
}

func realTime(priority int32) error {
	param := priority
	return call(unix.SYS_SCHED_SETSCHEDULER, 0, 1 /* FIFO */, uintptr(unsafe.Pointer(&param)))
}

func deadlineScheduling() error {
	return unix.SchedSetAttr(0, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: 6, Runtime: 1e6, Deadline: 1e7, Period: 1e7}, 0)
}

func kernel() map[string]func() error {
	return map[string]func() error{
		"syslog":         raw(nil, unix.SYS_SYSLOG, 3, buffer(), 4096),
		"join a keyring": func() error { _, err := unix.KeyctlJoinSessionKeyring("x"); return err },
		"add a key": func() error {
			_, err := unix.AddKey("user", "x", []byte("y"), unix.KEY_SPEC_PROCESS_KEYRING)
			return err
		},
		"request a key": func() error {
			_, err := unix.RequestKey("user", "x", "", 0)
			return past(err, unix.ENOKEY, unix.ENOENT)
		},
		"session keyring": func() error {
			_, err := unix.KeyctlGetKeyringID(unix.KEY_SPEC_SESSION_KEYRING, false)
			return past(err, unix.ENOKEY)
		},
		"user keyring":          func() error { _, err := unix.KeyctlGetKeyringID(unix.KEY_SPEC_USER_KEYRING, true); return err },
		"bpf":                   raw(later(unix.EINVAL, unix.E2BIG), unix.SYS_BPF, 0, buffer(), 72),
		"perf events":           perf,
		"userfaultfd":           raw(nil, unix.SYS_USERFAULTFD, 0),
		"io_uring":              raw(nil, unix.SYS_IO_URING_SETUP, 4, buffer()),
		"io_uring_register":     raw(later(unix.EBADF, unix.EINVAL), unix.SYS_IO_URING_REGISTER, ^uintptr(0), 0, 0, 0),
		"reboot":                func() error { return unix.Reboot(unix.LINUX_REBOOT_CMD_CAD_OFF) },
		"load a kernel":         raw(nil, unix.SYS_KEXEC_LOAD, 0, 0, 0, 0),
		"load a module":         func() error { return past(unix.InitModule([]byte("x"), ""), unix.ENOEXEC) },
		"load a module's file":  func() error { return past(unix.FinitModule(0, "", 0), unix.EBADF, unix.ENOEXEC, unix.EINVAL, unix.EIO) },
		"remove a module":       func() error { return past(unix.DeleteModule("nosuch", 0), unix.ENOENT) },
		"swap":                  raw(later(unix.ENOENT), unix.SYS_SWAPON, text("/tmp/nosuch"), 0),
		"no swap":               raw(later(unix.ENOENT), unix.SYS_SWAPOFF, text("/tmp/nosuch")),
		"accounts":              raw(nil, unix.SYS_ACCT, 0),
		"quotas":                raw(later(unix.ENOENT, unix.ENODEV, unix.ENOTBLK, unix.ENOSYS, unix.ESRCH), unix.SYS_QUOTACTL, 0x800002<<8, text("/dev/null"), 0, buffer()),
		"set the clock":         setClock,
		"bend the clock":        func() error { _, err := unix.Adjtimex(&unix.Timex{Modes: 0x4000 /* TICK */, Tick: 10000}); return err },
		"set the host's name":   func() error { name, err := os.Hostname(); return errors.Join(err, unix.Sethostname([]byte(name))) },
		"set the domain's name": func() error { return unix.Setdomainname([]byte("(none)")) },
		"hang up terminals":     raw(nil, unix.SYS_VHANGUP),
		"type into a terminal":  typeIn,
		"watch a file system": func() error {
			_, err := unix.FanotifyInit(unix.FAN_CLASS_CONTENT, unix.O_RDONLY)
			return err
		},
		"open by handle": byHandle,
	}
}

func perf() error {
	attr := unix.PerfEventAttr{Type: unix.PERF_TYPE_SOFTWARE, Config: unix.PERF_COUNT_SW_CPU_CLOCK, Size: uint32(unsafe.Sizeof(unix.PerfEventAttr{}))}
	_, err := unix.PerfEventOpen(&attr, -1, 0, -1, 0)
	return err
}

// setClock sets the clock to what it shows.
func setClock() error {
	now := time.Now()
	return unix.ClockSettime(unix.CLOCK_REALTIME, &unix.Timespec{Sec: now.Unix(), Nsec: int64(now.Nanosecond())})
}

// typeIn puts a letter into the input of a terminal.
func typeIn() error {
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	return call(unix.SYS_IOCTL, uintptr(fd), unix.TIOCSTI, text("x"))
}

// byHandle opens a file by the number of its inode, past all folders (as "shocker" did).
func byHandle() error {
	handle, _, err := unix.NameToHandleAt(unix.AT_FDCWD, "/", 0)
	if err != nil {
		return past(call(unix.SYS_OPEN_BY_HANDLE_AT, ^uintptr(99), buffer(), 0), unix.EINVAL, unix.ESTALE)
	}
	fd, err := unix.Open("/", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	_, err = unix.OpenByHandleAt(fd, handle, unix.O_RDONLY)
	return past(err, unix.ESTALE)
}

// settings are files by which the kernel lets itself be looked at and changed.
func settings() map[string]func() error {
	return map[string]func() error{
		"run on a core dump":        rewrite("/proc/sys/kernel/core_pattern"),
		"run on a missing module":   rewrite("/proc/sys/kernel/modprobe"),
		"run on a device":           rewrite("/sys/kernel/uevent_helper"),
		"run on a format":           openFor("/proc/sys/fs/binfmt_misc/register", os.O_WRONLY),
		"run on an empty cgroup":    releaseAgent,
		"leave the cgroup":          leaveCgroup,
		"magic keys":                openFor("/proc/sysrq-trigger", os.O_WRONLY),
		"allow namespaces again":    rewrite("/proc/sys/user/max_user_namespaces"),
		"drop the host's caches":    openFor("/proc/sys/vm/drop_caches", os.O_WRONLY),
		"overcommit":                rewrite("/proc/sys/vm/overcommit_memory"),
		"panic on a full memory":    rewrite("/proc/sys/vm/panic_on_oom"),
		"addresses at random":       rewrite("/proc/sys/kernel/randomize_va_space"),
		"numbers of processes":      rewrite("/proc/sys/kernel/pid_max"),
		"files of the whole host":   rewrite("/proc/sys/fs/file-max"),
		"links that are protected":  rewrite("/proc/sys/fs/protected_symlinks"),
		"forward packets":           rewrite("/proc/sys/net/ipv4/ip_forward"),
		"who may trace":             rewrite("/proc/sys/kernel/yama/ptrace_scope"),
		"who reads kernel messages": rewrite("/proc/sys/kernel/dmesg_restrict"),
		"large pages":               openFor("/sys/kernel/mm/transparent_hugepage/enabled", os.O_WRONLY),
		"interrupts":                rewrite("/proc/irq/default_smp_affinity"),
		"memory of the kernel":      look("/proc/kcore"),
		"messages of the kernel":    look("/proc/kmsg"),
		"counts of pages":           look("/proc/kpagecount"),
		"allocations of the kernel": look("/proc/vmallocinfo"),
		"caches of the kernel":      look("/proc/slabinfo"),
		"timers of the host":        look("/proc/timer_list"),
		"addresses of the kernel":   kernelAddresses,
		"list keys":                 look("/proc/keys"),
		"change a host program":     openFor("/usr/bin/env", os.O_WRONLY),
		"new host program":          newProgram,
		"host passwords":            look("/etc/shadow"),
		"host devices":              list("/sys/class"),
		"host firmware":             list("/sys/firmware"),
		"host disks":                list("/sys/block"),
		"host security":             list("/sys/kernel/security"),
		"host cgroups":              list("/sys/fs/cgroup"),
		"write to the host's bus":   func() error { return opened("/proc/bus/pci/00", os.O_RDWR) },
	}
}

func newProgram() error {
	f, err := os.OpenFile("/usr/bin/hermes-escape", os.O_WRONLY|os.O_CREATE, 0o644)
	if err != nil {
		return err
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

// releaseAgent finds a cgroup whose program at the end can be set.
func releaseAgent() error {
	err := error(unix.ENOENT)
	for _, dir := range []string{"memory", "cpu", "pids", "freezer", "systemd", "rdma", "misc"} {
		if err = rewrite("/sys/fs/cgroup/" + dir + "/release_agent")(); err == nil {
			return nil
		}
	}
	return err
}

// leaveCgroup opens the list of processes of the outermost cgroup that can be seen.
func leaveCgroup() error {
	err := error(unix.ENOENT)
	for _, dir := range []string{".", "memory", "cpu", "pids", "unified"} {
		if err = openFor("/sys/fs/cgroup/"+dir+"/cgroup.procs", os.O_WRONLY)(); err == nil {
			return nil
		}
	}
	return err
}

func kernelAddresses() error {
	f, err := os.Open("/proc/kallsyms")
	if err != nil {
		return err
	}
	defer f.Close()
	first := make([]byte, 16)
	if _, err := f.Read(first); err != nil {
		return err
	}
	if string(first) == "0000000000000000" {
		return errors.New("all are 0")
	}
	return nil
}

func devices() map[string]func() error {
	return map[string]func() error{
		"make a disk":             node(unix.S_IFBLK, 7, 0),
		"make a memory device":    node(unix.S_IFCHR, 1, 1),
		"make a tunnel device":    node(unix.S_IFCHR, 10, 200),
		"make a FUSE device":      node(unix.S_IFCHR, 10, 229),
		"make kernel messages":    node(unix.S_IFCHR, 1, 11),
		"read kernel messages":    openFor("/dev/kmsg", os.O_RDONLY),
		"write kernel messages":   openFor("/dev/kmsg", os.O_WRONLY),
		"read memory device":      openFor("/dev/mem", os.O_RDONLY),
		"ports":                   openFor("/dev/port", os.O_RDWR),
		"a disk in a file":        openFor("/dev/loop-control", os.O_RDWR),
		"a disk of the host":      openFor("/dev/loop0", os.O_RDONLY),
		"a file system by FUSE":   openFor("/dev/fuse", os.O_RDWR),
		"a virtual machine":       openFor("/dev/kvm", os.O_RDWR),
		"a tunnel":                openFor("/dev/net/tun", os.O_RDWR),
		"a console":               openFor("/dev/tty0", os.O_RDWR),
		"automatic mounts":        openFor("/dev/autofs", os.O_RDWR),
		"control of btrfs":        openFor("/dev/btrfs-control", os.O_RDWR),
		"latency of cores":        openFor("/dev/cpu_dma_latency", os.O_RDWR),
		"a device for faults":     openFor("/dev/userfaultfd", os.O_RDWR),
		"numbers of the hardware": openFor("/dev/hwrng", os.O_RDONLY),
	}
}

func networks() map[string]func() error {
	return map[string]func() error{
		"vsock":            socket(unix.AF_VSOCK, unix.SOCK_STREAM, 0),
		"packet socket":    socket(unix.AF_PACKET, unix.SOCK_RAW, 0),
		"raw socket":       socket(unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_ICMP),
		"raw IPv6 socket":  socket(unix.AF_INET6, unix.SOCK_RAW, unix.IPPROTO_ICMPV6),
		"crypto socket":    socket(unix.AF_ALG, unix.SOCK_SEQPACKET, 0),
		"netfilter socket": socket(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_NETFILTER),
		"kernel events":    socket(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_KOBJECT_UEVENT),
		"audit socket":     socket(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_AUDIT),
		"generic netlink":  socket(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_GENERIC),
		"transforms":       socket(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_XFRM),
		"key socket":       socket(15, unix.SOCK_RAW, 2),
		"XDP socket":       socket(unix.AF_XDP, unix.SOCK_RAW, 0),
		"the internet":     route("192.0.2.1:80"),
		"names":            route("192.0.2.53:53"),
		"metadata":         route("169.254.169.254:80"),
		"private networks": route("10.0.0.1:22"),
		"all by broadcast": broadcast,
	}
}

// route finds a way to an address without sending anything.
func route(address string) func() error { return dial("udp4", address) }

func broadcast() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_BROADCAST, 1); err != nil {
		return err
	}
	return unix.Connect(fd, &unix.SockaddrInet4{Port: 67, Addr: [4]byte{255, 255, 255, 255}})
}

// files are rights that a file could give to who runs or follows it.
func files() map[string]func() error {
	return map[string]func() error{
		"capabilities of a file":    attribute("security.capability", []byte{0, 0, 0, 2, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}),
		"a trusted attribute":       attribute("trusted.escape", []byte("x")),
		"a label of a file":         attribute("security.escape", []byte("x")),
		"a link to a host file":     linked("/usr/bin/env"),
		"a link to pid 1's program": linked("/proc/1/exe"),
		"owner of a host file":      func() error { return unix.Chown("/usr/bin/env", 0, 0) },
		"mode of a host file":       func() error { return unix.Chmod("/usr/bin/env", 0o755) },
		"times of a host file":      func() error { return unix.Utime("/usr/bin/env", nil) },
		"an immutable file":         immutable,
		"a program that is root":    setuid,
	}
}

func scratch() (*os.File, error) { return os.CreateTemp("", "file") }

func attribute(name string, value []byte) func() error {
	return func() error {
		f, err := scratch()
		if err != nil {
			return err
		}
		defer os.Remove(f.Name())
		defer f.Close()
		return unix.Fsetxattr(int(f.Fd()), name, value, 0)
	}
}

// linked gives a file one more name, here.
func linked(path string) func() error {
	return func() error {
		name := "escape-link"
		if err := unix.Linkat(unix.AT_FDCWD, path, unix.AT_FDCWD, name, unix.AT_SYMLINK_FOLLOW); err != nil {
			return err
		}
		return os.Remove(name)
	}
}

func immutable() error {
	f, err := scratch()
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	defer f.Close()
	if err := unix.IoctlSetPointerInt(int(f.Fd()), unix.FS_IOC_SETFLAGS, unix.STATX_ATTR_IMMUTABLE); err != nil {
		return err
	}
	return unix.IoctlSetPointerInt(int(f.Fd()), unix.FS_IOC_SETFLAGS, 0)
}

// setuid gives a file to another user with the bit that lets all run it as him.
func setuid() error {
	f, err := scratch()
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	defer f.Close()
	if err := f.Chown(1000, 1000); err != nil {
		return err
	}
	if err := unix.Fchmod(int(f.Fd()), 0o4755); err != nil {
		return err
	}
	var st syscall.Stat_t
	var fs unix.Statfs_t
	if err := errors.Join(syscall.Fstat(int(f.Fd()), &st), unix.Fstatfs(int(f.Fd()), &fs)); err != nil {
		return err
	}
	if st.Uid != 1000 || st.Mode&unix.S_ISUID == 0 || fs.Flags&unix.ST_NOSUID != 0 {
		return errors.New("owner or bit mean nothing")
	}
	return nil
}
