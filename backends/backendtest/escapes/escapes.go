//go:build linux

// Package escapes tries to get out of a box, in every way that we know.
//
// Its attempts are system calls and files: each runs as a separate program inside the
// box, which is the test's own program, put there by [Run]. So a test that uses this
// package calls [Main] before anything else. [Host] and [Apart] look from the shell for
// what a box must not see of its machine and of other boxes.
package escapes

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"hermes/backends"
)

// command is the first argument of the program that makes one attempt.
const command = "hermes-escape"

// Main makes an attempt when args ask for one: then handled is true and the program must
// exit with code, which is 0 when the attempt was refused.
func Main(args []string) (code int, handled bool) {
	if len(args) == 3 && (args[1] == leaving || args[1] == finding) {
		return pairMain(args[1], args[2]), true
	}
	if len(args) == 4 && args[1] == racing {
		return race(args[2], args[3]), true
	}
	if len(args) != 3 || args[1] != command {
		return 0, false
	}
	f, ok := attempts()[args[2]]
	if !ok {
		fmt.Println("no such attempt")
		return 3, true
	}
	err := f()
	fmt.Println(err)
	if err == nil {
		return 1, true
	}
	return 0, true
}

// Options say what is different about the boxes of a back-end.
type Options struct {
	Repeats int // of all attempts; 0: once
	// Open are attempts that this back-end lets work, with the reason. They are made all
	// the same, and must work: a list that is too long hides something.
	Open map[string]string
}

// Names lists the attempts.
func Names() []string { return slices.Sorted(maps.Keys(attempts())) }

// Run makes every attempt in a box; none may work but those that Options name.
func Run(t *testing.T, x backends.Sandbox, o Options) {
	t.Helper()
	put(t, x)
	names := Names()
	for name := range o.Open {
		if !slices.Contains(names, name) {
			t.Errorf("%q may work, and is no attempt", name)
		}
	}
	for range max(o.Repeats, 1) {
		for _, name := range names {
			t.Run(name, func(t *testing.T) {
				r, err := x.Exec(t.Context(), backends.Cmd{Argv: []string{"./probe", command, name}, Merge: true})
				if err != nil {
					t.Fatal(err)
				}
				_, open := o.Open[name]
				if worked := r.Code == 1; r.Code > 1 || worked != open {
					t.Errorf("expected to work: %v; exit code %d, %s", open, r.Code, r.Stdout)
				}
			})
		}
	}
}

// sh runs a script and returns its output.
func sh(t *testing.T, x backends.Sandbox, script string) string {
	t.Helper()
	r, err := x.Exec(t.Context(), backends.Cmd{Shell: script, Merge: true})
	if err != nil {
		t.Fatalf("%s: %v", script, err)
	}
	return strings.TrimSpace(string(r.Stdout))
}

// open makes a box that ends with the test.
func open(t *testing.T, b backends.Backend) backends.Sandbox {
	t.Helper()
	x, err := b.Open(t.Context(), backends.Spec{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := x.Close(context.Background()); err != nil {
			t.Errorf("close box %s: %v", x.ID(), err)
		}
	})
	return x
}

// Host looks for what a box must not see of its machine: files, processes, sockets,
// descriptors and secrets of the program that made it.
// Rows named by own are left out: there the image has files like the host's.
func Host(t *testing.T, b backends.Backend, own ...string) {
	t.Helper()
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Setenv("HERMES_TEST_SECRET", "sk-live-0123456789")
	leak, err := os.Open(secret) // a descriptor without close-on-exec must not get in
	if err != nil {
		t.Fatal(err)
	}
	defer leak.Close()
	if _, err := unix.FcntlInt(leak.Fd(), unix.F_SETFD, 0); err != nil {
		t.Fatal(err)
	}
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer tcp.Close()
	abstract, err := net.Listen("unix", fmt.Sprintf("@hermes-test-%d", os.Getpid()))
	if err != nil {
		t.Fatal(err)
	}
	defer abstract.Close()
	x := open(t, b)
	port := tcp.Addr().(*net.TCPAddr).Port
	for _, tt := range []struct{ name, script, not string }{
		{"host files", "cat " + secret + "; ls /home /boot /mnt /srv 2>&1 | grep -v 'cannot access'", "x"},
		{"host processes", fmt.Sprintf("ls /proc | grep -x %d; ls -d /proc/[0-9]*/ | wc -l | grep -E '.{3}'", os.Getpid()), "."},
		{"a signal to the host", fmt.Sprintf("kill -0 %d && echo reached", os.Getpid()), "reached"},
		{"the host's loopback", fmt.Sprintf("exec 3<>/dev/tcp/127.0.0.1/%d && echo reached", port), "reached"},
		{"other interfaces", "cat /proc/net/dev | grep -v -e lo: -e Inter -e face", ":"},
		{"routes", "tail -n +2 /proc/net/route", "\t"},
		{"the host's sockets", "cat /proc/net/unix", "hermes-test"},
		{"secrets of the environment", "cat /proc/*/environ | tr '\\0' '\\n'; env; set", "sk-live"},
		{"descriptors", "ls -l /proc/self/fd /proc/$$/fd", "secret"},
		{"sockets of the server", "ls -l /proc/self/fd /proc/$$/fd", "socket:"},
		{"shadow, ssh, hosts of the host", "ls /etc/shadow /etc/ssh ~/.ssh 2>&1 | grep -v 'cannot access'", "/"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if slices.Contains(own, tt.name) {
				t.Skip("the box has such files itself")
			}
			out := sh(t, x, "exec 2>/dev/null; "+tt.script)
			if out != "" && strings.Contains(out, tt.not) || tt.not == "." && out != "" {
				t.Errorf("%s: %s", tt.script, out)
			}
		})
	}
}

// Links makes sure that a path of the box that leads out of it leads nowhere.
func Links(t *testing.T, b backends.Backend) {
	t.Helper()
	dir := t.TempDir()
	os.Chmod(dir, 0o777)
	x := open(t, b)
	sh(t, x, "ln -s "+dir+" out; ln -s /proc/1/root up")
	for _, path := range []string{"out/f", "up" + dir + "/f", "/../../.." + dir + "/f", dir + "/f"} {
		x.WriteFile(t.Context(), path, []byte("x"), 0o644) // may work, but inside
		if _, err := os.Stat(filepath.Join(dir, "f")); !errors.Is(err, os.ErrNotExist) {
			t.Fatalf("writing %s reached the host: %v", path, err)
		}
	}
	hostname, _ := os.Hostname()
	if raw, err := x.ReadFile(t.Context(), "up/etc/hostname", 0); err == nil && hostname != "" && strings.TrimSpace(string(raw)) == hostname {
		t.Errorf("host name of another root: %q", raw)
	}
}

// Apart makes sure that two boxes see nothing of each other.
func Apart(t *testing.T, b backends.Backend) {
	t.Helper()
	one, two := open(t, b), open(t, b)
	if one.ID() == two.ID() {
		t.Fatal("one id for two boxes")
	}
	sh(t, one, "for d in ~ /tmp /dev/shm /etc /var; do echo one > $d/mark; done; sleep 1000 >/dev/null 2>&1 &")
	if out := sh(t, two, "cat ~/mark /tmp/mark /dev/shm/mark /etc/mark /var/mark 2>/dev/null; ps ax 2>/dev/null | grep '[s]leep 1000'"); out != "" {
		t.Errorf("the second box sees of the first: %s", out)
	}
}

// Exhaust makes sure that a box which takes all it can get (processes, memory, disk)
// harms neither the machine nor another box, and leaves nothing running. Limits of the
// back-end, or of s, hold.
func Exhaust(t *testing.T, b backends.Backend, s backends.Spec) {
	t.Helper()
	neighbour := open(t, b)
	for _, tt := range []struct{ name, script string }{
		{"processes", "f() { [ $1 -gt 0 ] && { f $(($1-1)) & f $(($1-1)) & wait; }; sleep 5; }; f 9"},
		{"memory", "head -c 3000000000 /dev/zero | tail -n 1 | wc -c"},
		{"disk", "head -c 3000000000 /dev/zero > big; head -c 3000000000 /dev/zero > /tmp/big"},
		{"survivors", "for i in 1 2 3; do (setsid sh -c 'trap \"\" TERM HUP INT; while :; do sleep 1000; done' >/dev/null 2>&1 &); done"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			x, err := b.Open(t.Context(), s)
			if err != nil {
				t.Fatal(err)
			}
			_, err = x.Exec(t.Context(), backends.Cmd{Shell: tt.script, Timeout: 5 * time.Second})
			if err != nil && !errors.Is(err, backends.ErrBroken) {
				t.Errorf("not reported as the command's doing: %v", err)
			}
			if got := sh(t, neighbour, "echo well"); got != "well" {
				t.Errorf("the other box: %q", got)
			}
			if err := x.Close(context.Background()); err != nil {
				t.Errorf("close: %v", err)
			}
		})
	}
}
