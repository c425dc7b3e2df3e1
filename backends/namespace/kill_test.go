//go:build linux

package namespace_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"hermes/backends"
	"hermes/backends/namespace"
	"hermes/backends/namespace/driver"
)

// churn makes boxes, runs commands in them that leave processes, and closes them, four at
// once and without end; every step is a line.
func churn(word string) int {
	b, err := driver.Open(context.Background(), namespace.Config{})
	if err != nil {
		fmt.Println(err)
		return 1
	}
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for {
				x, err := b.Open(context.Background(), backends.Spec{})
				fmt.Println("opened", err)
				if err != nil {
					return
				}
				_, err = x.Exec(context.Background(), backends.Cmd{Shell: breed(word) + " >/dev/null 2>&1"})
				fmt.Println("ran", err)
				fmt.Println("closed", x.Close(context.Background()))
			}
		})
	}
	all.Wait()
	return 1
}

// TestOwnersAreKilled kills owners in the middle of making, using and closing boxes.
// Nothing of them is left after the next sweep, and the box of a living one goes on.
func TestOwnersAreKilled(t *testing.T) {
	mine := box(t, namespace.Config{}, backends.Spec{}) // or skip
	kills := 20
	if *long {
		kills = 200
	}
	word := fmt.Sprintf("7%d.25", os.Getpid())
	for i := range kills {
		cmd := exec.Command("/proc/self/exe", "churn", word)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		lines := 0
		for s := bufio.NewScanner(out); lines < 1+i*7%23 && s.Scan(); lines++ {
		}
		cmd.Process.Kill()
		cmd.Wait()
		if lines == 0 {
			t.Fatalf("owner %d did nothing", i)
		}
		eventually(t, "the processes of a dead owner's boxes are gone", func() bool { return living(t, word) == 0 })
		if _, err := namespace.Sweep(t.Context()); err != nil {
			t.Errorf("sweep after kill %d: %v", i, err)
		}
		if left, _ := filepath.Glob(fmt.Sprintf("/sys/fs/cgroup/*/hermes-*-%d-*", cmd.Process.Pid)); len(left) > 0 {
			t.Errorf("after kill %d: %v", i, left)
		}
	}
	if n, err := namespace.Sweep(t.Context()); n != 0 || err != nil {
		t.Errorf("a last sweep found %d more things: %v", n, err)
	}
	if code, out := sh(t, mine, "echo alive"); code != 0 || out != "alive" {
		t.Errorf("the box of a living owner: code %d, %q", code, out)
	}
}
