//go:build linux

package namespace_test

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"sync"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A taker takes one more of a resource of the kernel and keeps it.
type taker func() error

// takers are what a box can take of the kernel, a piece at a time. They run in boxes, as programs of this test,
// and on the host, as separate processes.
func takers() map[string]taker {
	return map[string]taker{
		"inotify":   func() error { return descriptor(unix.InotifyInit1(unix.IN_CLOEXEC)) },
		"watches":   watcher(),
		"terminals": func() error { return descriptor(unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)) },
		"signals":   signalSelf,
		"timers":    makeTimer,
		"queues":    queue(nil),
		"aio":       asyncContext,
		"sockets":   pairOfSockets,
		"segments": func() error {
			return descriptor(unix.SysvShmGet(unix.IPC_PRIVATE, 1<<20, unix.IPC_CREAT|0o600))
		},
	}
}

// descriptor keeps a descriptor for good.
func descriptor(_ int, err error) error { return err }

// watcher watches a folder after the other with one instance.
func watcher() taker {
	instance, made := -1, 0
	return func() (err error) {
		if instance < 0 {
			instance, err = unix.InotifyInit1(unix.IN_CLOEXEC)
			if err != nil {
				return err
			}
		}
		dir := fmt.Sprintf("%s/watched-%d-%d", os.TempDir(), os.Getpid(), made)
		made++
		if err := os.Mkdir(dir, 0o755); err != nil {
			return err
		}
		defer os.Remove(dir)
		return descriptor(unix.InotifyAddWatch(instance, "/proc/self/fd/"+strconv.Itoa(keepFolder(dir)), unix.IN_CREATE))
	}
}

// keepFolder keeps a folder open, and so its inode, and the watch on it.
func keepFolder(dir string) int {
	fd, _ := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	return fd
}

// firstRT is a signal that waits as often as it is sent.
const firstRT = 40

// signalSelf sends this thread, which must have it blocked, a signal.
func signalSelf() error {
	mask := unix.Sigset_t{}
	mask.Val[0] = 1 << (firstRT - 1)
	if err := unix.PthreadSigmask(unix.SIG_BLOCK, &mask, nil); err != nil {
		return err
	}
	info := [128]byte{}
	*(*int32)(unsafe.Pointer(&info[8])) = -1 // SI_QUEUE
	_, _, errno := unix.RawSyscall6(unix.SYS_RT_TGSIGQUEUEINFO, uintptr(os.Getpid()), uintptr(unix.Gettid()), firstRT, uintptr(unsafe.Pointer(&info)), 0, 0)
	return orNil(errno)
}

func orNil(errno unix.Errno) error {
	if errno == 0 {
		return nil
	}
	return errno
}

// makeTimer makes a timer that sends nothing.
func makeTimer() error {
	event := [64]byte{}
	*(*int32)(unsafe.Pointer(&event[8])) = firstRT
	*(*int32)(unsafe.Pointer(&event[12])) = 1 // SIGEV_NONE
	var id int32
	_, _, errno := unix.Syscall(unix.SYS_TIMER_CREATE, unix.CLOCK_MONOTONIC, uintptr(unsafe.Pointer(&event)), uintptr(unsafe.Pointer(&id)))
	return orNil(errno)
}

// attributes are those of a message queue (struct mq_attr).
type attributes struct{ flags, messages, size, now, _, _, _, _ int }

// queue makes POSIX message queues; nil is the usual size.
func queue(a *attributes) taker {
	made := 0
	return func() error {
		name, _ := unix.BytePtrFromString(fmt.Sprintf("taker-%d-%d", os.Getpid(), made))
		made++
		_, _, errno := unix.Syscall6(unix.SYS_MQ_OPEN, uintptr(unsafe.Pointer(name)), unix.O_RDWR|unix.O_CREAT|unix.O_EXCL,
			0o600, uintptr(unsafe.Pointer(a)), 0, 0)
		if errno == 0 {
			unix.Syscall(unix.SYS_MQ_UNLINK, uintptr(unsafe.Pointer(name)), 0, 0) // open it stays counted
		}
		return orNil(errno)
	}
}

// asyncContext makes a place for 1,024 requests of asynchronous input and output.
func asyncContext() error {
	var context uintptr
	_, _, errno := unix.Syscall(unix.SYS_IO_SETUP, 1024, uintptr(unsafe.Pointer(&context)), 0)
	return orNil(errno)
}

// pairOfSockets fills a TCP connection that no process reads. It fails once less than 64 KiB fit.
func pairOfSockets() error {
	l, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(l)
	if err := errors.Join(unix.Bind(l, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}), unix.Listen(l, 1)); err != nil {
		return err
	}
	at, err := unix.Getsockname(l)
	if err != nil {
		return err
	}
	c, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	if err := unix.Connect(c, at); err != nil {
		return err
	}
	if _, _, err := unix.Accept4(l, unix.SOCK_CLOEXEC); err != nil {
		return err
	}
	sent := 0
	for idle := 0; idle < 20; idle++ {
		n, err := unix.SendmsgN(c, make([]byte, 1<<20), nil, nil, unix.MSG_DONTWAIT)
		if err == nil {
			sent, idle = sent+n, 0
			continue
		}
		unix.Nanosleep(&unix.Timespec{Nsec: 1e6}, nil)
	}
	if sent < 64<<10 {
		return fmt.Errorf("only %d bytes were sent: %w", sent, unix.ENOBUFS)
	}
	return nil
}

// take is the program `take WHAT MOST` of a box: it takes until it is refused, says how much that was and the
// error, and keeps it until it is killed.
func take(what, most string) int {
	runtime.LockOSThread()
	limit, err := strconv.Atoi(most)
	one, ok := takers()[what]
	if err != nil || !ok {
		fmt.Println("take what?", what, most)
		return 2
	}
	n := 0
	for err = nil; err == nil && n < limit; {
		if err = one(); err == nil {
			n++
		}
	}
	fmt.Printf("%d %v\n", n, err)
	os.Stdout.Close() // whoever waits for the line waits for no more
	for {
		unix.Pause()
	}
}

// one is the program `one`: it needs one of everything and says what it cannot get.
func one() int {
	runtime.LockOSThread()
	code := 0
	all := takers()
	all["queues"] = queue(&attributes{messages: 1, size: 512}) // a plain user has eight of the usual size
	for what, one := range all {
		if what == "aio" || what == "segments" { // contexts are not limited; a segment would outlive the process
			continue
		}
		if err := one(); err != nil {
			fmt.Println(what+":", err)
			code = 1
		}
	}
	return code
}

// lock is the program `lock FILE…`: it takes every kind of lock that it can on files which it may only read, says
// how many, and keeps them until it is killed.
func lock(files []string) int {
	n := 0
	for _, file := range files {
		fd, err := unix.Open(file, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			continue
		}
		if unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB) == nil {
			n++
		}
		if unix.FcntlFlock(uintptr(fd), unix.F_OFD_SETLK, &unix.Flock_t{Type: unix.F_RDLCK}) == nil {
			n++
		}
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_SETLEASE, unix.F_RDLCK); err == nil {
			n++
		}
	}
	fmt.Println(n)
	os.Stdout.Close()
	for {
		unix.Pause()
	}
}

// probe is this program in a box, or as a separate process on the host.
func probe(args []string) int {
	switch {
	case len(args) == 3 && args[0] == "take":
		return take(args[1], args[2])
	case len(args) > 0 && args[0] == "lock":
		return lock(args[1:])
	case len(args) == 1 && args[0] == "one":
		return one()
	case len(args) == 1 && args[0] == "exhaust":
		return exhaust()
	}
	fmt.Println("no such probe", args)
	return 2
}

// exhaust is the program `exhaust`, of a hostile box: it takes all of everything, in separate processes, and
// again when they end, locks what it sees, forks, and burns the processors. It does not end.
func exhaust() int {
	var all sync.WaitGroup
	for what := range takers() {
		all.Go(func() {
			for {
				respawn("take", what, "1000000000")
			}
		})
	}
	all.Go(func() {
		for {
			respawn("lock", "/usr/bin/env", "/usr/bin/sh", "/etc/ssl/openssl.cnf")
		}
	})
	all.Wait()
	return 0
}

// respawn runs this program for three seconds.
func respawn(args ...string) {
	p, err := os.StartProcess("/proc/self/exe", append([]string{"hermes-probe", "probe"}, args...), &os.ProcAttr{Env: os.Environ()})
	if err != nil {
		<-time.After(100 * time.Millisecond)
		return
	}
	t := time.AfterFunc(3*time.Second, func() { p.Kill() })
	defer t.Stop()
	p.Wait()
}
