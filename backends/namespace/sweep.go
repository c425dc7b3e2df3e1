package namespace

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// A box leaves nothing on the host but cgroups: its mounts, processes and socket go with
// its namespaces. Their name says who made them: the pid namespace, pid and start time
// of the owner.

// labelPrefix begins the name of everything a box leaves on the host.
const labelPrefix = "hermes-"

// ownLabel names what belongs to this process.
func ownLabel() string {
	start, _ := startTime("self")
	return fmt.Sprintf("%s%d-%d-%d-", labelPrefix, pidNamespace(), os.Getpid(), start)
}

// pidNamespace is the inode of our pid namespace; pids mean nothing outside of it.
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

// Sweep removes what boxes of dead owners left on this host and returns how many things
// that were. What belongs to a living process, or to one of another pid namespace, is
// not touched.
func Sweep(ctx context.Context) (removed int, err error) {
	var errs []error
	for _, g := range findGroups(Limits{}) {
		entries, err := os.ReadDir(g.dir)
		if err != nil {
			errs = append(errs, fmt.Errorf("sweep: %w", err))
			continue
		}
		for _, e := range entries {
			if err := ctx.Err(); err != nil {
				return removed, errors.Join(append(errs, err)...)
			}
			if !e.IsDir() || !orphaned(e.Name()) {
				continue
			}
			if err := clearGroup(filepath.Join(g.dir, e.Name())); err != nil {
				errs = append(errs, err)
				continue
			}
			removed++
		}
	}
	return removed, errors.Join(errs...)
}

// orphaned reports whether a label's owner is dead.
func orphaned(name string) bool {
	rest, ok := strings.CutPrefix(name, labelPrefix)
	parts := strings.Split(rest, "-")
	if !ok || len(parts) != 4 || parts[0] != strconv.FormatUint(pidNamespace(), 10) {
		return false
	}
	if _, err := strconv.Atoi(parts[1]); err != nil {
		return false
	}
	start, err := startTime(parts[1])
	if errors.Is(err, os.ErrNotExist) {
		return true
	}
	return err == nil && strconv.FormatUint(start, 10) != parts[2]
}

// clearGroup ends what still lives in a group and removes it.
func clearGroup(dir string) error {
	raw, err := os.ReadFile(dir + "/cgroup.procs")
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("sweep: %w", err)
	}
	for field := range strings.FieldsSeq(string(raw)) {
		if pid, err := strconv.Atoi(field); err == nil && pid > 1 {
			unix.Kill(pid, unix.SIGKILL)
		}
	}
	return removeGroup(dir)
}
