//go:build linux

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

	"hermes/backends"
)

// A box leaves nothing on the host but cgroups: its mounts, processes and socket go with
// its namespaces. Their name says who made them: the pid namespace, pid and start time
// of the owner.

// labelPrefix begins the name of everything a box leaves on the host.
const labelPrefix = "hermes-"

// ownLabel names what belongs to this process.
func ownLabel() string { return labelPrefix + backends.Self().String() + "-" }

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
	owner, _, serial := cutLast(rest, "-")
	o, err := backends.ParseOwner(owner)
	return ok && serial && err == nil && o.Dead()
}

// cutLast cuts s around the last sep.
func cutLast(s, sep string) (before, after string, found bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return s, "", false
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
