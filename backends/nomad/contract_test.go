//go:build linux

package nomad_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"hermes/backends"
	"hermes/backends/backendtest"
	"hermes/backends/nomad"
	"hermes/backends/nomad/nomadtest"
	"hermes/backends/slotd/server"
	"hermes/backends/slotd/wire"
)

func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == wire.Name { // a slot of the fake
		os.Exit(server.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
	}
	_ = os.Setenv("HERMES_TEST_SECRET", "not-for-boxes") // what no box may see
	os.Exit(m.Run())
}

// program is this test as slotd.
func program(t testing.TB) string {
	t.Helper()
	own, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(t.TempDir(), wire.Name)
	if err := os.Symlink(own, link); err != nil {
		t.Fatal(err)
	}
	return link
}

// cluster starts a fake agent.
func cluster(t testing.TB, o nomadtest.Options) *nomadtest.Fake {
	t.Helper()
	if o.Reschedule == 0 {
		o.Reschedule = 50 * time.Millisecond
	}
	if o.News == 0 {
		o.News = 300 * time.Millisecond
	}
	if o.Program == "" {
		o.Program = program(t)
	}
	f, err := nomadtest.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
	return f
}

// stage is a cluster whose parts can be harmed: a fake one or real agents.
type stage interface {
	Address() string
	Jobs() []string
	Count(job string) int
	Running() []string          // allocations whose processes live
	NodeOf(alloc string) string // id
	Stop(alloc string) error    // as an operator does; it returns when the processes are gone
	LoseNode(id string) error
	ReturnNode(id string) error
	DrainNode(id string) error
	DrainDeadline(id string)
	Down()  // of the servers
	Crash() // of everything at once, as a power cut does
	Up()    // after either
	Until(done <-chan struct{}, ok func() bool) bool
}

// onStages runs a test on the fake and, where there are any, on real agents.
func onStages(t *testing.T, test func(t *testing.T, f stage)) {
	t.Run("fake", func(t *testing.T) { test(t, cluster(t, nomadtest.Options{})) })
	t.Run("real", func(t *testing.T) { test(t, realAgents(t, agentOptions{})) })
}

// open opens a back-end of raw_exec slots, unless c says otherwise.
func open(t testing.TB, f stage, c nomad.Config) *nomad.Backend {
	t.Helper()
	b, err := start(t, f, c)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func start(t testing.TB, f stage, c nomad.Config) (*nomad.Backend, error) {
	t.Helper()
	c.Address, c.Rootless = f.Address(), os.Geteuid() != 0
	if a, is := f.(*agents); is {
		c = a.reach(c)
	}
	if c.Driver == "" {
		c.Driver = "raw_exec"
	}
	if c.Slotd == "" && c.Artifact == "" {
		c.Slotd = program(t)
	}
	if c.Poll == 0 {
		c.Poll = 50 * time.Millisecond
	}
	b, err := nomad.Open(t.Context(), c, nomad.Surroundings{Tell: func(s string) { t.Log(s) }})
	if err == nil {
		t.Cleanup(func() {
			ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
			defer cancel()
			b.Close(ctx)
		})
	}
	return b, err
}

// rawSkips are the rows that raw_exec slots cannot be asked: they are not isolated and have
// no limits (29, 35, 46, 50–52, 54–57), 53 allow-list, 59 keys, 67 boxes outlive agents, 68,
// 69 and 71–75 stand in nomad_test.go: a leased slot is reset by the end of its lease alone;
// 84 snapshots.
func rawSkips() []int {
	return []int{29, 35, 46, 50, 51, 52, 53, 54, 55, 56, 57, 59, 67, 68, 69, 71, 72, 73, 74, 75, 84}
}

// TestContract runs the suite on the fake.
func TestContract(t *testing.T) {
	t.Parallel()
	f := cluster(t, nomadtest.Options{})
	b := open(t, f, nomad.Config{Max: 12})
	backendtest.Run(t, func(t *testing.T) backends.Backend { return b }, backendtest.Options{
		Secret: "not-for-boxes",
		Kill:   func(x backends.Sandbox) error { return f.Stop(nomad.Alloc(x)) },
		Cut:    nomad.Cut,
		Skips:  rawSkips(),
	})
}
