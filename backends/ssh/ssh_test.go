package ssh_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"hermes/backends"
	"hermes/backends/backendtest"
	"hermes/backends/namespace"
	"hermes/backends/slotd/server"
	"hermes/backends/slotd/wire"
	hssh "hermes/backends/ssh"
	"hermes/backends/ssh/station"
)

func TestMain(m *testing.M) {
	if code, ok := station.Main(os.Args, os.Stdin, os.Stdout, os.Stderr); ok {
		os.Exit(code)
	}
	if code, ok := namespace.Main(os.Args); ok {
		os.Exit(code)
	}
	if filepath.Base(os.Args[0]) == wire.Name {
		os.Exit(server.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
	}
	if len(os.Args) == 7 && os.Args[1] == "own" {
		os.Exit(own(os.Args[2:]))
	}
	_ = os.Setenv("HERMES_TEST_SECRET", "not-for-boxes") // what no box may see
	os.Exit(m.Run())
}

// alongside lets tests run beside each other that wait most of the time; not where there is
// one sshd for all.
func alongside(t *testing.T) {
	if os.Getenv("HERMES_TEST_SSH") == "" {
		t.Parallel()
	}
}

// real is the sshd that scripts/sshd.sh started, or a skipped test.
func real(t testing.TB) place {
	t.Helper()
	dir := os.Getenv("HERMES_TEST_SSH")
	if dir == "" {
		t.Skip("no sshd: HERMES_TEST_SSH is not set (make sshd)")
	}
	raw, err := os.ReadFile(filepath.Join(dir, "address"))
	if err != nil {
		t.Fatal(err)
	}
	user, addr, _ := strings.Cut(strings.TrimSpace(string(raw)), "@")
	return place{addr: addr, user: user, key: filepath.Join(dir, "key"), known: filepath.Join(dir, "known_hosts")}
}

// open opens a back-end; where the kernel forbids namespaces the test is skipped.
func open(t testing.TB, c hssh.Config) *hssh.Backend {
	t.Helper()
	b, err := hssh.Open(t.Context(), c, hssh.Surroundings{})
	if errors.Is(err, backends.ErrUnavailable) && strings.Contains(err.Error(), "cannot isolate boxes") {
		t.Skip("this machine cannot make isolated boxes: ", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(context.Background()); err != nil {
			t.Error("close the back-end: ", err)
		}
	})
	return b
}

func openBox(t testing.TB, b *hssh.Backend) backends.Sandbox {
	t.Helper()
	x, err := b.Open(t.Context(), backends.Spec{})
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// TestContract is the suite against a server in this process and a real sshd, with boxes
// of namespaces and without isolation.
func TestContract(t *testing.T) {
	alongside(t)
	for _, host := range []struct {
		name string
		at   func(testing.TB) place
	}{{"in process", func(t testing.TB) place { return serve(t) }}, {"sshd", real}} {
		t.Run(host.name, func(t *testing.T) {
			at := host.at(t)
			t.Run("namespace", func(t *testing.T) {
				c := at.config(t)
				c.Namespace.Resets = true
				b := open(t, c)
				backendtest.Run(t, func(t *testing.T) backends.Backend { return b }, backendtest.Options{
					Enforces: []string{"memory", "processes", "disk"},
					Secret:   "not-for-boxes",
					Kill:     func(x backends.Sandbox) error { return b.Kill(x.ID()) },
					Cut:      func(backends.Sandbox) error { return b.Cut() },
					// 53 allow-list, 57 there is no token, 59 keys, 67 to 69 stand in life_test.go, 71-73
					// leases, 84 snapshots.
					Skips: []int{53, 57, 59, 67, 68, 69, 71, 72, 73, 84},
				})
			})
			t.Run("none", func(t *testing.T) {
				c := at.config(t)
				c.Isolation = station.Plain
				b := open(t, c)
				backendtest.Run(t, func(t *testing.T) backends.Backend { return b }, backendtest.Options{
					Secret: "not-for-boxes",
					Kill:   func(x backends.Sandbox) error { return b.Kill(x.ID()) },
					Cut:    func(backends.Sandbox) error { return b.Cut() },
					// As local, but that boxes can be killed and connections cut.
					Skips: []int{29, 35, 46, 50, 51, 52, 53, 54, 55, 56, 57, 59, 67, 68, 69, 71, 72, 73, 84},
				})
			})
		})
	}
}
