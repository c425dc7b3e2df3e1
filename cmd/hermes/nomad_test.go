package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"hermes/backends/nomad/nomadtest"
)

// slotdLink is this test binary under the name that makes it slotd.
func slotdLink(t *testing.T) string {
	t.Helper()
	own, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(t.TempDir(), "hermes-slotd")
	if err := os.Symlink(own, link); err != nil {
		t.Fatal(err)
	}
	return link
}

// nomadHere starts a fake cluster and writes a run file for it.
func nomadHere(t *testing.T, dir string) *nomadtest.Fake {
	t.Helper()
	f, err := nomadtest.New(nomadtest.Options{Reschedule: 100 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
	section := fmt.Sprintf("backends:\n  nomad: {address: %q, driver: raw_exec, slotd: %q, max: 8, poll: 100ms}\n", f.Address(), slotdLink(t))
	if err := os.WriteFile(filepath.Join(dir, "nomad.yaml"), []byte(section), 0o644); err != nil {
		t.Fatal(err)
	}
	return f
}

// TestNomadCommands: list, exec and gc as a user meets them.
func TestNomadCommands(t *testing.T) {
	dir := t.TempDir()
	f := nomadHere(t, dir)
	run := func(args ...string) string {
		t.Helper()
		out, err := hermes(t, dir, append([]string{"sandbox"}, args...)...).CombinedOutput()
		if err != nil {
			t.Fatalf("%q: %v\n%s", args, err, out)
		}
		return string(out)
	}
	if out := run("list", "-c", "nomad.yaml"); !strings.Contains(out, "driver raw_exec of "+f.Address()) {
		t.Errorf("list: %s", out)
	}
	if out := run("exec", "-c", "nomad.yaml", "--backend", "nomad", "--", "echo", "hello"); !strings.Contains(out, "hello\n") {
		t.Errorf("exec: %s", out)
	}
	if left := f.Jobs(); len(left) > 0 {
		t.Errorf("jobs left: %q", left)
	}
	// One that is killed leaves its job; the next sweep removes it.
	killedInExec(t, dir, "nomad.yaml", "nomad")
	if left := f.Jobs(); len(left) != 1 {
		t.Errorf("a killed hermes left %q", left)
	}
	if out := run("gc", "-c", "nomad.yaml"); !strings.Contains(out, "removed 1\n") {
		t.Errorf("gc: %s", out)
	}
	if left := f.Jobs(); len(left) > 0 {
		t.Errorf("jobs left by gc: %q", left)
	}
	f.Down()
	out, err := hermes(t, dir, "sandbox", "exec", "-c", "nomad.yaml", "--backend", "nomad", "--", "true").CombinedOutput()
	if code := exitCode(err); code != 2 || !bytes.Contains(out, []byte("no Nomad agent answers")) {
		t.Errorf("no agent: code %d, %s", code, out)
	}
	f.Up()
}

func exitCode(err error) int {
	if x, ok := err.(*exec.ExitError); ok {
		return x.ExitCode()
	}
	return 0
}

// TestNomadDiesInMidRun: the agent and all its slots go away while rollouts use them, and
// come back.
func TestNomadDiesInMidRun(t *testing.T) {
	dir := t.TempDir()
	f := nomadHere(t, dir)
	diesInMidRun(t, dir, "nomad", true, func() {
		f.Crash()
		done := make(chan struct{})
		defer close(done)
		f.Until(done, func() bool { return len(f.Running()) == 0 })
		f.Up()
	})
	if left := f.Jobs(); len(left) > 0 {
		t.Errorf("jobs left: %q", left)
	}
}
