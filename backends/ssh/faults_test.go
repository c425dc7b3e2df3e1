package ssh_test

import (
	"bytes"
	"flag"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"hermes/backends/backendtest"
	"hermes/backends/pool"
	"hermes/backends/ssh/station"
)

var long = flag.Bool("long", false, "run the long forms")

// TestFaults: whatever happens to the connection, and to boxes, nothing is left on the
// host.
func TestFaults(t *testing.T) { // alone: it counts goroutines
	want, kinds := 15, []string{station.Isolated}
	if *long {
		want, kinds = 1000, append(kinds, station.Plain)
	}
	for _, isolation := range kinds {
		t.Run(isolation, func(t *testing.T) {
			at := serve(t)
			relay, err := backendtest.NewRelay(at.addr, 21)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(relay.Close)
			at = behind(t, at, relay.Address())
			c := at.config(t)
			c.Isolation = isolation
			c.KeepAlive = time.Second
			c.Timeout = 10 * time.Second
			c.Reconnect, c.Linger = 3*time.Second, 6*time.Second // of stations whose word that they are ready was lost
			b := open(t, c)
			relay.Begin(0.03)
			backendtest.Endure(t, backendtest.Ordeal{Backend: b, Injected: relay.Injected, Want: want, Heal: relay.Heal, Answers: true,
				Stray:   "ssh.(*mux).openChannel", // see TestChannelsOfABrokenConnection
				Options: pool.Options{Max: 4, Breaker: 100, Seed: 3},
				Left: func() (left []string, err error) {
					until(t, "end of all stations", func() bool {
						left, err = filepath.Glob(filepath.Join(c.Dir, "s", "*"))
						return len(left) == 0
					})
					return left, err
				}})
			t.Log(relay.Kinds())
		})
	}
}

// behind is a place whose address is another's.
func behind(t *testing.T, p place, addr string) place {
	t.Helper()
	_, old, err := net.SplitHostPort(p.addr)
	if err != nil {
		t.Fatal(err)
	}
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(p.known)
	if err != nil {
		t.Fatal(err)
	}
	p.addr, p.known = addr, filepath.Join(t.TempDir(), "known_hosts")
	if err := os.WriteFile(p.known, bytes.Replace(raw, []byte(old), []byte(port), 1), 0o600); err != nil {
		t.Fatal(err)
	}
	return p
}
