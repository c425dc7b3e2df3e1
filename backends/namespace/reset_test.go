//go:build linux

package namespace_test

import (
	"os"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"hermes/backends"
	"hermes/backends/namespace"
)

// reset makes a box as new.
func reset(t *testing.T, x backends.Sandbox) backends.Cleaned {
	t.Helper()
	r, ok := backends.As[backends.Resetter](x)
	if !ok {
		t.Fatal("the box cannot be reset")
	}
	done, err := r.Reset(t.Context(), backends.ResetFull)
	if err != nil {
		t.Fatal(err)
	}
	return done
}

// TestResetFull plants every item of the list, one after the other, in one box.
func TestResetFull(t *testing.T) {
	x := box(t, namespace.Config{Resets: true}, backends.Spec{})
	python := "import ctypes,os;c=ctypes.CDLL(None);"
	plants := map[string]string{
		"nothing":            "true",
		"files of the home":  "mkdir -p .a/..b && touch .a/..b/c ...d .bash_history && chmod 0 .a",
		"/tmp":               "touch /tmp/.x /tmp/..y && mkdir /tmp/z && chmod 0 /tmp/z",
		"/var/tmp":           "touch /var/tmp/x",
		"/dev/shm":           "echo x > /dev/shm/x",
		"a daemon":           "(setsid sh -c 'trap \"\" TERM HUP; while :; do sleep 100; done' >/dev/null 2>&1 &)",
		"a stopped process":  "(sleep 100 >/dev/null 2>&1 & kill -STOP $!)",
		"a listening socket": "command -v python3 >/dev/null || exit 0; python3 -c 'import socket,os,sys\ns=socket.socket();s.bind((\"127.0.0.1\",7777));s.listen();u=socket.socket(socket.AF_UNIX);u.bind(\"\\0hidden\");u.listen()\nif os.fork(): sys.exit()\nos.setsid();os.close(0);os.close(1);os.close(2)\nimport time;time.sleep(1000)'",
		"shared memory":      "command -v python3 >/dev/null || exit 0; python3 -c '" + python + "exit(c.shmget(4242,4096,0o1666)<0)'",
		"a semaphore":        "command -v python3 >/dev/null || exit 0; python3 -c '" + python + "exit(c.semget(4242,1,0o1666)<0)'",
		"a message queue":    "command -v python3 >/dev/null || exit 0; python3 -c '" + python + "exit(c.msgget(4242,0o1666)<0)'",
		"a POSIX queue":      "command -v python3 >/dev/null || exit 0; python3 -c '" + python + "exit(c.mq_open(b\"/left\",os.O_RDWR|os.O_CREAT,0o600,None)<0)'",
	}
	for name, plant := range plants {
		t.Run(name, func(t *testing.T) {
			if code, out := sh(t, x, plant); code != 0 {
				t.Fatalf("plant: code %d, %s", code, out)
			}
			if done := reset(t, x); len(done.Left) > 0 {
				t.Errorf("left: %q", done.Left)
			}
			_, out := sh(t, x,
				`ls -A ~ /tmp /var/tmp /dev/shm | grep -v '^/\|^$'; tail -qn +2 /proc/sysvipc/* 2>/dev/null; grep hidden /proc/net/unix; tail -qn +2 /proc/net/tcp
				ls -A /dev/mqueue; command -v python3 >/dev/null && python3 -c 'import ctypes,os;ctypes.CDLL(None).mq_open(b"/left",os.O_RDWR)<0 or print("a queue")'
				n=0; for p in /proc/[0-9]*; do n=$((n+1)); done; [ $n -le 5 ] || ps; :`)
			if out != "" {
				t.Errorf("the next one finds: %s", out)
			}
		})
	}
}

// TestResetSeesTheServer: what the next one's commands would feel, limits and priorities of
// the server, no command can set; where they were set all the same, here from outside, a reset
// sees it.
func TestResetSeesTheServer(t *testing.T) {
	for name, tt := range map[string]struct {
		inside  string
		outside func(t *testing.T, pid int) error
	}{
		"a limit": {"prlimit --pid 1 --nofile=64:64", func(t *testing.T, pid int) error {
			setLimit(t, pid, unix.RLIMIT_NOFILE, 64)
			return nil
		}},
		"a priority": {"renice -n 5 -g 1; renice -n 5 -u 0", func(_ *testing.T, pid int) error {
			return unix.Setpriority(unix.PRIO_PROCESS, pid, 19)
		}},
		"cores": {"taskset -ap 1 1; taskset -p 1 1", func(_ *testing.T, pid int) error {
			one := unix.CPUSet{1}
			return unix.SchedSetaffinity(pid, &one)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			b := open(t, namespace.Config{Resets: true})
			x := boxOf(t, b, backends.Spec{})
			if _, out := sh(t, x, tt.inside); len(reset(t, x).Left) > 0 {
				t.Fatalf("a command changed the server: %s", out)
			}
			if left, err := unix.Getpriority(unix.PRIO_PROCESS, b.PID(x.ID())); err == nil && name == "a priority" && left == 20-19 {
				t.Skip("these tests have the lowest priority themselves")
			}
			if err := tt.outside(t, b.PID(x.ID())); err != nil {
				t.Fatal(err)
			}
			if name == "cores" && runtime.NumCPU() == 1 {
				t.Skip("one core is all there is")
			}
			if done := reset(t, x); len(done.Left) == 0 {
				t.Error("the box passes for clean")
			}
		})
	}
}

// TestResetIsNotForgotten: a reset that looks at files only, or that found something, does
// not make the next one blind for it.
func TestResetIsNotForgotten(t *testing.T) {
	x := box(t, namespace.Config{Resets: true}, backends.Spec{})
	if code, out := sh(t, x, "echo x >> /etc/passwd"); code != 0 {
		t.Fatal(out)
	}
	r, _ := backends.As[backends.Resetter](x)
	if done, err := r.Reset(t.Context(), backends.ResetFiles); err != nil || len(done.Left) > 0 {
		t.Fatalf("%+v, %v", done, err)
	}
	for i := range 2 {
		if done := reset(t, x); len(done.Left) == 0 {
			t.Errorf("full reset %d: the box passes for clean", i+1)
		}
	}
}

// TestResetLooksBeyondAFileOfTheHost: a file that is shown read-only hides no neighbours.
func TestResetLooksBeyondAFileOfTheHost(t *testing.T) {
	if _, err := os.Stat("/etc/fstab"); err != nil {
		t.Skip(err)
	}
	x := box(t, namespace.Config{Resets: true, ReadOnly: []string{"/etc/fstab"}}, backends.Spec{})
	if done := reset(t, x); len(done.Left) > 0 {
		t.Fatalf("an untouched box: %q", done.Left)
	}
	if code, out := sh(t, x, "echo x >> /etc/passwd"); code != 0 {
		t.Fatal(out)
	}
	if done := reset(t, x); len(done.Left) == 0 {
		t.Error("the box passes for clean")
	}
}

// TestResetSeesChangesElsewhere: what a reset does not undo makes the box unclean.
func TestResetSeesChangesElsewhere(t *testing.T) {
	for name, script := range map[string]string{
		"a new file":         "touch /etc/new || touch /new",
		"a changed file":     "echo x >> /etc/passwd || echo x >> /etc/hosts",
		"a hidden file":      "touch /dev/.x || touch /.x",
		"an old date":        "touch -d 2001-01-01 /old || touch -d 2001-01-01 /etc/old",
		"a removed home":     "cd /; rm -rf /root",
		"a place in the way": "rm -rf /tmp && ln -s /root /tmp || touch /etc/new",
	} {
		t.Run(name, func(t *testing.T) {
			x := box(t, namespace.Config{Resets: true}, backends.Spec{})
			code, out := sh(t, x, script)
			done := reset(t, x)
			if code == 0 && len(done.Left) == 0 {
				t.Errorf("the box passes for clean; the command said %q", out)
			}
			if code != 0 && len(done.Left) > 0 {
				t.Errorf("nothing was changed (%s), and yet: %q", out, strings.Join(done.Left, ", "))
			}
		})
	}
}
