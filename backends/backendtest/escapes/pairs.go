//go:build linux

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
	"unsafe"

	"golang.org/x/sys/unix"

	"hermes/backends"
)

// The programs of a pair: one leaves something and stays, the other looks for it.
const (
	leaving = "hermes-leave"
	finding = "hermes-find"
)

// pair is a thing that one box leaves, and that another one, or its next user, must not find.
type pair struct {
	leave func() error
	find  func() error
}

// meeting is the name, number or key under which both sides look.
const meeting = 0x68726d73

func pairs() map[string]pair {
	all := map[string]pair{
		"System V memory":       {keyed(unix.SYS_SHMGET, 4096, unix.IPC_CREAT|0o666), keyed(unix.SYS_SHMGET, 0, 0)},
		"System V semaphore":    {keyed(unix.SYS_SEMGET, 1, unix.IPC_CREAT|0o666), keyed(unix.SYS_SEMGET, 0, 0)},
		"System V queue":        {raw(nil, unix.SYS_MSGGET, meeting, unix.IPC_CREAT|0o666), raw(nil, unix.SYS_MSGGET, meeting, 0)},
		"POSIX queue":           {queue(unix.O_RDWR | unix.O_CREAT), queue(unix.O_RDWR)},
		"abstract socket":       listenAndDial("unix", "@hermes-escape"),
		"loopback port":         listenAndDial("tcp4", "127.0.0.1:39471"),
		"loopback port, IPv6":   listenAndDial("tcp6", "[::1]:39471"),
		"any address":           listenAndDial("tcp4", "0.0.0.0:39472"),
		"datagrams":             {listenDatagrams, findDatagrams},
		"key of the user":       {leaveKey, findKey},
		"process":               {func() error { return nil }, findProcess},
		"lock of a shared file": {func() error { return locked("/usr/bin/env") }, findLock},
	}
	for _, dir := range []string{"/tmp", "/var/tmp", "/dev/shm", "/run", "/etc", "/var/spool", "/usr/local/bin", "/dev", "/mnt"} {
		name := dir + "/hermes-escape-left"
		all["file in "+strings.ReplaceAll(dir[1:], "/", "-")] = pair{
			func() error { return os.WriteFile(name, []byte("left"), 0o666) },
			func() error { _, err := os.Stat(name); return err },
		}
	}
	return all
}

// keyed makes or finds a System V thing. What was made is removed by who stays, at its end.
func keyed(nr, size, flags uintptr) func() error {
	return func() error { return call(nr, meeting, size, flags) }
}

func queue(flags uintptr) func() error {
	return func() error { return call(unix.SYS_MQ_OPEN, text("hermes-escape"), flags, 0o666, 0) }
}

func listenAndDial(network, address string) pair {
	return pair{func() error { _, err := net.Listen(network, address); return err }, dial(network, address)}
}

func listenDatagrams() error {
	_, err := net.ListenPacket("unixgram", "@hermes-escape-datagrams")
	return err
}

func findDatagrams() error {
	c, err := net.Dial("unixgram", "@hermes-escape-datagrams")
	if err != nil {
		return err
	}
	defer c.Close()
	_, err = c.Write([]byte("x"))
	return err
}

func leaveKey() error {
	_, err := unix.AddKey("user", "hermes-escape", []byte("left"), unix.KEY_SPEC_USER_KEYRING)
	return err
}

func findKey() error {
	_, err := unix.KeyctlSearch(unix.KEY_SPEC_USER_KEYRING, "user", "hermes-escape", 0)
	return err
}

// findProcess looks for the program that stays.
func findProcess() error {
	all, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		return err
	}
	for _, f := range all {
		line, _ := os.ReadFile(f)
		if parts := strings.Split(string(line), "\x00"); len(parts) > 1 && parts[1] == leaving {
			return nil
		}
	}
	return unix.ESRCH
}

func locked(path string) error {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	return unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB)
}

// findLock finds that another holds the lock.
func findLock() error {
	if err := locked("/usr/bin/env"); err != nil {
		return past(err, unix.EWOULDBLOCK)
	}
	return errors.New("it is not locked")
}

// left removes what outlives the program that left it, where that is the machine's.
func left() {
	for _, nr := range [][2]uintptr{{unix.SYS_SHMGET, unix.SYS_SHMCTL}, {unix.SYS_MSGGET, unix.SYS_MSGCTL}} {
		if id, _, errno := unix.Syscall(nr[0], meeting, 0, 0); errno == 0 {
			unix.Syscall(nr[1], id, unix.IPC_RMID, 0)
		}
	}
	if id, _, errno := unix.Syscall(unix.SYS_SEMGET, meeting, 0, 0); errno == 0 {
		unix.Syscall(unix.SYS_SEMCTL, id, 0, unix.IPC_RMID)
	}
	name, _ := unix.BytePtrFromString("hermes-escape")
	unix.Syscall(unix.SYS_MQ_UNLINK, uintptr(unsafe.Pointer(name)), 0, 0)
	if key, err := unix.KeyctlSearch(unix.KEY_SPEC_USER_KEYRING, "user", "hermes-escape", 0); err == nil {
		unix.KeyctlInt(unix.KEYCTL_UNLINK, key, unix.KEY_SPEC_USER_KEYRING, 0, 0)
	}
	files, _ := filepath.Glob("/*/hermes-escape-left")
	more, _ := filepath.Glob("/*/*/hermes-escape-left")
	for _, f := range append(files, append(more, "/usr/local/bin/hermes-escape-left")...) {
		os.Remove(f)
	}
}

// pairMain is one side of a pair.
func pairMain(side, name string) int {
	p, ok := pairs()[name]
	switch {
	case side == leaving && name == "":
		left()
		return 0
	case !ok:
		fmt.Println("no such pair")
		return 3
	case side == finding:
		err := p.find()
		fmt.Println(err)
		if err == nil {
			return 1
		}
		return 0
	}
	if err := p.leave(); err != nil {
		fmt.Println("refused:", err)
		return 0
	}
	fmt.Println("left")
	time.Sleep(time.Minute) // what was left stays until the box ends
	return 0
}

// begun starts a program that stays, and returns what it printed first.
func begun(t *testing.T, x backends.Sandbox, command string) string {
	t.Helper()
	return sh(t, x, "rm -f out; ("+command+" > out 2>&1 &); i=0; while [ ! -s out ] && [ $i -lt 600 ]; do sleep 0.1; i=$((i+1)); done; cat out")
}

// leaveIn runs the first side in a box and reports whether there was something to find.
func leaveIn(t *testing.T, x backends.Sandbox, name string) bool {
	t.Helper()
	out := begun(t, x, `NAME= setsid ./probe `+leaving+` "`+name+`"`)
	if out != "left" && !strings.HasPrefix(out, "refused:") {
		t.Errorf("leave: %q", out)
	}
	return out == "left"
}

// findIn runs the second side and reports whether it found something.
func findIn(t *testing.T, x backends.Sandbox, name string) bool {
	t.Helper()
	r, err := x.Exec(t.Context(), backends.Cmd{Argv: []string{"./probe", finding, name}, Merge: true})
	if err != nil {
		t.Fatal(err)
	}
	if r.Code > 1 {
		t.Errorf("find: exit code %d, %s", r.Code, r.Stdout)
	}
	return r.Code == 1
}

// PairNames lists what is left for others.
func PairNames() []string { return slices.Sorted(maps.Keys(pairs())) }

// Found leaves everything in one box and looks for it from another; it returns what was found.
func Found(t *testing.T, b backends.Backend) (found []string) {
	t.Helper()
	one, two := open(t, b), open(t, b)
	put(t, one)
	put(t, two)
	defer sh(t, one, `./probe `+leaving+` ""`)
	for _, name := range PairNames() {
		leaveIn(t, one, name)
		if findIn(t, two, name) {
			found = append(found, name)
		}
	}
	return found
}

// Neighbours makes sure that nothing of what one box leaves is found by another.
func Neighbours(t *testing.T, b backends.Backend) {
	t.Helper()
	one, two := open(t, b), open(t, b)
	put(t, one)
	put(t, two)
	for _, name := range PairNames() {
		t.Run(name, func(t *testing.T) {
			left, found := leaveIn(t, one, name), findIn(t, two, name)
			if found {
				t.Errorf("left: %v, and found from another box", left)
			}
		})
	}
}

// words are what a user of a box leaves for the next one by commands.
func words() map[string][2]string {
	return map[string][2]string{
		"variables":              {"export LEFT=yes; echo 'export LEFT=yes' >> ~/.bashrc", "echo $LEFT"},
		"functions":              {"ls() { echo taken; }; export -f ls 2>/dev/null; printf 'ls() { echo taken; }\n' > ~/.profile", "ls / | grep taken"},
		"start files":            {"for f in .bashrc .bash_profile .bash_login .profile .zshrc .inputrc .gitconfig .netrc .pythonrc .vimrc; do echo taken > ~/$f; done", "cat ~/.bashrc ~/.profile ~/.gitconfig ~/.netrc ~/.bash_profile ~/.bash_login ~/.zshrc ~/.pythonrc 2>/dev/null"},
		"modules of python":      {"d=~/.local/lib/python3.11/site-packages; mkdir -p $d; echo 'print(1)' > $d/usercustomize.py", "find ~ -name usercustomize.py"},
		"programs of the home":   {"mkdir -p ~/bin ~/.local/bin; cp /bin/true ~/bin/ls; cp /bin/true ~/.local/bin/ls", "ls -d ~/bin ~/.local 2>/dev/null"},
		"hidden files":           {"mkdir -p ~/.cache/x; touch ~/.hid ~/'.a b' ~/...; ln -s /etc ~/.link; mkfifo ~/.fifo", "ls -A ~"},
		"odd names":              {`touch "$(printf 'a\nb')" -- -rf '*' "$(printf '\033[2J')"`, "ls -A ~"},
		"what cannot be read":    {"mkdir -p ~/d/e; touch ~/d/e/f; chmod 000 ~/d/e ~/d", "ls -A ~"},
		"deep folders":           {"p=~; i=0; while [ $i -lt 300 ]; do p=$p/d; i=$((i+1)); done; mkdir -p $p", "ls -A ~"},
		"a process that ignores": {"(setsid sh -c 'trap \"\" TERM HUP INT QUIT; while :; do sleep 1000; done' >/dev/null 2>&1 &)", "ps ax 2>/dev/null | grep '[s]leep 1000'; cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' ' ' | grep -o '[s]leep 1000'"},
		"a stopped process":      {"(setsid sh -c 'kill -STOP $$; sleep 1001' >/dev/null 2>&1 &); sleep 0.1", "cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' ' ' | grep -o '[s]leep 1001'"},
		"a job for later":        {"(sleep 1; touch /tmp/later ~/later) >/dev/null 2>&1 &", "sleep 1.5; ls /tmp/later ~/later 2>/dev/null"},
		"files of /tmp":          {"mkdir -p /tmp/.X11-unix; touch /tmp/left /var/tmp/left /dev/shm/left /tmp/.hid", "ls -A /tmp /var/tmp /dev/shm 2>/dev/null | grep -E 'left|hid|X11'"},
		"a home that is a link":  {"cd /; mv ~ /tmp/old 2>/dev/null; ln -s /etc ~ 2>/dev/null; :", "[ -L ~ ] && echo link; ls ~/passwd 2>/dev/null"},
		"a watch of the home":    {"(setsid sh -c 'cd ~; exec sleep 1002' >/dev/null 2>&1 &); (exec 9>~/held; setsid sleep 1003 >/dev/null 2>&1 &)", "cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' ' ' | grep -oE '[s]leep 100[23]'; ls ~/held 2>/dev/null"},
		"immutable files":        {"touch ~/i; chattr +i ~/i 2>/dev/null; :", "ls -A ~"},
	}
}

// WordNames lists what is left by commands.
func WordNames() []string { return slices.Sorted(maps.Keys(words())) }

// Tenants makes sure that the next user of a box finds nothing of what the one before left:
// either the reset says that the box is not clean, and it is never handed on, or it is.
func Tenants(t *testing.T, b backends.Backend) {
	t.Helper()
	next := func(t *testing.T, x backends.Sandbox) (clean bool) {
		r, ok := backends.As[backends.Resetter](x)
		if !ok {
			t.Fatal("the box cannot be made as new")
		}
		c, err := r.Reset(t.Context(), backends.ResetFull)
		if err != nil && !errors.Is(err, backends.ErrBroken) {
			t.Errorf("reset: %v", err)
		}
		if err != nil || c.Left != nil {
			t.Logf("not handed on: %v, %v", c.Left, err)
		}
		return err == nil && c.Left == nil
	}
	for _, name := range PairNames() {
		t.Run(name, func(t *testing.T) {
			x := open(t, b)
			put(t, x)
			leaveIn(t, x, name)
			if !next(t, x) {
				return
			}
			put(t, x)
			found := findIn(t, x, name)
			if found {
				t.Error("the next user finds it")
			}
		})
	}
	for _, name := range WordNames() {
		w := words()[name]
		t.Run(name, func(t *testing.T) {
			x := open(t, b)
			if _, err := x.Exec(context.Background(), backends.Cmd{Shell: w[0], Timeout: 20 * time.Second}); err != nil {
				t.Fatal(err)
			}
			if !next(t, x) {
				return
			}
			if out := sh(t, x, w[1]); out != "" {
				t.Errorf("the next user finds %q", out)
			}
		})
	}
}
