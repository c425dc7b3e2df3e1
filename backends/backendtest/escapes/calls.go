//go:build linux

package escapes

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// call makes a raw system call and returns its error.
func call(nr uintptr, args ...uintptr) error {
	var a [6]uintptr
	copy(a[:], args)
	_, _, errno := unix.Syscall6(nr, a[0], a[1], a[2], a[3], a[4], a[5])
	if errno == 0 {
		return nil
	}
	return errno
}

// past says that an attempt worked although a call failed: with an error that the kernel gives
// only to those who have the right to make it. So an attempt harms nothing where it works.
func past(err error, later ...syscall.Errno) error {
	if errno, ok := errors.AsType[syscall.Errno](err); ok && slices.Contains(later, errno) {
		return nil
	}
	return err
}

// raw is an attempt of one system call, with the errors that come after the look at rights.
func raw(later []syscall.Errno, nr uintptr, args ...uintptr) func() error {
	return func() error { return past(call(nr, args...), later...) }
}

func later(errno ...syscall.Errno) []syscall.Errno { return errno }

// socket makes a socket of a family.
func socket(family, kind, protocol int) func() error {
	return func() error {
		fd, err := unix.Socket(family, kind, protocol)
		if err == nil {
			unix.Close(fd)
		}
		return err
	}
}

// look opens a file and reads some of it, which must be something.
func look(path string) func() error {
	return func() error {
		f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
		if err != nil {
			return err
		}
		defer f.Close()
		n, err := f.Read(make([]byte, 16))
		if n == 0 && (err == nil || err == io.EOF) {
			return errors.New("it is empty")
		}
		return past(err, unix.EAGAIN, unix.EIO, unix.EFAULT) // memory at address 0
	}
}

// list reads the names of a folder, of which there must be some.
func list(path string) func() error {
	return func() error {
		names, err := os.ReadDir(path)
		if err == nil && len(names) == 0 {
			return errors.New("it is empty")
		}
		return err
	}
}

// openFor opens a file or device that is there and neither reads nor writes.
func openFor(path string, flags int) func() error {
	return func() error {
		fd, err := unix.Open(path, flags|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
		if err != nil {
			return past(err, unix.ETXTBSY)
		}
		return unix.Close(fd)
	}
}

// opened opens one of the files of a folder.
func opened(dir string, flags int) error {
	names, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	err = errors.New("it is empty")
	for _, f := range names {
		if err = openFor(dir+"/"+f.Name(), flags)(); err == nil {
			return nil
		}
	}
	return err
}

// rewrite writes into a file of the kernel what it holds.
func rewrite(path string) func() error { return rewriteAs("", path) }

// rewriteAs does so with a prefix, for a file that reads numbers in another base than it shows.
func rewriteAs(prefix, path string) func() error {
	return func() error {
		old, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		f, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		defer f.Close()
		_, err = f.Write(append([]byte(prefix), old...))
		return err
	}
}

// mounted mounts a file system without a source and unmounts it.
func mounted(kind string) func() error {
	return func() error {
		dir, err := os.MkdirTemp("", "mount")
		if err != nil {
			return err
		}
		defer os.Remove(dir)
		if err := unix.Mount(kind, dir, kind, 0, ""); err != nil {
			return past(err, unix.EBUSY)
		}
		return unix.Unmount(dir, unix.MNT_DETACH)
	}
}

// node makes a device and opens it.
func node(kind uint32, major, minor uint32) func() error {
	return func() error {
		dir, err := os.MkdirTemp("", "node")
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir)
		if err := unix.Mknod(dir+"/d", kind|0o600, int(unix.Mkdev(major, minor))); err != nil {
			return err
		}
		return past(openFor(dir+"/d", os.O_RDWR)(), unix.ENXIO, unix.ENODEV, unix.EBUSY, unix.EROFS)
	}
}

func buffer() uintptr { return uintptr(unsafe.Pointer(&make([]byte, 4096)[0])) }

func text(s string) uintptr {
	b, _ := unix.BytePtrFromString(s)
	return uintptr(unsafe.Pointer(b))
}

// unlimited takes a limit of the process away, or finds none.
func unlimited(which int) func() error {
	return func() error {
		var was unix.Rlimit
		if err := unix.Getrlimit(which, &was); err != nil {
			return err
		}
		if was.Max != unix.RLIM_INFINITY {
			if err := unix.Setrlimit(which, &unix.Rlimit{Cur: unix.RLIM_INFINITY, Max: unix.RLIM_INFINITY}); err != nil {
				return err
			}
		}
		return nil
	}
}

func dial(network, address string) func() error {
	return func() error {
		c, err := net.DialTimeout(network, address, 3*time.Second)
		if err == nil {
			c.Close()
		}
		return err
	}
}

// takeCapability makes one more capability the process's own.
func takeCapability() error {
	head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var have [2]unix.CapUserData
	if err := unix.Capget(&head, &have[0]); err != nil {
		return err
	}
	const wanted = 1<<unix.CAP_SYS_ADMIN | 1<<unix.CAP_SYS_PTRACE
	have[0].Effective |= wanted
	have[0].Permitted |= wanted
	return unix.Capset(&head, &have[0])
}

// killInit signals the box's server; the box must survive it, which the test sees by
// running the attempts that follow.
func killInit() error {
	for s := unix.Signal(1); s <= 31; s++ {
		unix.Kill(1, s)
	}
	return errors.New("it lives")
}

// forked makes a process by clone with flags and reports whether there was one.
func forked(flags uintptr) func() error {
	return func() error {
		pid, _, errno := unix.RawSyscall6(unix.SYS_CLONE, flags|uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
		return born(pid, errno)
	}
}

// forked3 does so by clone3, whose arguments a filter cannot see.
func forked3(flags uint64) func() error {
	return func() error {
		args := [11]uint64{0: flags, 4: uint64(unix.SIGCHLD)}
		pid, _, errno := unix.RawSyscall(unix.SYS_CLONE3, uintptr(unsafe.Pointer(&args[0])), unsafe.Sizeof(args), 0)
		return born(pid, errno)
	}
}

func born(pid uintptr, errno syscall.Errno) error {
	if errno != 0 {
		return errno
	}
	if pid == 0 { // the child: nothing of Go's may run here
		unix.RawSyscall(unix.SYS_EXIT_GROUP, 0, 0, 0)
	}
	var status unix.WaitStatus
	_, err := unix.Wait4(int(pid), &status, 0, nil)
	return err
}

// parent is what a program of the box was started by: the server of the box, or hermes where
// there is no box.
func parent(format string) string { return fmt.Sprintf(format, os.Getppid()) }
