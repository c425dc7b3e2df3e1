package ssh_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"hermes/backends"
	hssh "hermes/backends/ssh"
	"hermes/backends/ssh/station"
)

// own is a second owner: a process that opens a box with a long command in it, says the
// command's pid and waits to be killed. Its boxes are not isolated, so that their
// processes can be seen from outside.
func own(args []string) int {
	ctx := context.Background()
	program, _ := os.Executable()
	b, err := hssh.Open(ctx, hssh.Config{Host: args[0], Keys: []string{args[1]}, Agent: "off", KnownHosts: []string{args[2]}, Dir: args[3],
		Slotd: program, Isolation: station.Plain, KeepAlive: time.Second, Reconnect: time.Second, Linger: duration(args[4])}, hssh.Surroundings{})
	if err == nil {
		var x backends.Sandbox
		x, err = b.Open(ctx, backends.Spec{})
		if err == nil {
			var r backends.Result
			r, err = x.Exec(ctx, backends.Cmd{Shell: "(setsid sleep 100000 >/dev/null 2>&1 & echo $!)"})
			fmt.Printf("pid %s\n", strings.TrimSpace(string(r.Stdout)))
		}
	}
	if err != nil {
		fmt.Println(err)
		return 1
	}
	select {}
}

func duration(s string) time.Duration {
	d, err := time.ParseDuration(s)
	if err != nil {
		panic(err)
	}
	return d
}

// second starts another owner and returns a command's pid in its box.
func second(t *testing.T, at place, c hssh.Config, linger string) (*exec.Cmd, int) {
	t.Helper()
	x := exec.Command(c.Slotd, "own", c.Host, at.key, at.known, c.Dir, linger)
	out, err := x.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := x.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { x.Process.Kill(); x.Wait() })
	line, err := bufio.NewReader(out).ReadString('\n')
	word, ok := strings.CutPrefix(strings.TrimSpace(line), "pid ")
	pid, err2 := strconv.Atoi(word)
	if err != nil || !ok || err2 != nil {
		t.Fatalf("the other owner says %q, %v", line, err)
	}
	return x, pid
}

// runs reports whether a process lives and is not a zombie.
func runs(pid int) bool {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && !strings.Contains(string(raw), ") Z ")
}

// until polls what another process does.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	end := time.NewTimer(2 * time.Minute)
	defer end.Stop()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-end.C:
			t.Fatalf("%s: not within two minutes", what)
		}
	}
}

// TestOwnerKilled: rows 68 and 69 of the suite. What a killed owner left goes at the next
// start on its machine, what belongs to a living one stays.
func TestOwnerKilled(t *testing.T) {
	alongside(t)
	at := serve(t)
	c := at.config(t)
	c.Isolation = station.Plain
	dies, dead := second(t, at, c, "1h")
	lives, alive := second(t, at, c, "1h")
	dies.Process.Kill()
	dies.Wait()
	b := open(t, c)
	until(t, "end of a dead owner's command", func() bool { return !runs(dead) })
	if !runs(alive) {
		t.Fatal("the command of a living owner was ended")
	}
	if n, err := b.Sweep(t.Context()); n != 1 || err != nil {
		t.Errorf("swept %d, %v; want what Open removed", n, err)
	}
	lives.Process.Kill()
	lives.Wait()
	if n, err := b.Sweep(t.Context()); n != 1 || err != nil {
		t.Errorf("swept %d, %v", n, err)
	}
	until(t, "end of the command", func() bool { return !runs(alive) })
}

// TestLinger: boxes of a client that is not heard of end by themselves.
func TestLinger(t *testing.T) {
	alongside(t)
	at := serve(t)
	c := at.config(t)
	x, pid := second(t, at, c, "10s") // enough for a loaded machine to be heard of
	x.Process.Kill()
	x.Wait()
	until(t, "end of the command", func() bool { return !runs(pid) })
	until(t, "end of the station", func() bool {
		left, _ := filepath.Glob(filepath.Join(c.Dir, "s", "*"))
		return len(left) == 0
	})
}

// stationOf is the process of the only station below a folder.
func stationOf(t *testing.T, dir string) int {
	t.Helper()
	cards, _ := filepath.Glob(filepath.Join(dir, "s", "*", "owner"))
	if len(cards) != 1 {
		t.Fatalf("stations: %v", cards)
	}
	raw, err := os.ReadFile(cards[0])
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(raw), `"pid":`)
	pid, err := strconv.Atoi(strings.TrimRight(rest, "}"))
	if err != nil {
		t.Fatal(err)
	}
	return pid
}

// TestStationKilled: boxes of a station that died are lost, what they left is removed by
// the next one, and that is started for the next box.
func TestStationKilled(t *testing.T) {
	alongside(t)
	at := serve(t)
	c := at.config(t)
	c.Isolation = station.Plain
	b := open(t, c)
	x := openBox(t, b)
	r, err := x.Exec(t.Context(), backends.Cmd{Shell: "(setsid sleep 100000 >/dev/null 2>&1 & echo $!)"})
	if err != nil {
		t.Fatal(err)
	}
	left, _ := strconv.Atoi(strings.TrimSpace(string(r.Stdout)))
	pid := stationOf(t, c.Dir)
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	until(t, "end of the station", func() bool { return !runs(pid) })
	if _, err := x.Exec(t.Context(), backends.Cmd{Shell: "true"}); !lost(err) {
		t.Errorf("exec in a box of a dead station: %v", err)
	}
	y := openBox(t, b)
	if _, err := y.Exec(t.Context(), backends.Cmd{Shell: "true"}); err != nil {
		t.Error(err)
	}
	if err := x.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if n, err := b.Sweep(t.Context()); n != 1 || err != nil {
		t.Errorf("swept %d, %v", n, err)
	}
	until(t, "end of what it left", func() bool { return !runs(left) })
}
