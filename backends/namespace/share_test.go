//go:build linux

package namespace_test

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"hermes/backends"
	"hermes/backends/namespace"
)

// probes is a folder with this program, to be shown in boxes.
func probes(t *testing.T) string {
	t.Helper()
	raw, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for d := dir; d != filepath.Clean(os.TempDir()) && d != "/"; d = filepath.Dir(d) { // no id of a box is ours
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "probe"), raw, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// keeps starts a probe in a box that keeps what it has got, and returns the line that it says about that.
func keeps(t *testing.T, x backends.Sandbox, dir, args string) string {
	t.Helper()
	_, out := sh(t, x, fmt.Sprintf("rm -f got; %s/probe probe %s > got 2>&1 & while [ ! -s got ]; do sleep 0.02; done; cat got", dir, args))
	return out
}

// hostOne has a process of the host take one of a resource.
func hostOne(t *testing.T, what string) error {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "probe", "take", what, "1")
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	defer cmd.Wait()
	defer cmd.Process.Kill()
	var n int
	var said string
	fmt.Fscan(pipe, &n, &said)
	if n != 1 {
		return fmt.Errorf("%d: %s", n, said)
	}
	return nil
}

// since says whether the kernel is a version or a later one.
func since(t *testing.T, major, minor int) bool {
	t.Helper()
	raw, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		t.Fatal(err)
	}
	var a, b int
	fmt.Sscanf(string(raw), "%d.%d", &a, &b)
	return a > major || a == major && b >= minor
}

// TestShares: what a box takes of the kernel ends at its limit, and then the host and another box still get
// theirs.
func TestShares(t *testing.T) {
	dir := probes(t)
	for _, tt := range []struct {
		what   string
		limits namespace.Limits
		most   int
		exact  bool
	}{
		{what: "inotify", limits: namespace.Limits{Inotify: 5}, most: 5, exact: true},
		{what: "inotify", most: 32},
		{what: "watches", limits: namespace.Limits{Watches: 50}, most: 50, exact: true},
		{what: "terminals", most: 32, exact: true},
		{what: "terminals", limits: namespace.Limits{Terminals: 3}, most: 3, exact: true},
		{what: "signals", most: 1024, exact: true},
		{what: "timers", most: 1024, exact: true},
		{what: "timers", limits: namespace.Limits{Signals: 100}, most: 100, exact: true},
		{what: "queues", limits: namespace.Limits{Queues: 300 << 10}, most: 3, exact: true},
		{what: "queues", most: 2, exact: true},
		{what: "aio", most: 0},
	} {
		t.Run(fmt.Sprintf("%s at most %d", tt.what, tt.most), func(t *testing.T) {
			b := open(t, namespace.Config{ReadOnly: []string{dir}, Limits: tt.limits})
			x := boxOf(t, b, backends.Spec{})
			said := keeps(t, x, dir, "take "+tt.what+" 5000")
			n, err := strconv.Atoi(strings.Fields(said + " .")[0])
			if err != nil || n > tt.most || tt.exact && n < tt.most-waiting(tt.most) || strings.Contains(said, "nil") {
				t.Errorf("the box took %s, and may take %d", said, tt.most)
			}
			if err := hostOne(t, tt.what); err != nil {
				t.Errorf("the host gets none beside it: %v", err)
			}
			if said := keeps(t, boxOf(t, b, backends.Spec{}), dir, "take "+tt.what+" 1"); tt.most > 0 && said != "1 <nil>" {
				t.Errorf("another box gets none: %s", said)
			}
		})
	}
}

// waiting is how many of a limit another process of the box may hold: a signal that waits for
// it is counted too.
func waiting(limit int) int { return min(limit/10, 8) }

// TestLimitsOfProcesses: commands have the limits of the section, of the first process and of slotd too, and the
// first process has some more of what commands wait for.
func TestLimitsOfProcesses(t *testing.T) {
	b := open(t, namespace.Config{Limits: namespace.Limits{Signals: 500, Queues: 100000}})
	x := boxOf(t, b, backends.Spec{})
	for _, byServer := range []bool{false, true} {
		if byServer {
			served(t, x)
		}
		if _, out := sh(t, x, "bash -c 'ulimit -Hi; ulimit -Hq; ulimit -Hl; ulimit -Hr; ulimit -He'"); out != "500\n100000\n1024\n0\n0" {
			t.Errorf("by slotd %v: limits of a command: %q", byServer, strings.Fields(out))
		}
	}
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/limits", b.PID(x.ID())))
	if err != nil {
		t.Fatal(err)
	}
	const reserve = 64 // signals for slotd beyond those of commands
	for _, want := range []string{
		fmt.Sprint("Max pending signals ", 500+reserve),
		"Max msgqueue size 100000",
		"Max locked memory 1048576",
		"Max nice priority 0",
		"Max realtime priority 0",
	} {
		if !strings.Contains(strings.Join(strings.Fields(string(raw)), " "), want+" ") {
			t.Errorf("the first process has not %q:\n%s", want, raw)
		}
	}
}

// TestShareOfAPlainUser: where the kernel counts what boxes take with what their user takes, a box may take a
// sixteenth, unless the section says otherwise.
func TestShareOfAPlainUser(t *testing.T) {
	for _, tt := range []struct {
		setting string
		asked   namespace.Limits
		usual   int
		own     bool // what was asked for
	}{
		{setting: "max_inotify_instances", usual: 32},
		{setting: "max_inotify_watches", usual: 16384},
		{setting: "max_inotify_instances", asked: namespace.Limits{Inotify: 20}, usual: 20, own: true},
		{setting: "max_inotify_watches", asked: namespace.Limits{Watches: 15000}, usual: 15000, own: true},
	} {
		want := tt.usual
		if os.Geteuid() != 0 && !tt.own {
			raw, err := os.ReadFile("/proc/sys/user/" + tt.setting)
			if err != nil {
				t.Fatal(err)
			}
			all, err := strconv.Atoi(strings.TrimSpace(string(raw)))
			if err != nil {
				t.Fatal(err)
			}
			want = min(want, all/16)
		}
		if _, out := sh(t, box(t, namespace.Config{Limits: tt.asked}, backends.Spec{}), "cat /proc/sys/user/"+tt.setting); out != strconv.Itoa(want) {
			t.Errorf("%s, %+v: %s, want %d", tt.setting, tt.asked, out, want)
		}
	}
}

// TestSharesOfMany: what many boxes take together is not taken from the root who made them: each is counted to a
// different user. A plain user has no other.
func TestSharesOfMany(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("boxes of a plain user are counted together, and with him")
	}
	dir := probes(t)
	b := open(t, namespace.Config{ReadOnly: []string{dir}, Limits: namespace.Limits{Inotify: 100, Queues: 500 << 10, Signals: 30000}})
	for range 4 {
		x := boxOf(t, b, backends.Spec{})
		for what, want := range map[string]int{"inotify": 100, "queues": 6, "signals": 30000} {
			said := keeps(t, x, dir, "take "+what+" 1000000")
			if n, err := strconv.Atoi(strings.Fields(said + " .")[0]); err != nil || n > want || n < want-waiting(want) {
				t.Errorf("%s: a box took %s, and may take %d", what, said, want)
			}
		}
	}
	for _, what := range []string{"inotify", "queues", "signals", "timers"} {
		if err := hostOne(t, what); err != nil {
			t.Errorf("%s: the host gets none beside four boxes: %v", what, err)
		}
	}
}

// TestSocketMemory: where a cgroup counts the memory of sockets, a box does not take that of the machine.
func TestSocketMemory(t *testing.T) {
	dir := probes(t)
	b := open(t, namespace.Config{ReadOnly: []string{dir}, Limits: namespace.Limits{Sockets: 8 << 20}})
	x := boxOf(t, b, backends.Spec{})
	counted := false
	for _, g := range b.Groups(x.ID()) {
		_, err := os.Stat(g + "/memory.kmem.tcp.limit_in_bytes")
		counted = counted || err == nil
	}
	if !counted {
		t.Skip("no cgroup of version 1 counts the memory of sockets here")
	}
	said := keeps(t, x, dir, "take sockets 100")
	if n, err := strconv.Atoi(strings.Fields(said + " .")[0]); err != nil || n == 0 || n > 20 {
		t.Errorf("connections that a box with 8 MiB of socket memory filled: %s", said)
	}
	if said := keeps(t, boxOf(t, b, backends.Spec{}), dir, "take sockets 1"); said != "1 <nil>" {
		t.Errorf("another box: %s", said)
	}
}

// TestSharedMemory: System V segments are no way around a memory limit without a cgroup.
func TestSharedMemory(t *testing.T) {
	if !since(t, 6, 12) {
		t.Skip("before Linux 6.12 no box can lower kernel.shmall")
	}
	dir := probes(t)
	x := box(t, namespace.Config{Cgroup: "off", ReadOnly: []string{dir}, Limits: namespace.Limits{Memory: 512 << 20}}, backends.Spec{})
	said := keeps(t, x, dir, "take segments 2000")
	if n, err := strconv.Atoi(strings.Fields(said + " .")[0]); err != nil || n != 512 {
		t.Errorf("segments of a MiB in a box of 512: %s", said)
	}
}

// TestLocksOfTheHost: locks, leases and watches on files that a box is shown meet neither the host nor another box.
func TestLocksOfTheHost(t *testing.T) {
	dir := probes(t)
	mine := filepath.Join(dir, "file")
	if err := os.WriteFile(mine, []byte("text"), 0o644); err != nil {
		t.Fatal(err)
	}
	b := open(t, namespace.Config{ReadOnly: []string{dir}})
	one, two := boxOf(t, b, backends.Spec{}), boxOf(t, b, backends.Spec{})
	raw, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	if !since(t, 5, 11) || strings.Contains(string(raw), " /usr/") {
		t.Skip("this kernel, or what is mounted below /usr, does not let a box cover the host's folders")
	}
	files := []string{"/usr/bin/env", mine}
	for _, dir := range []string{"/etc/ssl", "/etc/alternatives"} {
		filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err == nil && d.Type().IsRegular() {
				files = append(files, path)
				return fs.SkipAll
			}
			return nil
		})
	}
	all := strings.Join(files, " ")
	first := keeps(t, one, dir, "lock "+all)
	if n, err := strconv.Atoi(first); err != nil || n < 2*len(files) {
		t.Fatalf("%s locks were taken of %d files", first, len(files))
	}
	if second := keeps(t, two, dir, "lock "+all); second != first {
		t.Errorf("another box took %s locks, not %s", second, first)
	}
	for _, file := range files {
		f, err := os.Open(file)
		if err != nil {
			continue // a plain user's
		}
		if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
			t.Errorf("the host cannot lock %s: %v", file, err)
		}
		f.Close()
	}
	if f, err := os.OpenFile(mine, os.O_WRONLY|unix.O_NONBLOCK, 0); err != nil { // a lease would be broken first
		t.Errorf("the host cannot write its file: %v", err)
	} else {
		f.Close()
	}
	for _, x := range []backends.Sandbox{one, two} {
		if code, out := sh(t, x, "echo x >> "+mine); code == 0 {
			t.Errorf("a file of the host was written: %s", out)
		}
	}
}

// TestLimitsRefused: limits that cannot work are refused before a box is made.
func TestLimitsRefused(t *testing.T) {
	for _, tt := range []struct {
		limits namespace.Limits
		want   string
	}{
		{namespace.Limits{Inotify: -1}, "inotify: -1"},
		{namespace.Limits{Watches: -5}, "watches: -5"},
		{namespace.Limits{Terminals: -1}, "terminals: -1"},
		{namespace.Limits{Terminals: 1 << 40}, "terminals: 1099511627776"},
		{namespace.Limits{Signals: 3}, "signals: 3 is below 64"},
		{namespace.Limits{Queues: -1}, "queues: -1"},
		{namespace.Limits{Sockets: 1024}, "sockets: 1024 is below"},
	} {
		if err := (namespace.Config{Limits: tt.limits}).Check(); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%+v: %v, want %q", tt.limits, err, tt.want)
		}
	}
}
