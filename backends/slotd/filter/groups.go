//go:build linux

package filter

import (
	"slices"
	"strings"
)

// Group is a set of system calls that commands are treated alike with, and why.
type Group struct {
	Name   string
	Reason string // for the table in docs/slotd.md
	calls  string // names, also those that only some architectures have
}

// Calls are the names of the group, in order.
func (g Group) Calls() []string { return strings.Fields(g.calls) }

// row are calls whose numbers follow each other.
type row struct {
	first uint32
	names string
}

// Groups are the calls that are allowed, those that are allowed with some arguments only,
// and those that do not exist. What is in none is refused.
func Groups() (open, bound, missing []Group) {
	return slices.Clone(allowed), slices.Clone(bounded), slices.Clone(absents)
}

// allowed is the list: what the programs of a box do to their own files, memory,
// processes and sockets, whatever the arguments.
var allowed = []Group{
	{"files", "open, read, write, move and remove files; the box's mounts decide which", `
		open openat openat2 creat close close_range read write readv writev pread64 pwrite64 preadv pwritev preadv2 pwritev2 lseek dup dup2 dup3
		stat fstat lstat newfstatat statx statfs fstatfs access faccessat faccessat2 readlink readlinkat getdents getdents64
		rename renameat renameat2 mkdir mkdirat rmdir link linkat symlink symlinkat unlink unlinkat mknod mknodat
		chmod fchmod fchmodat fchmodat2 utime utimes utimensat futimesat umask truncate ftruncate fallocate fadvise64
		getcwd chdir fchdir flock readahead sync syncfs fsync fdatasync sync_file_range cachestat
		sendfile splice tee vmsplice copy_file_range pipe pipe2 memfd_create`},
	{"attributes", "cp -a, tar and git keep extended attributes and flags of files", `
		setxattr lsetxattr fsetxattr getxattr lgetxattr fgetxattr listxattr llistxattr flistxattr removexattr lremovexattr fremovexattr
		setxattrat getxattrat listxattrat removexattrat file_getattr file_setattr`},
	{"waiting", "event loops: libuv, asyncio, nginx, Go, Java", `
		poll ppoll select pselect6 epoll_create epoll_create1 epoll_ctl epoll_wait epoll_pwait epoll_pwait2 eventfd eventfd2
		signalfd signalfd4 inotify_init inotify_init1 inotify_add_watch inotify_rm_watch`},
	{"memory", "every allocator; huge pages, NUMA hints and protection keys act on the caller alone", `
		brk mmap munmap mremap mprotect msync madvise mincore mlock mlock2 munlock mlockall munlockall remap_file_pages membarrier mseal map_shadow_stack
		pkey_mprotect pkey_alloc pkey_free mbind get_mempolicy set_mempolicy set_mempolicy_home_node`},
	{"processes", "start programs, wait for them, groups and sessions of a shell", `
		fork vfork execve execveat exit exit_group wait4 waitid getpid getppid gettid getpgid getpgrp setpgid getsid setsid pidfd_open process_mrelease
		prctl arch_prctl personality set_tid_address set_robust_list get_robust_list rseq rseq_slice_yield restart_syscall`},
	{"signals", "a command may signal what has its user; the kernel keeps the box's first process from what would end it", `
		kill tkill tgkill rt_sigaction rt_sigprocmask rt_sigpending rt_sigtimedwait rt_sigsuspend rt_sigreturn sigaltstack pause alarm`},
	{"locks", "threads of every language", `futex futex_wait futex_wake futex_requeue futex_waitv`},
	{"time", "clocks are read, timers are the caller's own; none sets a clock", `
		time gettimeofday clock_gettime clock_getres clock_nanosleep nanosleep times getitimer setitimer
		timer_create timer_settime timer_gettime timer_getoverrun timer_delete timerfd_create timerfd_settime timerfd_gettime`},
	{"scheduling", "OpenMP, Java, nice and taskset; the kernel asks for the capabilities of who is changed, and slotd has one that its commands lack", `
		sched_yield sched_setscheduler sched_getscheduler sched_setparam sched_getparam sched_setattr sched_getattr sched_setaffinity sched_getaffinity
		sched_get_priority_max sched_get_priority_min sched_rr_get_interval getpriority setpriority ioprio_get ioprio_set getcpu`},
	{"limits", "ulimit; limits of others are in the table below", `getrlimit setrlimit getrusage`},
	{"identity", "su, sudo -u and package managers, within what the box's user may", `
		getuid geteuid getgid getegid getresuid getresgid getgroups setuid setgid setreuid setregid setresuid setresgid setfsuid setfsgid setgroups capget capset`},
	{"network", "sockets, once their family is allowed", `
		socketpair connect bind listen accept accept4 getsockname getpeername getsockopt setsockopt shutdown sendto recvfrom sendmsg recvmsg sendmmsg recvmmsg`},
	{"shared memory and queues", "multiprocessing, PostgreSQL; the box has its own IPC namespace", `
		shmget shmat shmctl shmdt semget semop semtimedop semctl msgget msgsnd msgrcv msgctl
		mq_open mq_unlink mq_timedsend mq_timedreceive mq_notify mq_getsetattr`},
	{"its own sandbox", "browsers and language runtimes take rights from their children", `
		seccomp landlock_create_ruleset landlock_add_rule landlock_restrict_self`},
	{"the machine", "uname, free, nproc", `uname sysinfo getrandom`},
}

// bounded are allowed with some arguments only; rules.go says with which.
var bounded = []Group{
	{"new processes", "no new namespaces", `clone`},
	{"sockets", "unix, IPv4, IPv6, and of netlink what tells of routes: others are EAFNOSUPPORT", `socket`},
	{"tracing", "only what slotd needs to hold a command at its start: no process traces another", `ptrace`},
	{"devices", "nothing is typed into a terminal (TIOCSTI, TIOCLINUX)", `ioctl`},
	{"owners", "in a box with one user, giving a file to another is accepted and does nothing: packages unpack", `chown lchown fchown fchownat`},
	{"limits of others", "a process reads all limits and sets its own: those of slotd, whose user commands share, would end it", `prlimit64`},
	{"forged signals", "a fault (SEGV, BUS, FPE, ILL, TRAP, SYS, STKFLT) cannot be sent as if the kernel had: slotd would take it for its own and end", `
		rt_sigqueueinfo rt_tgsigqueueinfo pidfd_send_signal fcntl`},
}

// absents do not exist (ENOSYS), and so do all that are newer than the list: programs have
// another way then. Others that are not allowed are not permitted (EPERM).
var absents = []Group{
	{"flags out of sight", "a filter does not see the flags of clone3; C libraries go on with clone", `clone3`},
	{"io_uring", "its requests pass every filter; programs go on with epoll", `io_uring_setup io_uring_enter io_uring_register`},
	{"native asynchronous I/O", "its contexts are counted for the whole machine: one box would take all; databases go on with threads", `
		io_setup io_destroy io_submit io_cancel io_getevents io_pgetevents`},
}
