package modal_test

import (
	"flag"
	"fmt"
	"testing"

	"hermes/backends"
	"hermes/backends/backendtest"
	"hermes/backends/modal/modaltest"
	"hermes/backends/pool"
)

var long = flag.Bool("long", false, "run the long forms")

// TestFaults: whatever goes wrong at the calls of the service and of the routers of its
// sandboxes, and with sandboxes, none is left and every box is one's own.
func TestFaults(t *testing.T) { // alone: it counts goroutines
	want := 80
	if *long {
		want = 1000
	}
	f, b := quick(t, modaltest.Options{})
	f.Begin(0.1, 5)
	backendtest.Endure(t, backendtest.Ordeal{Backend: b, Injected: f.Injected, Want: want, Heal: f.Heal, Answers: true,
		Kill:    func(x backends.Sandbox) error { return f.Kill(x.ID()) },
		Options: pool.Options{Max: 6, Breaker: 100, Seed: 3},
		Left: func() (left []string, err error) {
			if n := f.Running(""); n > 0 {
				left = []string{fmt.Sprintf("%d sandboxes", n)}
			}
			return left, nil
		}})
	t.Log(f.Kinds())
}
