//go:build linux

package docker_test

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/client"

	"hermes/backends"
	"hermes/backends/backendtest"
	"hermes/backends/docker"
)

var long = flag.Bool("long", false, "run the long forms")

// own is a hermes that opens boxes, uses some, closes some, and names each that it
// opened, until somebody kills it.
func own(args string) int {
	host, slotd, _ := strings.Cut(args, ";")
	ctx := context.Background()
	b, err := docker.Open(ctx, docker.Config{Host: host, Slotd: slotd, Image: testImage}, docker.Surroundings{})
	if err != nil {
		fmt.Println("error", err)
		return 1
	}
	for i := 0; ; i++ {
		x, err := b.Open(ctx, backends.Spec{})
		if err != nil {
			fmt.Println("error", err)
			return 1
		}
		fmt.Println("box", x.ID())
		go x.Exec(ctx, backends.Cmd{Shell: "trap '' TERM; (setsid sleep 1000 &); sleep 1000"})
		if i%3 == 2 {
			go x.Close(ctx)
		}
		if i == 5 {
			select {} // enough for a small machine
		}
	}
}

// containers lists the boxes of an owner that the engine has.
func containers(t testing.TB, host, owner string) []string {
	t.Helper()
	c, err := client.NewClientWithOpts(client.WithHost(host), client.WithAPIVersionNegotiation())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	all, err := c.ContainerList(t.Context(), container.ListOptions{All: true, Filters: filters.NewArgs(filters.Arg("label", docker.LabelOwner+"="+owner))})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, c := range all {
		names = append(names, strings.Join(c.Names, " ")+" "+c.State)
	}
	return names
}

// TestKills kills owners of boxes at random moments. The next start leaves nothing of
// theirs, and does not touch the boxes of one that lives.
func TestKills(t *testing.T) {
	host, kills := engineHost(t), 20
	if *long {
		kills = 200
	}
	slotd := builtServer(t)
	living := open(t, docker.Config{})
	x := boxOf(t, living, backends.Spec{})
	sh(t, x, "echo mine > kept")
	r := rand.New(rand.NewPCG(5, 4))
	for i := range kills {
		cmd := exec.Command("/proc/self/exe", "own", host+";"+slotd)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		owner := ownerOf(t, cmd.Process.Pid)
		lines := bufio.NewScanner(out)
		for n := 1 + r.IntN(6); n > 0 && lines.Scan(); n-- {
			if strings.HasPrefix(lines.Text(), "error") {
				t.Errorf("kill %d: %s", i, lines.Text())
			}
		}
		cmd.Process.Kill()
		cmd.Wait()
		before := len(containers(t, host, owner))
		next := open(t, docker.Config{})
		if left := containers(t, host, owner); len(left) > 0 {
			t.Errorf("kill %d: of %d containers the next start leaves %q", i, before, left)
		}
		if err := next.Close(t.Context()); err != nil {
			t.Error(err)
		}
		folders, _ := filepath.Glob(filepath.Join(os.TempDir(), "hermes-"+owner+"-*"))
		if len(folders) > 0 {
			t.Errorf("kill %d: folders %q are left", i, folders)
		}
		if _, got := sh(t, x, "cat kept"); got != "mine" {
			t.Fatalf("kill %d: the box of a living owner says %q", i, got)
		}
	}
}

// ownerOf names a child as its labels do.
func ownerOf(t testing.TB, pid int) string {
	t.Helper()
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	self := backends.Self()
	start := strings.Fields(string(raw[strings.LastIndexByte(string(raw), ')')+1:]))[19]
	return fmt.Sprintf("%d-%d-%s", self.Space, pid, start)
}

// TestEngineDies kills an engine under a command, starts it again, and goes on. It needs
// a separate engine.
func TestEngineDies(t *testing.T) {
	engineHost(t)
	if os.Geteuid() != 0 {
		t.Skip("starting an engine needs root")
	}
	run := backendtest.OwnEngine(t, t.TempDir())
	host := run("start")
	defer run("clean")
	b, err := docker.Open(t.Context(), docker.Config{Host: host, Image: testImage, Slotd: builtServer(t)}, docker.Surroundings{})
	if err != nil {
		t.Fatal(err)
	}
	x := boxOf(t, b, backends.Spec{})
	done := make(chan error, 1)
	go func() {
		_, err := x.Exec(t.Context(), backends.Cmd{Shell: "touch begun; sleep 1000"})
		done <- err
	}()
	for {
		if _, err := x.ReadFile(t.Context(), "begun", 0); err == nil {
			break
		}
	}
	pid, err := os.ReadFile(filepath.Dir(strings.TrimPrefix(host, "unix://")) + "/pid")
	if err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("kill", "-KILL", strings.TrimSpace(string(pid))).CombinedOutput(); err != nil {
		t.Fatalf("kill the engine: %v %s", err, out)
	}
	if _, got := sh(t, x, "echo on"); got != "on" {
		t.Errorf("a box without its engine says %q", got)
	}
	if _, err := b.Open(t.Context(), backends.Spec{}); !errors.Is(err, backends.ErrUnavailable) {
		t.Errorf("open without an engine: %v", err)
	}
	if again := run("start"); again != host {
		t.Fatalf("the engine came back at %s", again)
	}
	select {
	case err := <-done:
		if !errors.Is(err, backends.ErrLost) {
			t.Errorf("the command: %v", err)
		}
	case <-time.After(2 * time.Minute):
		t.Fatal("the command does not end")
	}
	if _, err := x.Exec(t.Context(), backends.Cmd{Shell: "true"}); !errors.Is(err, backends.ErrLost) {
		t.Errorf("a box of the old engine: %v", err)
	}
	y := boxOf(t, b, backends.Spec{})
	if _, got := sh(t, y, "echo new"); got != "new" {
		t.Errorf("a new box says %q", got)
	}
	if err := errors.Join(x.Close(t.Context()), b.Close(t.Context())); err != nil {
		t.Error("close: ", err)
	}
	if left := containers(t, host, backends.Self().String()); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
}
