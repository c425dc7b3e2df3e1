package namespace_test

import (
	"errors"
	"testing"
	"time"

	"hermes/backends"
	"hermes/backends/namespace"
)

// TestStoppedAtTheirStart: a command of the box that stops every other process without end,
// also those that are not yet the program that they shall be, harms its own box alone: calls
// end, with what its commands have done, or with the word that they broke it.
func TestStoppedAtTheirStart(t *testing.T) {
	b := open(t, namespace.Config{})
	for name, file := range map[string]bool{"pid 1 starts commands": false, "slotd does": true} {
		t.Run(name, func(t *testing.T) {
			x := boxOf(t, b, backends.Spec{})
			if file {
				if err := x.WriteFile(t.Context(), "f", nil, 0); err != nil {
					t.Fatal(err)
				}
			}
			if code, out := sh(t, x, "(setsid sh -c 'until test -e go; do :; done; while :; do kill -STOP -1; done' >/dev/null 2>&1 &); echo ok"); code != 0 || out != "ok" {
				t.Fatal(code, out)
			}
			short := 200 * time.Millisecond
			if _, err := x.Exec(t.Context(), backends.Cmd{Shell: "touch go", Timeout: short}); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				r, err := x.Exec(t.Context(), backends.Cmd{Shell: "true", Timeout: short})
				if errors.Is(err, backends.ErrLost) || err != nil && !errors.Is(err, backends.ErrBroken) {
					t.Fatal(err)
				}
				if err == nil && r.Code != 0 && !r.TimedOut {
					t.Errorf("%+v", r)
				}
			}
		})
	}
}
