//go:build linux

package namespace_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"hermes/backends"
	"hermes/backends/namespace"
	"hermes/backends/namespace/driver"
)

func TestForkBomb(t *testing.T) {
	const limit = 40
	x := box(t, namespace.Config{}, backends.Spec{Limits: backends.Limits{Processes: limit}})
	// Not before the limit is known to hold.
	_, out := sh(t, x, "ulimit -u; ulimit -Hu; sed -n 's/^Max processes *//p' /proc/self/limits; sh -c 'grep \"Max processes\" /proc/$$/limits'")
	words := strings.Fields(strings.ReplaceAll(out, "Max processes", ""))
	if len(words) != 8 {
		t.Fatalf("limits read as %q", out)
	}
	for _, w := range []string{words[0], words[1], words[2], words[3], words[5], words[6]} {
		if w != strconv.Itoa(limit) {
			t.Fatalf("the limit of %d is not in force: %q", limit, out)
		}
	}
	var r backends.Result
	for limit := time.Second; ; limit *= 3 { // a slow machine gets more time to come to the limit
		var err error
		r, err = x.Exec(t.Context(), backends.Cmd{Shell: "i=0; while [ $i -lt 200 ]; do sleep 100 & i=$((i+1)); done; wait", Timeout: limit, Merge: true})
		if err != nil {
			t.Fatal("the bomb: ", err)
		}
		if bytes.Contains(r.Stdout, []byte("fork")) || limit > time.Minute {
			break
		}
	}
	if !bytes.Contains(r.Stdout, []byte("fork")) {
		t.Errorf("no fork was refused: %+v", r)
	}
	r, err := x.Exec(t.Context(), backends.Cmd{
		Shell:   "bomb() { bomb | bomb & }; bomb; sleep 0.5; ls -d /proc/[0-9]* | wc -l",
		Timeout: time.Second,
		Merge:   true,
	})
	if err != nil && !errors.Is(err, backends.ErrBroken) {
		t.Fatal("the second bomb: ", err)
	}
	t.Logf("%d %s", r.Code, bytes.TrimSpace(r.Stdout[max(0, len(r.Stdout)-100):]))
	// The box answers again, or says that it was its own doing.
	r, err = x.Exec(t.Context(), backends.Cmd{Shell: "echo alive; ls -d /proc/[0-9]* | wc -l", Timeout: 5 * time.Second})
	switch {
	case errors.Is(err, backends.ErrBroken):
	case err != nil:
		t.Error("after the bombs: ", err)
	default:
		t.Logf("after the bombs: %q", r.Stdout)
	}
}

func TestMemoryHog(t *testing.T) {
	b := open(t, namespace.Config{})
	x := boxOf(t, b, backends.Spec{Limits: backends.Limits{Memory: 64 << 20}})
	r, err := x.Exec(t.Context(), backends.Cmd{Shell: "head -c 300m /dev/zero | tail | wc -c", Merge: true, Timeout: 3 * time.Minute})
	if errors.Is(err, backends.ErrBroken) {
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Equal(bytes.TrimSpace(r.Stdout), []byte("314572800")) {
		t.Fatalf("300 MiB were held in a box of 64: %+v", r)
	}
	if b.Traits().MemoryBy == "cgroup" && !r.OOM {
		t.Errorf("the kill is not reported: %+v", r)
	}
	if code, out := sh(t, x, "echo alive"); code != 0 || out != "alive" {
		t.Errorf("afterwards: %d %s", code, out)
	}
}

func TestDiskFill(t *testing.T) {
	x := box(t, namespace.Config{}, backends.Spec{Limits: backends.Limits{Disk: 8 << 20}})
	for _, dir := range []string{"/root", "/tmp", "/dev/shm", "/var"} {
		code, out := sh(t, x, "for i in 1 2 3 4 5; do head -c 4m /dev/zero > "+dir+"/f$i || exit 7; done")
		if code != 7 {
			t.Errorf("20 MiB fit into %s: %d %s", dir, code, out)
		}
		if err := x.WriteFile(t.Context(), dir+"/more", make([]byte, 4<<20), 0); err == nil {
			t.Errorf("4 MiB more were written to the full %s", dir)
		}
		sh(t, x, "rm "+dir+"/f*")
	}
	if code, out := sh(t, x, "echo x > ~/x && cat ~/x"); code != 0 || out != "x" {
		t.Errorf("afterwards: %d %s", code, out)
	}
}

// living counts the host's processes that have a word in their arguments.
func living(t *testing.T, word string) int {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, f := range files {
		if raw, err := os.ReadFile(f); err == nil && bytes.Contains(raw, []byte(word)) && !bytes.Contains(raw, []byte("attempt")) {
			n++
		}
	}
	return n
}

// eventually waits for a condition.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	late := time.After(2 * time.Minute)
	for !ok() {
		select {
		case <-tick.C:
		case <-late:
			t.Fatal("never: ", what)
		}
	}
}

// breed starts processes that try to survive: in the background, in sessions of their
// own, forked twice, deaf to signals, stopped.
func breed(word string) string {
	s := "sleep " + word
	return fmt.Sprintf("(%[1]s &); setsid %[1]s & (setsid sh -c 'trap \"\" TERM HUP INT; %[1]s' &) ; %[1]s & kill -STOP $!; echo bred", s)
}

func TestNothingSurvivesClose(t *testing.T) {
	word := fmt.Sprintf("7%d.25", os.Getpid())
	x := box(t, namespace.Config{}, backends.Spec{})
	r, err := x.Exec(t.Context(), backends.Cmd{Shell: "exec >/dev/null 2>&1; " + breed(word)})
	if err != nil || r.Code != 0 {
		t.Fatal(r, err)
	}
	if living(t, word) == 0 {
		t.Fatal("nothing was there to be killed")
	}
	if err := x.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := living(t, word); n != 0 {
		t.Errorf("%d processes survived the box", n)
	}
	if err := x.Close(t.Context()); err != nil {
		t.Error("close again: ", err)
	}
	if _, err := x.Exec(t.Context(), backends.Cmd{Shell: "true"}); !errors.Is(err, backends.ErrClosed) {
		t.Error("after closing: ", err)
	}
}

// own is a program that opens a box with processes in it and waits to be killed.
func own(word string) int {
	ctx := context.Background()
	b, err := driver.Open(ctx, namespace.Config{})
	if err != nil {
		fmt.Println(err)
		return 1
	}
	x, err := b.Open(ctx, backends.Spec{})
	if err != nil {
		fmt.Println(err)
		return 1
	}
	r, err := x.Exec(ctx, backends.Cmd{Shell: breed(word) + " >/dev/null 2>&1; echo bred"})
	fmt.Println(string(r.Stdout), err, "ready")
	select {}
}

func TestNothingSurvivesTheOwner(t *testing.T) {
	open(t, namespace.Config{}) // or skip
	word := fmt.Sprintf("8%d.25", os.Getpid())
	cmd := exec.Command("/proc/self/exe", "own", word)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Process.Kill()
	for s := bufio.NewScanner(out); s.Scan() && !strings.Contains(s.Text(), "ready"); {
	}
	if n := living(t, word); n < 2 {
		t.Fatalf("%d processes were there to be killed", n)
	}
	if removed, err := namespace.Sweep(t.Context()); err != nil {
		t.Fatalf("sweep: %d, %v", removed, err)
	}
	if n := living(t, word); n < 2 {
		t.Fatal("the sweep touched a living owner's box")
	}
	cmd.Process.Kill()
	cmd.Wait()
	eventually(t, "the processes of a dead owner's box are gone", func() bool { return living(t, word) == 0 })
	if _, err := namespace.Sweep(t.Context()); err != nil {
		t.Error("sweep: ", err)
	}
	if n, err := namespace.Sweep(t.Context()); n != 0 || err != nil {
		t.Errorf("a second sweep found %d more things: %v", n, err)
	}
	left, _ := filepath.Glob(fmt.Sprintf("/sys/fs/cgroup/*/*/*/hermes-*-%d-*", cmd.Process.Pid))
	if len(left) > 0 {
		t.Errorf("the sweep left %v", left)
	}
}

// TestCgroupThatStays: a cgroup that cannot be removed with its box is removed by the next
// sweep, and until then Close says that something is left.
func TestCgroupThatStays(t *testing.T) {
	b := open(t, namespace.Config{})
	x := boxOf(t, b, backends.Spec{})
	dirs := b.Groups(x.ID())
	if len(dirs) == 0 {
		t.Skip("boxes have no cgroups here")
	}
	held := filepath.Join(dirs[0], "somebody-elses") // a group with groups in it stays
	if err := os.Mkdir(held, 0o755); err != nil {
		t.Skip("no group can be made in a box's: ", err)
	}
	defer os.Remove(held)
	if err := x.Close(t.Context()); err == nil || !strings.Contains(err.Error(), "remove the cgroup "+dirs[0]) {
		t.Errorf("close, when a cgroup cannot be removed: %v", err)
	}
	if _, err := x.Exec(t.Context(), backends.Cmd{Shell: "true"}); !errors.Is(err, backends.ErrClosed) {
		t.Errorf("exec in a box whose close failed: %v", err)
	}
	if err := os.Remove(held); err != nil {
		t.Fatal(err)
	}
	if n, err := b.Sweep(t.Context()); n < 1 || err != nil {
		t.Errorf("sweep: %d, %v", n, err)
	}
	for _, dir := range dirs {
		if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v", dir, err)
		}
	}
	if err := x.Close(t.Context()); err != nil {
		t.Errorf("close again: %v", err)
	}
}

// TestKilledFromOutside: a box whose server is killed from outside is lost, and not broken by
// its commands.
func TestKilledFromOutside(t *testing.T) {
	word := fmt.Sprintf("9%d.25", os.Getpid())
	b := open(t, namespace.Config{})
	x := boxOf(t, b, backends.Spec{})
	done := make(chan error, 1)
	go func() {
		_, err := x.Exec(t.Context(), backends.Cmd{Shell: "sleep " + word})
		done <- err
	}()
	eventually(t, "the command runs", func() bool { return living(t, word) > 0 })
	if err := b.Kill(x.ID()); err != nil {
		t.Fatal(err)
	}
	if err := <-done; !errors.Is(err, backends.ErrLost) || errors.Is(err, backends.ErrBroken) {
		t.Errorf("in mid-command: %v", err)
	}
	if _, err := x.Exec(t.Context(), backends.Cmd{Shell: "true"}); !errors.Is(err, backends.ErrLost) {
		t.Errorf("afterwards: %v", err)
	}
}

// TestGroupsFoundTogether: back-ends that are opened side by side find the same groups. They
// took each other's probes away, and boxes of one had no limits.
func TestGroupsFoundTogether(t *testing.T) {
	want := namespace.Cgroups()
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 100 {
				if got := namespace.Cgroups(); got != want {
					t.Errorf("%q, want %q", got, want)
					return
				}
			}
		})
	}
	all.Wait()
}
