//go:build linux

package namespace_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	"hermes/backends"
	"hermes/backends/namespace"
	"hermes/backends/namespace/driver"
)

// TestStoppedAtTheirStart: a command of the box that stops every other process without end,
// also those that are not yet the program that they shall be, harms its own box alone: calls
// end, with what its commands have done, or with the word that they broke it.
func TestStoppedAtTheirStart(t *testing.T) {
	b := open(t, namespace.Config{})
	for name, file := range map[string]bool{"pid 1 starts commands": false, "slotd does": true} {
		t.Run(name, func(t *testing.T) {
			x := boxOf(t, b, backends.Spec{})
			if file {
				served(t, x)
			}
			if code, out := sh(t, x, "(setsid sh -c 'until test -e go; do :; done; while :; do kill -STOP -1; done' >/dev/null 2>&1 &); echo ok"); code != 0 || out != "ok" {
				t.Fatal(code, out)
			}
			short := 200 * time.Millisecond
			if _, err := x.Exec(t.Context(), backends.Cmd{Shell: "touch go", Timeout: short}); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				r, err := x.Exec(t.Context(), backends.Cmd{Shell: "true", Timeout: short})
				if errors.Is(err, backends.ErrLost) || err != nil && !errors.Is(err, backends.ErrBroken) {
					t.Fatal(err)
				}
				if err == nil && r.Code != 0 && !r.TimedOut {
					t.Errorf("%+v", r)
				}
			}
		})
	}
}

// TestWhoseFaultStuckIs: a box that is of no more use while its commands stop one another is
// broken by them; one that goes away long after is lost.
func TestWhoseFaultStuckIs(t *testing.T) {
	b := open(t, namespace.Config{})
	for ago, want := range map[time.Duration]error{0: backends.ErrBroken, time.Minute: backends.ErrLost} {
		x := boxOf(t, b, backends.Spec{})
		b.Stuck(x.ID(), time.Now().Add(-ago))
		if err := b.Kill(x.ID()); err != nil {
			t.Fatal(err)
		}
		if _, err := x.Exec(t.Context(), backends.Cmd{Shell: "true"}); !errors.Is(err, want) {
			t.Errorf("stuck %s ago: %v, want %v", ago, err, want)
		}
	}
}

// TestOwnerDiesWhileAChildIsStopped: such a child keeps pid 1, or slotd in its place, from
// hearing that its owner is gone. Nothing is left all the same.
func TestOwnerDiesWhileAChildIsStopped(t *testing.T) {
	open(t, namespace.Config{}) // or skip
	word := fmt.Sprintf("8%d.25", os.Getpid())
	for range 5 {
		cmd := exec.Command("/proc/self/exe", "stopper", word)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		bufio.NewScanner(out).Scan() // a command may be stuck now
		cmd.Process.Kill()
		cmd.Wait()
		eventually(t, "the box of a dead owner is gone", func() bool { return living(t, word) == 0 })
	}
}

// stopper is an owner whose box stops its own commands at their start.
func stopper(word string) int {
	ctx := context.Background()
	b, err := driver.Open(ctx, namespace.Config{})
	if err != nil {
		return 1
	}
	x, err := b.Open(ctx, backends.Spec{})
	if err != nil {
		return 1
	}
	x.Exec(ctx, backends.Cmd{Shell: "(setsid sh -c 'until test -e go; do :; done; while :; do kill -STOP -1; done' " + word + " >/dev/null 2>&1 &)"})
	go x.Exec(ctx, backends.Cmd{Shell: "touch go"})
	for range 200 {
		go x.Exec(ctx, backends.Cmd{Argv: []string{"true"}})
	}
	time.AfterFunc(300*time.Millisecond, func() { fmt.Println("now") })
	select {}
}
