//go:build linux

package local_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"hermes/backends"
	"hermes/backends/backendtest/escapes"
	"hermes/backends/local"
)

// ownIn is the variable that makes this test a hermes with a box in a folder.
const ownIn = "HERMES_TEST_OWN"

func TestMain(m *testing.M) {
	if dir := os.Getenv(ownIn); dir != "" {
		os.Exit(own(dir))
	}
	if code, ok := escapes.Main(os.Args); ok {
		os.Exit(code)
	}
	os.Exit(m.Run())
}

// own is a hermes that opens a box, starts what survives it, and waits to be killed.
func own(dir string) int {
	ctx := context.Background()
	b, err := local.New(local.Config{Dir: dir})
	if err == nil {
		var x backends.Sandbox
		x, err = b.Open(ctx, backends.Spec{})
		if err == nil && os.Getpid() == 1 {
			fmt.Println(1)
		} else if err == nil {
			var r backends.Result
			r, err = x.Exec(ctx,
				backends.Cmd{Shell: "mkdir -p locked/in; chmod 0 locked; setsid sh -c 'trap \"\" TERM; echo $$ > pid; while :; do sleep 100; done' >/dev/null 2>&1 & while [ ! -s pid ]; do :; done; cat pid"})
			fmt.Printf("%s", r.Stdout)
		}
	}
	if err != nil {
		fmt.Println(err)
		return 1
	}
	select {}
}

// boxes lists the folders of boxes, and not the locks of their owners.
func boxes(t *testing.T, dir string) (all []string) {
	t.Helper()
	found, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range found {
		if e.IsDir() {
			all = append(all, e.Name())
		}
	}
	return all
}

// TestOwnerElsewhere: of a hermes in another pid namespace, whose pids mean nothing here, the
// lock says whether it lives.
func TestOwnerElsewhere(t *testing.T) {
	dir := t.TempDir()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command(exe)
	c.Env = append(os.Environ(), ownIn+"="+dir)
	c.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID}
	out, err := c.StdoutPipe()
	if err == nil {
		err = c.Start()
	}
	if errors.Is(err, syscall.EPERM) {
		t.Skip("this user may not make pid namespaces")
	}
	if err != nil {
		t.Fatal(err)
	}
	defer c.Process.Kill()
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "1\n" {
		t.Fatalf("it says %q, %v", line, err)
	}
	b, err := local.New(local.Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close(context.Background())
	if n, err := b.Sweep(t.Context()); n != 0 || err != nil || len(boxes(t, dir)) != 1 {
		t.Errorf("of a living one %d were removed, %v", n, err)
	}
	c.Process.Kill()
	c.Wait()
	if n, err := b.Sweep(t.Context()); n != 1 || err != nil {
		t.Errorf("of a dead one %d were removed, %v", n, err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

// TestDeadOwner: folders and processes of a hermes that was killed go with the next one;
// those of a living one stay.
func TestDeadOwner(t *testing.T) {
	dir := t.TempDir()
	begin := func() (c *exec.Cmd, pid int) {
		exe, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		c = exec.Command(exe)
		c.Env = append(os.Environ(), ownIn+"="+dir)
		out, err := c.StdoutPipe()
		if err == nil {
			err = c.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Process.Kill(); c.Wait() })
		line, err := bufio.NewReader(out).ReadString('\n')
		pid, _ = strconv.Atoi(strings.TrimSpace(line))
		if pid == 0 {
			t.Fatalf("it says %q, %v", line, err)
		}
		return c, pid
	}
	folders := func() int {
		return len(boxes(t, dir))
	}
	dies, left := begin()
	_, other := begin()
	dies.Process.Kill()
	dies.Wait()
	if folders() != 2 || syscall.Kill(left, 0) != nil {
		t.Fatalf("%d folders; process %d: %v", folders(), left, syscall.Kill(left, 0))
	}
	b, err := local.New(local.Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close(context.Background())
	if n, err := b.Sweep(t.Context()); n != 1 || err != nil {
		t.Errorf("removed %d, %v", n, err)
	}
	if n, err := b.Sweep(t.Context()); n != 0 || err != nil {
		t.Errorf("removed %d again, %v", n, err)
	}
	// One that has ended has no environment, also before somebody has collected it.
	if env, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", left)); folders() != 1 || len(env) > 0 {
		t.Errorf("%d folders; process %d of the dead one: %q, %v", folders(), left, env, err)
	}
	if err := syscall.Kill(other, 0); err != nil {
		t.Errorf("process %d of the living one: %v", other, err)
	}
	syscall.Kill(other, syscall.SIGKILL)
}
