//go:build linux

package singularity_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"hermes/backends"
	"hermes/backends/singularity"
)

// TestCommandLine: what starts a box, word by word.
func TestCommandLine(t *testing.T) {
	closed := []string{
		"instance", "start", "--containall", "--cleanenv", "--no-mount", "hostfs,bind-paths", "--net", "--network", "none",
		"--hostname", "hermes",
		"--home", "/boxes/x/home:/home/hermes", "--workdir", "/boxes/x/work", "--bind", "/opt/slotd:/.hermes/hermes-slotd:ro",
	}
	if os.Getuid() == 0 {
		closed = append(closed, "--no-privs")
	}
	tests := []struct {
		name   string
		conf   singularity.Config
		limits backends.Limits
		want   string // of the words that closed does not have
	}{
		{name: "nothing said", want: "--writable-tmpfs"},
		{name: "read-only", conf: singularity.Config{Root: "read-only"}},
		{name: "overlay", conf: singularity.Config{Root: "overlay"}, want: "--overlay /boxes/x/overlay"},
		{
			name: "fakeroot and folders",
			conf: singularity.Config{Root: "read-only", Fakeroot: true, ReadOnly: []string{"/data/a b"}},
			want: "--bind /data/a b:/data/a b:ro --fakeroot",
		},
		{
			name:   "limits",
			conf:   singularity.Config{Root: "read-only", Limits: singularity.Limits{Memory: 1 << 30, Processes: 100}},
			limits: backends.Limits{Memory: 2 << 30, CPUs: 1.5},
			want:   "--memory 2147483648 --memory-swap 2147483648 --cpus 1.5 --pids-limit 132",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			args, err := singularity.StartArgs(tt.conf, "/opt/slotd", "/boxes/x", "name", "/i.sif", tt.limits)
			if err != nil {
				t.Fatal(err)
			}
			if n := len(args); args[n-2] != "/i.sif" || args[n-1] != "name" {
				t.Errorf("ends with %q", args[n-2:])
			}
			rest := args[:len(args)-2]
			for _, word := range closed {
				i := slices.Index(rest, word)
				if i < 0 {
					t.Fatalf("%q is missing in %q", word, args)
				}
				rest = slices.Delete(slices.Clone(rest), i, i+1)
			}
			if got := strings.Join(rest, " "); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

// TestRefusals: what cannot work is said before anything starts.
func TestRefusals(t *testing.T) {
	at := singularity.Surroundings{Path: t.TempDir()}
	for name, c := range map[string]singularity.Config{
		"no such root": {Root: "rw"}, "no such pull": {Pull: "often"}, "relative home": {Home: "home"}, "colon": {ReadOnly: []string{"/a:/etc"}},
		"comma": {Dir: "/tmp/a,b"}, "memory": {Limits: singularity.Limits{Memory: 1}}, "processes": {Limits: singularity.Limits{Processes: -1}}, "starts": {Starts: -1},
	} {
		if _, err := singularity.Open(t.Context(), c, at); err == nil || errors.Is(err, backends.ErrUnavailable) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := singularity.Open(t.Context(), singularity.Config{}, at); !errors.Is(err, backends.ErrUnavailable) ||
		!strings.Contains(err.Error(), "neither apptainer nor singularity is installed") {
		t.Errorf("without the program: %v", err)
	}
	if _, err := singularity.Open(t.Context(), singularity.Config{Program: "/bin/false"}, at); !errors.Is(err, backends.ErrUnavailable) {
		t.Errorf("a program that fails: %v", err)
	}
}

func TestImages(t *testing.T) {
	c, at := standIn(t)
	var said []string
	at.Tell = func(s string) { said = append(said, s) }
	b := open(t, c, at)
	for _, name := range []string{"hermes-test:base", "docker://hermes-test:base"} {
		x := boxOf(t, b, backends.Spec{Image: name})
		if code, out := sh(t, x, "echo fine"); code != 0 || out != "fine" {
			t.Errorf("%s: code %d, %q", name, code, out)
		}
	}
	if len(said) != 1 {
		t.Errorf("the image was pulled %d times: %q", len(said), said)
	}
	never := c
	never.Pull = "never"
	never.Cache = t.TempDir()
	never.Dir = t.TempDir()
	for name, b := range map[string]*singularity.Backend{
		"nobody/knows:this": b, "docker://nobody/knows:this": b, "/no/such/file.sif": b, os.Args[0]: b, "instance://other": b, "--fakeroot": b, "docker://": b, "a b": b,
		"hermes-test:base": open(t, never, at),
	} {
		if name == os.Args[0] { // a file that is no image
			name, _ = filepath.Abs(name)
		}
		_, err := b.Open(t.Context(), backends.Spec{Image: name})
		if err == nil {
			t.Errorf("image %q is taken", name)
		}
		if !errors.Is(err, backends.ErrImage) && name[0] != '/' {
			t.Errorf("image %q: %v", name, err)
		}
	}
	if left, _ := filepath.Glob(c.Cache + "/hermes-*"); len(left) > 0 {
		t.Errorf("unfinished images: %v", left)
	}
}

// TestKilledServer: where a command kills slotd, which is not the first process, and the
// instance lives, the box is broken by its own doing.
func TestKilledServer(t *testing.T) {
	c, at := standIn(t)
	x := boxOf(t, open(t, c, at), backends.Spec{})
	_, err := x.Exec(t.Context(),
		backends.Cmd{Shell: `for p in /proc/[0-9]*; do [ "$(tr '\0' ' ' < $p/cmdline)" = "/.hermes/hermes-slotd box --stdin " ] && kill -9 ${p#/proc/}; done; sleep 100`})
	if !errors.Is(err, backends.ErrBroken) {
		t.Errorf("got %v", err)
	}
}

// TestOverlayAndReadOnly: the forms of a root.
func TestRoots(t *testing.T) {
	c, at := standIn(t)
	c.Root = "overlay"
	x := boxOf(t, open(t, c, at), backends.Spec{Env: map[string]string{"A": "b\nc"}, Dir: "sub"})
	code, out := sh(t, x, `touch /new && echo "$A $PWD $HOME $(id -u)"; env | grep -i config; [ -e `+c.Dir+` ] && echo "the host is seen"`)
	if want := "b\nc /home/hermes/sub /home/hermes 0"; code != 1 || out != want {
		t.Errorf("code %d, %q, want %q", code, out, want)
	}
}

// own is another hermes: it makes boxes, says their processes, and waits to be killed.
func own(program, image, dir string) int {
	at := singularity.Surroundings{Path: os.Getenv("PATH"), Env: map[string]string{"APPTAINER_CONFIGDIR": dir + "/state"}}
	b, err := singularity.Open(context.Background(), singularity.Config{Program: program, Image: image, Dir: dir + "/boxes", Cache: dir + "/cache",
		ReadOnly: strings.Split(os.Getenv("HERMES_TEST_SHOWN"), ":"), Slotd: os.Getenv("HERMES_TEST_SLOTD")}, at)
	for range 3 {
		var x backends.Sandbox
		if err == nil {
			x, err = b.Open(context.Background(), backends.Spec{})
		}
		if err == nil {
			_, err = x.Exec(context.Background(), backends.Cmd{Shell: "(setsid sleep 4242 >/dev/null 2>&1 &)"})
		}
	}
	if err != nil {
		fmt.Println(err)
		return 1
	}
	fmt.Println("ready")
	select {}
}

// TestOwnerKilled: what a killed hermes leaves ends by itself but for empty instances,
// which the next one stops; those of a living one are spared.
func TestOwnerKilled(t *testing.T) {
	c, at := standIn(t)
	mine := open(t, c, at)
	spared := boxOf(t, mine, backends.Spec{})
	dir := filepath.Dir(c.Dir)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	other := exec.Command(self, "own", c.Program, c.Image, dir)
	other.Env = append(os.Environ(), "HERMES_TEST_SHOWN="+strings.Join(c.ReadOnly, ":"), "HERMES_TEST_SLOTD="+c.Slotd)
	out, err := other.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	line, _ := bufio.NewReader(out).ReadString('\n')
	before, _ := os.ReadDir(c.Dir)
	other.Process.Kill()
	other.Wait()
	if line != "ready\n" {
		t.Fatalf("the other one: %q", line)
	}
	if len(before) != 4 {
		t.Errorf("%d folders of boxes", len(before))
	}
	if n, err := mine.Sweep(t.Context()); err != nil || n < 6 {
		t.Errorf("swept %d, %v", n, err)
	}
	if left, _ := os.ReadDir(c.Dir); len(left) != 1 {
		t.Errorf("left: %v", left)
	}
	if code, out := sh(t, spared, "echo alive"); code != 0 || out != "alive" {
		t.Errorf("the box of a living owner: code %d, %q", code, out)
	}
	if n, err := mine.Sweep(t.Context()); err != nil || n != 0 {
		t.Errorf("swept again: %d, %v", n, err)
	}
}
