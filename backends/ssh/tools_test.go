package ssh_test

import (
	"testing"

	"hermes/backends"
	"hermes/backends/ssh/station"
	"hermes/rollout/tool/box/boxtest"
)

// TestTools: the same calls of the same tools give the same results as on every driver.
func TestTools(t *testing.T) {
	alongside(t)
	at := serve(t)
	for _, isolation := range []string{station.Isolated, station.Plain} {
		t.Run(isolation, func(t *testing.T) {
			c := at.config(t)
			c.Isolation = isolation
			b := open(t, c)
			boxtest.Run(t, func(t *testing.T) backends.Sandbox { return openBox(t, b) })
		})
	}
}
