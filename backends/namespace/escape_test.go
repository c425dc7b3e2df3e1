//go:build linux

package namespace_test

import (
	"os"
	"strings"
	"testing"

	"hermes/backends"
	"hermes/backends/backendtest/escapes"
	"hermes/backends/namespace"
)

func TestEscapes(t *testing.T) {
	repeats := 1
	if *long {
		repeats = 20
	}
	escapes.Run(t, box(t, namespace.Config{}, backends.Spec{}), escapes.Options{Repeats: repeats})
}

// escapeTests are the tests that TestEscapesOfPlainUser runs, and TestPlainUser leaves to it.
const escapeTests = "^(TestEscapes|TestHostIsInvisible|TestLinksStayInside|TestBoxesAreSeparate|TestNeighbours|TestTenants|TestRaces)$"

// TestEscapesOfPlainUser makes the attempts again in boxes of a user without any right.
func TestEscapesOfPlainUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("already a plain user")
	}
	out, err := asPlainUser(t, "-test.v", "-test.run="+escapeTests)
	passed := 0
	for line := range strings.Lines(string(out)) {
		result, name, ok := strings.Cut(strings.TrimSpace(line), ": ")
		name, _, _ = strings.Cut(name, " (")
		if !ok || !strings.HasPrefix(result, "--- ") || !strings.Contains(name, "/") {
			continue
		}
		t.Run(name, func(t *testing.T) {
			switch result {
			case "--- PASS":
				passed++
			case "--- FAIL":
				t.Error("it worked")
			case "--- SKIP":
				t.Skip("skipped as a plain user too")
			}
		})
	}
	if err != nil || passed == 0 {
		t.Errorf("%d passed, %v\n%s", passed, err, out)
	}
}

func TestHostIsInvisible(t *testing.T) { escapes.Host(t, open(t, namespace.Config{})) }

func TestLinksStayInside(t *testing.T) { escapes.Links(t, open(t, namespace.Config{})) }

func TestBoxesAreSeparate(t *testing.T) { escapes.Apart(t, open(t, namespace.Config{})) }

func TestNeighbours(t *testing.T) {
	escapes.Neighbours(t, open(t, namespace.Config{}))
}

func TestTenants(t *testing.T) { escapes.Tenants(t, open(t, namespace.Config{Resets: true})) }

func TestRaces(t *testing.T) { escapes.Races(t, open(t, namespace.Config{})) }

func TestExhaustion(t *testing.T) {
	b := open(t, namespace.Config{})
	if b.Traits().MemoryBy != "cgroup" {
		t.Skip("no cgroups here: a box's processes together are not limited")
	}
	escapes.Exhaust(t, b, backends.Spec{Limits: backends.Limits{Memory: 64 << 20, Processes: 64, Disk: 32 << 20}})
}

// Not everything is refused: what programs need works.
func TestCommandsWork(t *testing.T) {
	x := box(t, namespace.Config{}, backends.Spec{Env: map[string]string{"GREETING": "hello"}, Dir: "/app/src"})
	for _, tt := range []struct{ name, script, want string }{
		{"pipes and subshells", "(echo a; echo b) | sort -r | head -1", "b"},
		{"threads and children", "for i in 1 2 3; do (true) & done; wait; echo ok", "ok"},
		{"the user", "id -u; id -g", "0\n0"},
		{"the working directory", "pwd", "/app/src"},
		{"the environment", "echo $GREETING $HOME", "hello /root"},
		{"writing anywhere but the host's files", "echo x > /etc/x && mkdir -p /app/z && touch /app/y /var/z /tmp/t && echo ok", "ok"},
		{"changing owners is accepted", "touch f && chown 33:33 f && chown -R daemon . 2>/dev/null; stat -c %u f", "0"},
		{"unpacking another's archive", "mkdir a && tar --owner=123 --group=45 -cf a.tar a && tar -xf a.tar && echo ok", "ok"},
		{"links and modes", "ln -s f l && ln f h && chmod 600 f && stat -c %a f", "600"},
		{"devices", "echo x > /dev/null; head -c 4 /dev/zero | wc -c; test -c /dev/urandom && echo ok", "4\nok"},
		{"the host's name", "cat /proc/sys/kernel/hostname", "hermes"},
		{"shared memory", "echo s > /dev/shm/s && cat /dev/shm/s", "s"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if code, out := sh(t, x, tt.script); code != 0 || out != tt.want {
				t.Errorf("%s: exit code %d, %q; want %q", tt.script, code, out, tt.want)
			}
		})
	}
}
