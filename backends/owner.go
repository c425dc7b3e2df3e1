package backends

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Owner names a process, also after its end, so that what it left is not taken for what a
// living process uses. A pid alone is not enough: the kernel uses it again.
type Owner struct {
	Space uint64 // inode of its pid namespace; pids mean nothing outside of it
	PID   int
	Start uint64 // clock ticks between boot and its start
}

// Self is this process.
func Self() Owner {
	start, _ := startTime("self")
	return Owner{Space: pidNamespace(), PID: os.Getpid(), Start: start}
}

// String is the owner as it is in names and labels.
func (o Owner) String() string { return fmt.Sprintf("%d-%d-%d", o.Space, o.PID, o.Start) }

// ParseOwner reads what String wrote.
func ParseOwner(s string) (o Owner, err error) {
	parts := strings.Split(s, "-")
	if len(parts) != 3 {
		return o, fmt.Errorf("owner %q: want three numbers", s)
	}
	var errs [3]error
	o.Space, errs[0] = strconv.ParseUint(parts[0], 10, 64)
	o.PID, errs[1] = strconv.Atoi(parts[1])
	o.Start, errs[2] = strconv.ParseUint(parts[2], 10, 64)
	if err := errors.Join(errs[:]...); err != nil {
		return Owner{}, fmt.Errorf("owner %q: %w", s, err)
	}
	return o, nil
}

// BootID names this machine since its last start; empty where that is not known.
func BootID() string {
	raw, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(raw))
}

// Near reports whether the owner lives, or lived, where its pid means something to this process.
func (o Owner) Near() bool { return o.Space == pidNamespace() }

// Dead reports that the owner's process has ended. It is false for a process of another
// pid namespace, about which nothing can be known.
func (o Owner) Dead() bool {
	if !o.Near() {
		return false
	}
	start, err := startTime(strconv.Itoa(o.PID))
	if errors.Is(err, os.ErrNotExist) {
		return true
	}
	return err == nil && start != o.Start
}

func pidNamespace() uint64 {
	var s unix.Stat_t
	if unix.Stat("/proc/self/ns/pid", &s) != nil {
		return 0
	}
	return s.Ino
}

// startTime is when a process began, in clock ticks since boot.
func startTime(pid string) (uint64, error) {
	raw, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		return 0, err
	}
	fields := strings.Fields(string(raw[strings.LastIndexByte(string(raw), ')')+1:]))
	if len(fields) < 20 {
		return 0, fmt.Errorf("/proc/%s/stat has %d fields", pid, len(fields))
	}
	return strconv.ParseUint(fields[19], 10, 64)
}
