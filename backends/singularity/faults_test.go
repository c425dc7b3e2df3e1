//go:build linux

package singularity_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"hermes/backends"
	"hermes/backends/backendtest"
	"hermes/backends/pool"
	"hermes/backends/singularity"
)

var long = flag.Bool("long", false, "run the long forms")

// meddle is a program in front of the stand-in whose calls go wrong, about one in eight,
// as long as the file "begun" is there: refused, for a quota too, late, carried out and
// said to have failed, answered to one half, carried out twice. What goes wrong is drawn
// by the process id; each fault is a line of the file "log".
const meddle = `#!/bin/sh
d=%q p=%q
[ -e "$d/begun" ] && [ "$1" != --version ] || exec "$p" "$@"
n=$(($(echo $$ | cksum | cut -d ' ' -f 1) %% 1000))
[ $n -lt 125 ] || exec "$p" "$@"
k=$((n %% 6))
[ "$1" = exec ] && k=$((k %% 3))
echo "$1 $2 $k" >> "$d/log"
case $k in
0) echo "FATAL:   while starting: resource temporarily unavailable" >&2; exit 255 ;;
1) echo "FATAL:   disk quota exceeded" >&2; exit 255 ;;
2) sleep 0.1; exec "$p" "$@" ;;
3) "$p" "$@"; exit 255 ;;
4) "$p" "$@" > "$d/out.$$"; head -c $(($(wc -c < "$d/out.$$") / 2)) "$d/out.$$"; rm "$d/out.$$" ;;
5) "$p" "$@" > /dev/null; exec "$p" "$@" ;;
esac
`

// TestFaults: whatever goes wrong with the program, no instance and no folder is left.
func TestFaults(t *testing.T) {
	want := 30
	if *long {
		want = 1000
	}
	c, at := standIn(t)
	dir := t.TempDir()
	program := filepath.Join(dir, standInName)
	if err := os.WriteFile(program, fmt.Appendf(nil, meddle, dir, c.Program), 0o755); err != nil {
		t.Fatal(err)
	}
	c.Program = program
	b, err := singularity.Open(t.Context(), c, at)
	if err != nil {
		t.Fatal(err)
	}
	begun := filepath.Join(dir, "begun")
	if err := os.WriteFile(begun, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	injected := func() int {
		raw, _ := os.ReadFile(filepath.Join(dir, "log")) // none yet
		return bytes.Count(raw, []byte("\n"))
	}
	backendtest.Endure(t, backendtest.Ordeal{Backend: b, Injected: injected, Want: want, Answers: true,
		Heal: func() {
			if err := os.Remove(begun); err != nil {
				t.Error(err)
			}
		},
		Kill:    func(x backends.Sandbox) error { return b.Kill(x.ID()) },
		Options: pool.Options{Max: 4, Breaker: 100, Seed: 3},
		Left: func() ([]string, error) {
			left, err := b.Instances()
			folders, _ := os.ReadDir(c.Dir)
			for _, f := range folders {
				left = append(left, f.Name())
			}
			return left, err
		}})
}

// slowly is a program in front of the stand-in. A start makes a process, writes its pid to the
// FIFO "made", waits for "go" on the FIFO "told", ends the process and runs the stand-in.
const slowly = `#!/bin/sh
d=%q p=%q
[ "$1 $2" = "instance start" ] || exec "$p" "$@"
setsid sleep 86402.5 </dev/null >/dev/null 2>&1 &
echo $! > "$d/made"
while read word && [ "$word" != go ]; do :; done < "$d/told"
kill $!
exec "$p" "$@"
`

// TestCallerLeavesInMidStart: a start is not cut off between what it makes and what it writes
// down. Else an instance would stay that hermes does not know.
func TestCallerLeavesInMidStart(t *testing.T) {
	c, at := standIn(t)
	dir := t.TempDir()
	program := filepath.Join(dir, standInName)
	if err := os.WriteFile(program, fmt.Appendf(nil, slowly, dir, c.Program), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"made", "told"} {
		if err := syscall.Mkfifo(filepath.Join(dir, name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c.Program = program
	b := open(t, c, at)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := b.Open(ctx, backends.Spec{})
		ended <- err
	}()
	pid, err := os.ReadFile(filepath.Join(dir, "made"))
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	words := strings.Repeat("not yet\n", 20_000) + "go\n" // read one by one, while whoever wants to end it may
	if err := os.WriteFile(filepath.Join(dir, "told"), []byte(words), 0); err != nil {
		t.Error(err)
	}
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if words, err := os.ReadFile("/proc/" + strings.TrimSpace(string(pid)) + "/cmdline"); err == nil && bytes.Contains(words, []byte("86402.5")) {
		t.Error("what the start had made is still there")
	}
	if left, err := b.Instances(); err != nil || len(left) > 0 {
		t.Errorf("left: %q, %v", left, err)
	}
}

// stubborn is a program in front of the stand-in that carries starts out and says that they
// failed, and stops and lists nothing, as long as the file "begun" is there.
const stubborn = `#!/bin/sh
d=%q p=%q
[ -e "$d/begun" ] || exec "$p" "$@"
case "$1 $2" in
"instance start") [ -e "$d/starts" ] && exec "$p" "$@"; "$p" "$@"; exit 255 ;;
"instance stop" | "instance list") echo "FATAL:   resource temporarily unavailable" >&2; exit 255 ;;
esac
exec "$p" "$@"
`

// TestRemovalFails: a box that could not be removed, whether it ever opened or not, is
// removed by the next sweep, or at the end.
func TestRemovalFails(t *testing.T) {
	for _, opens := range []bool{false, true} {
		for _, sweeps := range []bool{true, false} {
			t.Run(fmt.Sprintf("opens %v sweeps %v", opens, sweeps), func(t *testing.T) {
				c, at := standIn(t)
				dir := t.TempDir()
				program := filepath.Join(dir, standInName)
				if err := os.WriteFile(program, fmt.Appendf(nil, stubborn, dir, c.Program), 0o755); err != nil {
					t.Fatal(err)
				}
				c.Program = program
				b := open(t, c, at)
				begun, starts := filepath.Join(dir, "begun"), filepath.Join(dir, "starts")
				if err := os.WriteFile(begun, nil, 0o600); err != nil {
					t.Fatal(err)
				}
				if opens {
					if err := os.WriteFile(starts, nil, 0o600); err != nil {
						t.Fatal(err)
					}
				}
				x, err := b.Open(t.Context(), backends.Spec{})
				if opens && err == nil {
					err = x.Close(t.Context())
				}
				if err == nil {
					t.Fatal("nothing failed")
				}
				if err := os.Remove(begun); err != nil {
					t.Fatal(err)
				}
				if left, err := b.Instances(); err != nil || len(left) != 1 {
					t.Fatalf("left: %q, %v; want the one that was made", left, err)
				}
				if sweeps {
					if n, err := b.Sweep(t.Context()); n != 1 || err != nil {
						t.Errorf("swept %d, %v", n, err)
					}
				} else if err := b.Close(t.Context()); err != nil {
					t.Error(err)
				}
				left, err := b.Instances()
				folders, derr := os.ReadDir(c.Dir)
				if err != nil || derr != nil || len(left) > 0 || len(folders) > 0 {
					t.Errorf("left: %q and %q, %v, %v", left, folders, err, derr)
				}
			})
		}
	}
}
