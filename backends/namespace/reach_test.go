//go:build linux

package namespace_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"hermes/backends"
	"hermes/backends/backendtest/reach"
	"hermes/backends/namespace"
)

// TestReach: no command gets at slotd.
func TestReach(t *testing.T) { reach.Run(t, box(t, namespace.Config{}, backends.Spec{}), nil) }

// TestReachFirst: nor at the first process before that, by what a shell can do; and slotd
// takes its place afterwards.
func TestReachFirst(t *testing.T) {
	b, tried := open(t, namespace.Config{}), 0
	for _, script := range reach.Limits() {
		x := boxOf(t, b, backends.Spec{})
		if code, out := sh(t, x, script); code == 127 {
			t.Skip("no python3 here: ", out)
		}
		if !b.Woken(x.ID()) { // a box made ahead may have been
			tried++
		}
		for range 2 { // without slotd, and by it
			if err := x.WriteFile(t.Context(), "f", []byte("x"), 0o644); err != nil {
				t.Errorf("%s: %v", script, err)
			}
		}
		if err := x.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if tried == 0 {
		t.Error("slotd served every box: the first process was not tried")
	}
}

// TestMeddled: where a limit of the server was changed all the same, here from outside, its
// death by the kernel is not ours.
func TestMeddled(t *testing.T) {
	t.Parallel() // one death takes the whole time that slotd has to come
	if os.Geteuid() != 0 {
		t.Skip("only root sets limits of another user's process")
	}
	b := open(t, namespace.Config{})
	for _, served := range []bool{false, true} {
		for _, limit := range []int{unix.RLIMIT_CPU, unix.RLIMIT_NOFILE} {
			if served && limit == unix.RLIMIT_NOFILE {
				continue // it lives, and says that it cannot open files
			}
			x := boxOf(t, b, backends.Spec{})
			if code, out := sh(t, x, "true"); code != 0 {
				t.Fatal(out)
			}
			if served {
				if err := x.WriteFile(t.Context(), "f", bytes.Repeat([]byte("a line of some text\n"), 1<<20), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			setLimit(t, b.PID(x.ID()), limit, 0)
			var err error
			for end := time.Now().Add(2 * time.Minute); err == nil && time.Now().Before(end); {
				err = busy(t, x)
			}
			if !errors.Is(err, backends.ErrBroken) {
				t.Errorf("served %v, limit %d: %v", served, limit, err)
			}
			x.Close(t.Context())
		}
	}
}

// setLimit takes a limit of a process down, as the user who made the box's namespaces: he has
// all rights in them, which a root without CAP_SYS_RESOURCE has not.
func setLimit(t *testing.T, pid, limit, value int) {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(status), "\nUid:")
	owner, err := strconv.ParseUint(strings.Fields(rest)[0], 10, 32)
	if err != nil {
		t.Fatal(err)
	}
	name := map[int]string{unix.RLIMIT_CPU: "--cpu", unix.RLIMIT_NOFILE: "--nofile"}[limit]
	c := exec.Command("prlimit", "--pid", strconv.Itoa(pid), fmt.Sprintf("%s=%d:%d", name, value, value))
	if os.Geteuid() == 0 {
		c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(owner), Gid: uint32(owner)}}
	}
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

// busy gives the server something to do.
func busy(t *testing.T, x backends.Sandbox) error {
	t.Helper()
	if err := x.WriteFile(t.Context(), "g", make([]byte, 8<<20), 0o644); err != nil {
		return err
	}
	s, ok := backends.As[backends.Searcher](x)
	if !ok {
		t.Fatal("no search")
	}
	_, err := s.Search(t.Context(), backends.Query{Root: ".", Pattern: "(s|o|m)+e [tx]*e.t+ ?z"})
	return err
}

// TestCalls: commands that the first process starts, and those that slotd does, have the
// calls of the list.
func TestCalls(t *testing.T) { reach.Calls(t, box(t, namespace.Config{}, backends.Spec{}), false) }
