//go:build linux

package namespace_test

import (
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"hermes/backends"
	"hermes/backends/namespace"
)

// TestCommandsNeedNoServer: commands alone, of every kind of end, leave pid 1 what it is.
func TestCommandsNeedNoServer(t *testing.T) {
	b := open(t, namespace.Config{})
	x := boxOf(t, b, backends.Spec{Env: map[string]string{"A": "1", "B": "2"}, Dir: "/srv/work"})
	for _, tt := range []struct {
		name string
		c    backends.Cmd
		want string // code, signal, stdout, stderr
	}{
		{"words", backends.Cmd{Argv: []string{"echo", "a b", ""}}, "0 0 a b \n|"},
		{"a shell", backends.Cmd{Shell: "echo out; echo err >&2; exit 3"}, "3 0 out\n|err\n"},
		{"one stream", backends.Cmd{Shell: "echo out; echo err >&2", Merge: true}, "0 0 out\nerr\n|"},
		{"a signal", backends.Cmd{Shell: "kill -TERM $$"}, "143 15 |"},
		{"input", backends.Cmd{Argv: []string{"cat"}, Stdin: []byte("text")}, "0 0 text|"},
		{"input that is not read", backends.Cmd{Argv: []string{"true"}, Stdin: make([]byte, 1<<20)}, "0 0 |"},
		{"no input", backends.Cmd{Argv: []string{"cat"}}, "0 0 |"},
		{"folders", backends.Cmd{Shell: "pwd; cd ..; pwd"}, "0 0 /srv/work\n/srv\n|"},
		{"another folder", backends.Cmd{Shell: "pwd", Dir: "/usr"}, "0 0 /usr\n|"},
		{"its own environment", backends.Cmd{Shell: "echo $A $B $HOME", Env: map[string]string{"B": "3"}}, "0 0 1 3 /root\n|"},
		{"an empty environment",
			backends.Cmd{Argv: []string{"/bin/sh", "-c", "echo $A-$HOME-$C"}, ClearEnv: true, Env: map[string]string{"C": "x"}},
			"0 0 --x\n|"},
		{"time enough", backends.Cmd{Shell: "echo in time", Timeout: time.Minute}, "0 0 in time\n|"},
		{"something in the background", backends.Cmd{Shell: "sleep 1000 & echo left"}, "0 0 left\n|"},
		{"a bounded output", backends.Cmd{Shell: "printf 0123456789", MaxOutput: 4, Keep: backends.KeepTail}, "0 0 6789|"},
	} {
		r, err := x.Exec(t.Context(), tt.c)
		if got := fmt.Sprintf("%d %d %s|%s", r.Code, r.Signal, r.Stdout, r.Stderr); err != nil || got != tt.want {
			t.Errorf("%s: %q, want %q; %v", tt.name, got, tt.want, err)
		}
	}
	if b.Woken(x.ID()) {
		t.Error("slotd was brought in for commands alone")
	}
}

// TestCommandsOutlivePid1 brings slotd in while commands run: it takes them over, and
// nothing of them is lost.
func TestCommandsOutlivePid1(t *testing.T) {
	b := open(t, namespace.Config{})
	x := boxOf(t, b, backends.Spec{})
	var all sync.WaitGroup
	began := make(chan bool, 8)
	for i := range 8 {
		all.Go(func() {
			c := backends.Cmd{
				Shell:   fmt.Sprintf("touch began-%d; while ! test -e go; do sleep 0.01; done; echo said %d; exit %d", i, i, i),
				Timeout: time.Minute,
			}
			began <- true
			r, err := x.Exec(t.Context(), c)
			if err != nil || r.Code != i || string(r.Stdout) != fmt.Sprintf("said %d\n", i) {
				t.Errorf("command %d: %d, %q, %v", i, r.Code, r.Stdout, err)
			}
		})
	}
	for range 8 {
		<-began
	}
	if code, out := sh(t, x, "while test $(ls began-* 2>/dev/null | wc -l) -lt 8; do sleep 0.01; done; echo all"); code != 0 || out != "all" {
		t.Fatal(code, out)
	}
	if b.Woken(x.ID()) {
		t.Fatal("slotd is there already")
	}
	served(t, x)
	if err := x.WriteFile(t.Context(), "go", nil, 0); err != nil {
		t.Fatal(err)
	}
	all.Wait()
	if !b.Woken(x.ID()) {
		t.Error("slotd is not there")
	}
}

// TestTimeIsUpBeforeSlotd: what must be ended is ended whole, by the slotd that comes for it.
func TestTimeIsUpBeforeSlotd(t *testing.T) {
	b := open(t, namespace.Config{})
	tree := "(setsid sh -c 'sleep 1111 & sleep 1112' &) ; sleep 1113"
	left := "ps -eo args | grep -c '[s]leep 111'"
	for _, how := range []string{"its time", "its caller"} {
		x := boxOf(t, b, backends.Spec{})
		if code, out := sh(t, x, "sleep 2222 >/dev/null 2>&1 & echo ok"); code != 0 || out != "ok" { // not its doing, and to be left alone
			t.Fatal(code, out)
		}
		switch how {
		case "its time":
			r, err := x.Exec(t.Context(), backends.Cmd{Shell: "echo begun; " + tree, Timeout: 300 * time.Millisecond})
			for limit := time.Second; err == nil && len(r.Stdout) == 0 && limit < time.Minute; limit *= 3 { // a slow machine had not begun it
				r, err = x.Exec(t.Context(), backends.Cmd{Shell: "echo begun; " + tree, Timeout: limit})
			}
			if err != nil || !r.TimedOut || r.Code != 124 || string(r.Stdout) != "begun\n" {
				t.Errorf("%+v, %v", r, err)
			}
		case "its caller":
			ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
			if _, err := x.Exec(ctx, backends.Cmd{Shell: tree}); !errors.Is(err, context.DeadlineExceeded) {
				t.Error(err)
			}
			cancel()
		}
		if _, out := sh(t, x, left); out != "0" {
			t.Errorf("%s is up: %s processes left", how, out)
		}
		if _, out := sh(t, x, "ps -eo args | grep -c '[s]leep 2222'"); out != "1" {
			t.Errorf("%s is up: %s of the processes that had nothing to do with it", how, out)
		}
	}
}

// TestSlotdComesLate: whatever commands did before, the calls that need slotd work.
func TestSlotdComesLate(t *testing.T) {
	b := open(t, namespace.Config{})
	for name, script := range map[string]string{
		"nothing":              "true",
		"no home any more":     "cd /; rm -rf /root",
		"a file for a home":    "cd /; rm -rf /root; echo x > /root",
		"no programs to see":   "rm -rf /bin /lib /lib64 /sbin; true",
		"processes everywhere": "for i in $(seq 60); do sleep 1000 >/dev/null 2>&1 & done; true",
		"signals":              "kill -9 1; kill -TERM 1; kill -STOP 1; kill -9 -1; true",
		"a full disk":          "head -c 100m /dev/zero > /tmp/full; true",
	} {
		t.Run(name, func(t *testing.T) {
			if name == "no programs to see" && needsLoader(t) {
				t.Skip("this test program is linked dynamically (make test has CGO_ENABLED=0)")
			}
			x := boxOf(t, b, backends.Spec{Limits: backends.Limits{Disk: 16 << 20, Processes: 64}})
			if _, err := x.Exec(t.Context(), backends.Cmd{Shell: script, Timeout: time.Minute}); err != nil {
				t.Fatal(err)
			}
			for _, by := range []string{"pid 1", "slotd"} {
				raw, err := x.ReadFile(t.Context(), "/etc/hostname", 0)
				if err != nil || string(raw) != "hermes\n" {
					t.Errorf("%s: %q, %v", by, raw, err)
				}
				served(t, x)
			}
		})
	}
}

// TestOutOfTheOrdinary: what pid 1 cannot start, slotd explains; nothing runs twice.
func TestOutOfTheOrdinary(t *testing.T) {
	b := open(t, namespace.Config{})
	for _, tt := range []struct {
		name string
		c    backends.Cmd
		code int
		says string
	}{
		{"no such command", backends.Cmd{Argv: []string{"no-such-command"}}, 127, "command not found"},
		{"no such file", backends.Cmd{Argv: []string{"/no/such/file"}}, 127, "no such file"},
		{"no program", backends.Cmd{Argv: []string{"/etc/passwd"}}, 126, "permission denied"},
		{"a folder", backends.Cmd{Argv: []string{"/usr"}}, 126, "is a directory"},
		{"no such folder", backends.Cmd{Argv: []string{"true"}, Dir: "/nowhere"}, 126, "not a directory"},
		{"neither", backends.Cmd{}, 126, "exactly one"},
		{"both", backends.Cmd{Argv: []string{"true"}, Shell: "true"}, 126, "exactly one"},
		{"too long", backends.Cmd{Argv: []string{"echo", strings.Repeat("x", 1<<20)}}, 126, "argument list too long"},
	} {
		r, err := boxOf(t, b, backends.Spec{}).Exec(t.Context(), tt.c)
		if err != nil || r.Code != tt.code || !strings.Contains(string(r.Stderr), tt.says) {
			t.Errorf("%s: %d, %q, %v", tt.name, r.Code, r.Stderr, err)
		}
	}
	x := boxOf(t, b, backends.Spec{})
	var all sync.WaitGroup
	for range 50 { // more than pid 1 keeps
		all.Go(func() {
			if r, err := x.Exec(t.Context(), backends.Cmd{Shell: "echo x >> lines; while test $(wc -l < lines) -lt 50; do sleep 0.2; done"}); err != nil || r.Code != 0 {
				t.Errorf("%+v, %v", r, err)
			}
		})
	}
	all.Wait()
	if _, out := sh(t, x, "wc -l < lines"); out != "50" {
		t.Errorf("50 commands ran %s times", out)
	}
}

// needsLoader says whether this program is linked dynamically.
func needsLoader(t *testing.T) bool {
	f, err := elf.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	return slices.ContainsFunc(f.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP })
}
