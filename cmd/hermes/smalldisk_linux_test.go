package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// keeper is a process that holds a small disk. In its own mount namespace it mounts a tmpfs
// of some bytes on a folder. A line of input makes the disk read-only; the end of input ends it.
func keeper() {
	err := syscall.Mount("tmpfs", os.Args[1], "tmpfs", 0, "size="+os.Args[2])
	if err != nil {
		fmt.Println("mount:", err)
		os.Exit(1)
	}
	fmt.Println("ready")
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		if err := syscall.Mount("tmpfs", os.Args[1], "tmpfs", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""); err != nil {
			fmt.Println("remount:", err)
		} else {
			fmt.Println("ready")
		}
	}
}

// smallDisk makes a disk of some bytes and returns its folder, and what makes it
// read-only. Where that is not allowed the test is skipped.
func smallDisk(t *testing.T, bytes int) (dir string, readOnly func()) {
	t.Helper()
	dir = t.TempDir()
	c := exec.Command(os.Args[0], dir, strconv.Itoa(bytes))
	c.Args[0] = "hermes-keeper"
	c.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	if os.Geteuid() != 0 {
		c.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		c.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
		c.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
	} else {
		// The mount must not be seen outside: a new user namespace makes all mounts private.
		c.SysProcAttr.Unshareflags, c.SysProcAttr.Cloneflags = syscall.CLONE_NEWNS, 0
	}
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Skipf("no mount namespace for a small disk: %v", err)
	}
	t.Cleanup(func() {
		in.Close()
		if err := c.Wait(); err != nil {
			t.Logf("keeper of the small disk: %v", err)
		}
	})
	lines := bufio.NewReader(out)
	if said, err := lines.ReadString('\n'); said != "ready\n" {
		t.Skipf("no small disk: %s %v", said, err)
	}
	return filepath.Join("/proc", strconv.Itoa(c.Process.Pid), "root", dir), func() {
		t.Helper()
		if _, err := io.WriteString(in, "read-only\n"); err != nil {
			t.Fatal(err)
		}
		if said, err := lines.ReadString('\n'); said != "ready\n" {
			t.Skipf("the small disk cannot be made read-only: %s %v", said, err)
		}
	}
}

// fill writes a file until the disk is full.
func fill(t *testing.T, name string) {
	t.Helper()
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for size := 64 << 10; size >= 1; {
		if _, err := f.Write(make([]byte, size)); errors.Is(err, syscall.ENOSPC) {
			size /= 2
		} else if err != nil {
			t.Fatal(err)
		}
	}
}

// busyBox is pid 1 of a box in which a command sleeps, among the children of a process; 0:
// there is none now. Any other command may have said all it has to say when it is seen.
func busyBox(hermes int) int {
	for _, pid := range children(hermes) {
		args, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if strings.HasPrefix(string(args), "hermes-slotd\x00init") && sleeps(pid) {
			return pid
		}
	}
	return 0
}

// sleeps reports whether a process has begun a sleep, itself or through others.
func sleeps(pid int) bool {
	return slices.ContainsFunc(children(pid), func(child int) bool {
		args, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", child))
		return strings.HasPrefix(string(args), "sleep\x00") || sleeps(child)
	})
}

// children are the processes that the threads of pid have started.
func children(pid int) (list []int) {
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, name := range files {
		b, _ := os.ReadFile(name)
		for _, word := range strings.Fields(string(b)) {
			if n, err := strconv.Atoi(word); err == nil {
				list = append(list, n)
			}
		}
	}
	return list
}
