//go:build linux

package nomad_test

import (
	"flag"
	"net"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"hermes/backends"
	"hermes/backends/backendtest"
	"hermes/backends/nomad"
	"hermes/backends/nomad/nomadtest"
	"hermes/backends/pool"
)

var long = flag.Bool("long", false, "run the long forms")

// TestFaults: whatever goes wrong between hermes and an agent, and with slots, no job is
// left and every slot is one's own.
func TestFaults(t *testing.T) { // alone: it counts goroutines
	want := 80
	if *long {
		want = 1000
	}
	f := cluster(t, nomadtest.Options{})
	base, err := url.Parse(f.Address())
	if err != nil {
		t.Fatal(err)
	}
	m := backendtest.NewMeddler(*base, new(net.Dialer).DialContext, 9)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Serve(l))
	b, err := nomad.Open(t.Context(), nomad.Config{
		Address:  "http://" + l.Addr().String(),
		Driver:   "raw_exec",
		Slotd:    program(t),
		Max:      6,
		Poll:     50 * time.Millisecond,
		Rootless: os.Geteuid() != 0,
	}, nomad.Surroundings{})
	if err != nil {
		t.Fatal(err)
	}
	m.Begin(0.12)
	backendtest.Endure(t, backendtest.Ordeal{Backend: b, Injected: m.Injected, Want: want, Heal: m.Heal, Answers: true,
		Kill:    func(x backends.Sandbox) error { return f.Kill(x.ID()[:strings.LastIndexByte(x.ID(), '-')]) },
		Options: pool.Options{Max: 6, Breaker: 100, Seed: 3},
		Left:    func() ([]string, error) { return f.Jobs(), nil }})
	t.Log(m.Kinds())
}
