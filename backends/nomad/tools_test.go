//go:build linux

package nomad_test

import (
	"context"
	"testing"

	"hermes/backends"
	"hermes/backends/nomad"
	"hermes/backends/nomad/nomadtest"
	"hermes/rollout/tool/box/boxtest"
)

// TestTools: the same calls of the same tools give the same results as on every driver.
func TestTools(t *testing.T) {
	t.Parallel()
	b := open(t, cluster(t, nomadtest.Options{}), nomad.Config{Max: 4})
	boxtest.Run(t, func(t *testing.T) backends.Sandbox {
		x, err := b.Open(t.Context(), backends.Spec{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := x.Close(context.Background()); err != nil {
				t.Error(err)
			}
		})
		return x
	})
}
